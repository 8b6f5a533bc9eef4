"""Rules of MISRA C:2012 that generated C violates, counted by cppcheck; `python -m misra` writes docs/misra.md."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "misra.md"

FILES = {
    "network_qop": ("-D__GNUC__=12",),
    "dense_cortex_m4": ("-D__GNUC__=12", "-D__ARM_FEATURE_SIMD32=1", "-D__thumb2__=1", "-D__ARM_ARCH=7"),
    "narrow_cortex_m0": ("-D__GNUC__=12", "-D__thumb__=1", "-D__ARM_ARCH=6"),
}
"""Files of the gallery, and how their compilers call themselves."""

RULES = {
    "2.2": ("required", "terms * 0 of offsets: the same text serves every tap; compilers drop them"),
    "2.3": ("advisory", "a typedef is an assertion while compiling; types of the arena are the caller's"),
    "2.4": ("advisory", "structs and enums have tags, or name constants of a function"),
    "2.5": ("advisory", "macros of the header are for the caller"),
    "2.7": ("advisory", "cppcheck does not see the operands of assembly"),
    "8.9": ("advisory", "tables stand at the head of their layer, to be placed by NAME_CONST_ATTR"),
    "8.14": (
        "required",
        "restrict lets compilers keep sums in registers; arguments are proved apart by the arena's plan",
    ),
    "10.1": ("required", "arithmetic shifts of negative numbers, which the source asserts while compiling"),
    "10.3": ("required", "a condition, 0 or 1, is a number: no branch"),
    "10.4": ("required", "signed constants meet unsigned numbers; their values are in the range of both"),
    "10.6": ("required", "wider numbers take what was computed in 32 bits, whose range is proved"),
    "10.8": ("required", "sums modulo 2^32 become signed numbers: a precondition, in the header"),
    "11.5": ("advisory", "the arena is a pointer to void, of words"),
    "12.1": ("advisory", "usual precedence of arithmetic and comparisons"),
    "12.3": ("advisory", "declarations of several variables of one kind"),
    "13.3": ("advisory", "a pointer steps as its target is written"),
    "15.5": ("advisory", "extremes return at once"),
    "17.8": ("advisory", "parameters step through memory"),
    "18.4": ("advisory", "addresses of rows are sums"),
    "20.7": ("required", "a parameter of a macro is text of assembly"),
    "20.10": ("advisory", "text of assembly is joined by #"),
}
"""Each rule's category, and why code of the generator violates it."""


def counts(name: str, folder: Path = ROOT / "generated") -> dict[str, int]:
    """How often a file violates each rule, by cppcheck's add-on."""
    command = ["cppcheck", "--addon=misra", "--std=c99", "--platform=unix32", "--quiet", "--max-configs=1"]
    with tempfile.TemporaryDirectory() as own:  # cppcheck leaves files beside the one that it reads
        path = shutil.copy(folder / f"{name}.c", own)
        words = [*command, *FILES[name], "-I", str(ROOT / "generated"), path]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"\[misra-c2012-([\d.]+)\]", said)
    return {rule: found.count(rule) for rule in sorted(set(found), key=lambda rule: tuple(map(int, rule.split("."))))}


def table() -> str:
    """The rules with their counts, as the page has them."""
    columns = {name: counts(name) for name in FILES}
    rules = [rule for rule in RULES if any(rule in column for column in columns.values())]
    unknown = {rule for column in columns.values() for rule in column} - RULES.keys()
    assert not unknown, f"RULES has no reason for {', '.join(sorted(unknown))}"
    lines = [f"rule   category  {'  '.join(FILES)}  why"]
    for rule in rules:
        cells = "  ".join(f"{columns[name].get(rule, 0):>{len(name)}}" for name in FILES)
        lines.append(f"{rule:<6} {RULES[rule][0]:<8}  {cells}  {RULES[rule][1]}")
    return "\n".join(lines) + "\n"


def page(old: str) -> str:
    """The text of the page with today's table."""
    return re.sub(r"(?<=```text\n).*?(?=```)", lambda _: table(), old, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
