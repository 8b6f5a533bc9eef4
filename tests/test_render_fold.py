"""Lines of generated C that are too long for a page."""

import re
from dataclasses import replace

import pytest
from bench.whole import DIGITS
from hypothesis import given
from hypothesis import strategies as st

import qcgen
from qcgen.render.c_text import PAGE, folded
from qcgen.render.head import summary

NAMES = st.text(st.sampled_from("abc_"), min_size=1, max_size=50)
CALLS = st.builds(
    lambda indent, names: " " * indent + f"y = {names[0]}({', '.join(names)}) + {' + '.join(names)};",
    st.integers(0, 40),
    st.lists(NAMES, min_size=1, max_size=12),
)


def test_a_long_string_of_a_macro_stands_below_its_name():
    text = folded(f'#define {"N" * 60} "{"s" * 64}"')
    assert text == f'#define {"N" * 60} \\\n    "{"s" * 64}"'


def tokens(text):
    return re.findall(r"\w+|\S", text)


@given(CALLS)
def test_code_is_broken_between_tokens_alone(line):
    assert tokens(folded(line)) == tokens(line)


@given(CALLS)
def test_code_fits(line):
    assert all(len(each) <= PAGE for each in folded(line).split("\n"))


def test_what_fits_stays_as_it_is():
    text = "    f(a,   b); /* c */\n#define X 1\n\n"
    assert folded(text) == text


def test_arguments_are_parted_before_those_of_inner_calls():
    line = "    store(" + "first_value(a, b), " * 6 + "last_value(a, b));"
    assert all(each.count("(") - each.count(")") in {0, 1, -1} for each in folded(line).split("\n"))
    assert folded(line).split("\n")[1].startswith("        first_value(a, b)")


def test_what_a_line_opens_without_closing_it_is_indented_below():
    head, name = "static void " + "n" * 80 + "(const int8_t *first, ", "second" * 3
    assert folded(f"{head}const int8_t *{name},") == f"{head.rstrip()}\n    const int8_t *{name},"


def test_a_signature_of_several_lines_flows_anew_where_one_is_too_long():
    parameters = [f"const int8_t *{'p' * 30}{i}" for i in range(5)]
    text = "static void f(\n    " + ",\n    ".join((", ".join(parameters[:3]), ", ".join(parameters[3:]))) + ")\n{\n}"
    found = folded(text).split("\n")
    assert found[0].startswith("static void f(const int8_t *p")
    assert [line[:4] for line in found[1:-2]] == ["    "] * 2
    assert found[-2:] == ["{", "}"]
    assert folded(text.replace("p" * 30, "p")) == text.replace("p" * 30, "p")


def test_a_call_of_several_lines_does_so_too():
    arguments = [f"{'a' * 35}{i}" for i in range(5)]
    text = "    f(" + ",\n        ".join((", ".join(arguments[:4]), arguments[4])) + ");\n    return;"
    assert folded(text).split("\n")[1:] == [f"        {arguments[3]}, {arguments[4]});", "    return;"]


def test_strings_and_directives_stay_where_they_are():
    text = f"    f({'a' * 130},\n#if X\n        1);\n#else\n        2);\n#endif\n"
    assert "#if X\n        1);\n#else\n" in folded(text)
    text = f"    f({'a' * 130},\n        'b', \"c, d\");"
    assert folded(text).endswith("\n        'b', \"c, d\");")
    text = f"    f({'a' * 130}, b), f(c),\n    d,"
    assert folded(text).endswith("f(c),\n    d,")


def test_a_parameter_that_does_not_fit_stands_whole_on_the_next_line():
    line = f"static void {'n' * 80}(const struct {'t' * 30} *layer, int n)"
    assert folded(line) == f"static void {'n' * 80}(\n    const struct {'t' * 30} *layer, int n)"


def test_items_of_a_list_stay_below_each_other():
    line = "        " + ", ".join(f"A_LONG_NAME_OF_AN_ENUMERATOR_{i} = {i}" for i in range(6)) + ","
    assert all(each.startswith("        A_LONG") for each in folded(line).split("\n"))


def test_a_comment_becomes_one_of_several_lines():
    assert folded("    /* " + "word " * 40 + "*/").split("\n")[0::3] == ["    /*", "     */"]


def test_a_line_of_a_comment_keeps_its_indentation():
    text = "/*\n *   " + "word " * 40 + "\n */"
    assert folded(text).split("\n")[2].startswith(" *   word")


def test_a_comment_behind_code_moves_before_it():
    code = "    int32_t " + "a" * 100 + ";"
    assert folded(f"{code} /* what it is */") == f"    /* what it is */\n{code}"


def test_directives_are_never_broken():
    text = "#define LONG " + "a, " * 60 + "\\\n    " + "b, " * 60
    assert folded(text) == text


def test_what_belongs_to_a_label_stays_under_it():
    text = "/*\n * options  --target portable " + "--word " * 20 + "\n */"
    _, first, second, _ = folded(text).split("\n")
    assert first.index("--target") == second.index("--word")


def test_a_comment_that_is_folded_flows_on_to_the_end_of_its_paragraph():
    words = " ".join(["word"] * 24)
    text = f"/*\n * {words} and\n * more.\n *\n * Another paragraph.\n */"
    assert folded(text) == f"/*\n * {' '.join(['word'] * 23)}\n * word and more.\n *\n * Another paragraph.\n */"


def test_what_follows_a_folded_line_with_a_label_stays_below_it():
    text = f"/*\n * label  {'word ' * 23}end\n *        behind it\n * other  text\n */"
    assert (
        folded(text)
        == f"/*\n * label  {'word ' * 22}\n".rstrip() + "\n *        word end behind it\n * other  text\n */"
    )


@pytest.mark.parametrize(("length", "titles"), [(16, "no. node operator"), (24, "no. kernel"), (44, "no. kernel")])
def test_the_table_of_nodes_has_a_line_for_each(length, titles):
    plan = qcgen.compile(next(each.path for each in DIGITS)).plan
    steps = [replace(call, op=replace(call.op, name="n" * length)) for call in plan.calls]
    head, *lines = summary(replace(plan, steps=steps))
    assert " ".join(head.split()).startswith(titles)
    assert all(len(line) + len(" * ") <= PAGE and line.count("n" * length) == 1 for line in lines)
    assert len(lines) == len(steps)
