"""C symbols for models, tensors and nodes; nothing else makes symbols."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from qcgen import library

MAX_LENGTH = 40  # of one part, so that whole symbols stay within the 63 characters that C99 promises to tell apart

PUBLIC = ("run", "arena", "quantize", "dequantize", "test")
"""What the header defines under the model's prefix; the last two go on with a tensor's name."""

_RESERVED = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and asm bool catch class compl concept constexpr delete explicit export false friend mutable
    namespace new noexcept not nullptr operator or private protected public requires template this throw true try
    typeid typename using virtual xor wchar_t char8_t char16_t char32_t co_await co_return co_yield consteval constinit
    const_cast decltype dynamic_cast reinterpret_cast static_assert static_cast thread_local and_eq bitand bitor not_eq
    or_eq xor_eq final override
    typeof typeof_unqual noreturn reflexpr synchronized atomic_cancel atomic_commit atomic_noexcept
    errno stdin stdout stderr assert complex imaginary math_errhandling signgam environ timezone daylight tzname
    offsetof va_arg va_copy va_end va_start setjmp L_tmpnam L_ctermid L_cuserid P_tmpdir fd_set strtodf physadr quad
    sched_priority sigev_notify_attributes sigev_notify_function linux unix i386 mips sparc sun vax arm avr hpux
    arena bytes hashes
    """.split()
)
"""Words that cannot be parameters: keywords of C and C++, what headers of the standard library and of POSIX define as
macros or variables, macros of common compilers, and what the C function itself calls its memory.
"""

_IN_STREAMS = frozenset(("i", "start", "to", "memcpy", "memmove", "memset"))
"""What functions that run layers row by row call their variables, and what they call: no parameter is named so."""

_STANDARD = re.compile(r"u?int\w*_t|U?INT\w*_C|size_t|ptrdiff_t|s[ai]_\w+|(PRI|SCN|M_|SNANF|HUGE_VAL_F|FLT|DBL)\w+")
"""What <stdint.h>, <stddef.h>, <inttypes.h>, <math.h> and <signal.h> define."""

_HEADERS = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
    stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
    arm_acle arm_mve features alloca endian malloc memory new strings unistd
    """.split()
)
"""Headers that a model's own must not be taken for."""


def _is_macro(text: str) -> bool:
    """Whether an identifier is written as macros are: NAN, HUGE_VALF and any that the caller's headers define."""
    return len(text) > 1 and text == text.upper() and any(c.isalpha() for c in text)


def _is_reserved(text: str) -> bool:
    """Whether an identifier has a meaning in C, C++ or the headers that generated code includes."""
    return text in _RESERVED or _STANDARD.fullmatch(text) is not None


def identifier(text: str, fallback: str) -> str:
    """``text`` as a part of a C symbol: letters, digits and single underscores; ``fallback`` if nothing is left."""
    parts = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:MAX_LENGTH].strip("_")
    return parts or fallback


def prefix_of(text: str) -> str:
    """A model's prefix: an identifier that does not start with a digit, no reserved word and no standard header."""
    name = identifier(text, "model")
    return f"model_{name}" if name[0].isdigit() or _is_reserved(name) or _is_header(name) else name


def _is_header(name: str) -> bool:
    """Whether NAME.h is a header of the standard library, on file systems that ignore case as on others."""
    return name.lower() in _HEADERS


def is_prefix(text: str) -> bool:
    """Whether a prefix that the user chose can start C symbols."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text) is None or text.endswith("_"):
        return False
    return not _is_reserved(text) and not _is_header(text)


WEIGHTS = ("weights", "weights_check", "weights_are_packed", "linked_weights", "block")
"""Of weights in a block."""

STOPPING = ("status", "turn")
"""What functions that the hook may end have besides."""


def parameter_names(
    tensors: Iterable[str], symbols: Collection[str] = (), variables: Collection[str] = ()
) -> tuple[str, ...]:
    """Parameters of the C function, one per tensor: unique even in capitals, which the macros are written in.

    Names in capitals are written small, since any header may define them. ``symbols`` are those of functions: a
    parameter must not hide one, nor a table or function that extends it. ``variables``: what the function has besides.
    """
    names: list[str] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    extended = frozenset(symbols)
    for tensor in tensors:
        base = identifier(tensor, "tensor")
        base = base.lower() if _is_macro(base) or base == "I" else base
        base = f"t{base}" if base[0].isdigit() else base
        base = f"{base}_" if _is_reserved(base) or base in (*_IN_STREAMS, *variables) else base
        base = f"tensor_{base}" if any(part in extended for part in _beginnings(base)) else base
        name, number = base, numbers.get(base, 2)
        while name.upper() in taken:
            name, number = f"{base}_{number}", number + 1
        numbers[base] = number
        taken.add(name.upper())
        names.append(name)
    return tuple(names)


ROWS = "rows"
"""What follows the prefix in symbols of chains that run row by row, before the chain's number."""


SHARED = "shared"
"""What follows the prefix in symbols of functions that layers share."""


ACCESSORS = ("input", "output")
"""What follows the prefix in functions that tell where inputs and outputs lie in the arena."""


PUSHING = ("begin", "push_row", "end")
"""What follows the prefix in the functions of a network that gets its input row by row."""


STATE = "state"
"""What the parameter is called that is the caller's memory for states."""

SLOW = "slow"
"""What the parameter is called that is the part of the arena in a slow memory."""

KEEPING = ("reset",)
"""What follows the prefix in the function that makes states initial, and, before a number, in tables of these."""


def accessor_names(symbols: Sequence[str], kind: str) -> tuple[str, ...]:
    """The functions, less the prefix, that tell where the inputs or the outputs of these symbols lie.

    >>> accessor_names(["x"], "input"), accessor_names(["a", "b"], "output")
    (('input',), ('output_a', 'output_b'))
    """
    return (kind,) if len(symbols) == 1 else tuple(f"{kind}_{symbol}" for symbol in symbols)


def node_names(nodes: Iterable[tuple[str, str]], prefix: str, public: Collection[str] = ()) -> tuple[str, ...]:
    """Parts of symbols for nodes, given as (name, operator), that follow ``prefix`` and an underscore.

    A node's tables and functions extend its own symbol by an underscore and a word, so no name may begin like another
    one that is extended: such a name gets the node's number in front. So does one that would make a reserved word of
    the symbol, or one in capitals, which are the file's own macros: NET_H. ``public`` are names of functions beside
    NAME_run that the caller knows.
    """
    names: list[str] = []
    taken = {*_own_names(), *public}
    begun = set(_begun_by_own_names()).union(*map(_beginnings, public))
    for index, (node, operator) in enumerate(nodes):
        name = identifier(node, operator.lower())
        symbol = f"{prefix}_{name}"
        collides = name in begun or any(part in taken for part in _beginnings(name))
        if symbol == symbol.upper() or _is_reserved(symbol) or collides:
            name = f"n{index}_{name}"
        taken.add(name)
        begun.update(_beginnings(name))
        names.append(name)
    return tuple(names)


@cache
def _own_names() -> frozenset[str]:
    """Parts of symbols that generated files and the library have for themselves."""
    return frozenset({*PUBLIC, *library.reserved(), ROWS, SHARED})


@cache
def _begun_by_own_names() -> frozenset[str]:
    return frozenset(part for name in _own_names() for part in _beginnings(name))


def _beginnings(name: str) -> list[str]:
    """The names that this one extends by an underscore and more, and itself.

    >>> _beginnings("a_bc_d")
    ['a', 'a_bc', 'a_bc_d']
    """
    return [name[:end] for end in (*(match.start() for match in re.finditer("_", name)), len(name))]
