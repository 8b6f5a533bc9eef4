"""Lines of C that names or numbers of a model made too long, folded to the width of a page."""

from __future__ import annotations

import re
import textwrap
from collections import deque

WIDTH = 120  # columns of a line

_BREAKS = (
    re.compile(r", |; |(?= (?:\|\||&&|\?|:) )"),
    re.compile(r"(?<=[ +])= |(?= (?:[-+&<>]|[<>=]=) )"),
)
"""Where a line may end: behind a comma or a semicolon, before an operator; if there is none, before those that bind
more closely."""

_LAST_RESORTS = (re.compile(r"(?<=\w\()"), re.compile(r"(?= [\w*])"))

_LONE_COMMENT = re.compile(r"( *)/\* (.*) \*/")
_COMMENT_BEHIND = re.compile(r"(.*[;{,]|#define .*\S) /\* (.*) \*/")
_MACRO = re.compile(r"(#define \w+) (\S.*)")
_INSIDE_COMMENT = re.compile(r"( *\* +)(.*)")
_LABEL = re.compile(r"\w+  +(?=\S)")
_OPENED = re.compile(r" *[A-Za-z(].*\((?:.*,)?$")
_APART = re.compile(r'^#|"|/\*')  # what stands on a line of its own, and strings


def folded(text: str) -> str:
    """C whose lines fit, where they can be broken: between arguments and operands, as far outside as can be.

    A comment behind code moves in front of it. Assembly and macros with parameters stay as they are: a model does not
    make them longer.

    >>> print(folded("static void f(" + "const int8_t *restrict a_long_name_of_a_pointer, " * 3 + "int32_t n)"))
    static void f(const int8_t *restrict a_long_name_of_a_pointer, const int8_t *restrict a_long_name_of_a_pointer,
        const int8_t *restrict a_long_name_of_a_pointer, int32_t n)
    """
    given = text.split("\n")
    if max(map(len, given)) <= WIDTH:
        return text
    lines: list[str] = []
    in_comment = False
    rest = deque(given)
    while rest:
        line = rest.popleft()
        if _OPENED.match(line) and not in_comment and not _APART.search(line):
            line = _whole(line, rest)
        is_macro = line.endswith("\\") or (lines and lines[-1].endswith("\\"))
        if len(line) <= WIDTH or is_macro:
            lines.append(line)
        elif in_comment:
            lines += _folded_comment_line(line, rest)
        elif match := _LONE_COMMENT.fullmatch(line):
            lines += _folded_comment(*match.groups())
        else:
            lines += [line] if line.lstrip().startswith("/*") else _folded_code(line)
        if "/*" in line or "*/" in line:
            in_comment = line.rfind("/*") > line.rfind("*/") or (in_comment and "*/" not in line)
    return "\n".join(lines)


def _whole(line: str, rest: deque[str]) -> str:
    """A signature or a call whose lines are taken from the ``rest`` if one of them does not fit; else the line."""
    depth, more = _depth(line), list[str]()
    while depth > 0 and len(more) < len(rest) and not _APART.search(rest[len(more)]):
        more.append(rest[len(more)])
        depth += _depth(more[-1])
        if depth > 0 and not more[-1].endswith((",", "(")):
            return line
    if depth or max(map(len, (line, *more))) <= WIDTH:
        return line
    return " ".join((line, *(rest.popleft().lstrip() for _ in more))).replace("( ", "(")


def _folded_comment(indent: str, text: str) -> list[str]:
    leader = f"{indent} * "
    return [f"{indent}/*", *textwrap.wrap(text, WIDTH, initial_indent=leader, subsequent_indent=leader), f"{indent} */"]


def _folded_comment_line(line: str, rest: deque[str]) -> list[str]:
    """A line inside a comment; what follows in its paragraph is taken from the ``rest`` and flows behind it."""
    match = _INSIDE_COMMENT.fullmatch(line)
    if match is None:
        return [line]
    leader, text = match.groups()
    label = _LABEL.match(text)
    behind = leader + " " * len(label[0]) if label else leader
    while (more := _INSIDE_COMMENT.fullmatch(rest[0])) and more[1] == behind and not _LABEL.match(more[2]):
        text = f"{text} {more[2]}"
        rest.popleft()
    return textwrap.wrap(text, WIDTH, initial_indent=leader, subsequent_indent=behind, break_long_words=False)


def _folded_code(line: str) -> list[str]:
    lines, rest = [], line
    indent = len(line) - len(line.lstrip())
    if match := _COMMENT_BEHIND.fullmatch(line):
        code, text = match.groups()
        return folded(f"{' ' * indent}/* {text} */\n{code}").split("\n")
    if match := _MACRO.fullmatch(line):
        return [f"{match[1]} \\", f"    {match[2]}"]
    if line.startswith("#") or '"' in line:  # a string has commas of its own
        return [line]
    if line[-1] in ";{)" or _depth(line) > 0:  # not a line of a list, whose items stay below each other
        indent += 4
    while len(rest) > WIDTH and (end := _break(rest, indent)):
        lines.append(rest[:end].rstrip())
        rest = " " * indent + rest[end:].lstrip()
    return [*lines, rest]


def _break(line: str, indent: int) -> int | None:
    """Where to break: of the places within the width that the fewest parentheses enclose, the last one.

    After `=` only if all that follows fits on a line of this indentation.
    """
    start = len(line) - len(line.lstrip())
    found = []
    for rank, pattern in enumerate(_BREAKS):
        for match in pattern.finditer(line, start):
            end = match.end()
            fits = len(line[:end].rstrip()) <= WIDTH
            if fits and (match[0] != "= " or indent + len(line) - end <= WIDTH):
                found.append((_depth(line[:end]), rank, -end))
    if found:
        return -min(found)[2]
    ends = [[match.end() for match in pattern.finditer(line, start)] for pattern in _LAST_RESORTS]
    return next((max(within) for each in ends if (within := [end for end in each if end <= WIDTH])), None)


def _depth(text: str) -> int:
    return sum(text.count(c) for c in "([{") - sum(text.count(c) for c in ")]}")
