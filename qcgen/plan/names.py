"""C symbols for models, tensors and nodes; nothing else makes symbols."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

MAX_LENGTH = 40  # of one part, so that whole symbols stay within the 63 characters that C99 promises to tell apart

DSP_NAMES = (
    "dsp",
    "dsp_load_word",
    "dsp_load_two",
    "dsp_load_twos",
    "dsp_two_at",
    "dsp_even_s8",
    "dsp_odd_s8",
    "dsp_even_u8",
    "dsp_odd_u8",
    "dsp_add_even_s8",
    "dsp_add_odd_s8",
    "dsp_add_even_u8",
    "dsp_add_odd_u8",
    "dsp_pair",
    "dsp_pair_high",
    "dsp_sub",
    "dsp_product",
    "dsp_dot",
    "dsp_difference",
    "dsp_crossed",
    "dsp_cross_bytes",
    "dsp_cross_four_bytes",
    "dsp_cross_two",
    "dsp_cross_four",
    "dsp_cross_six",
    "dsp_cross_six_rest",
    "dsp_low_by_low",
    "dsp_low_by_high",
    "dsp_high_by_low",
    "dsp_upper",
    "dsp_high",
    "dsp_scale",
    "dsp_saturate_s8",
    "dsp_saturate_u8",
)
"""Instructions of Arm's DSP extension, each under its feature macro."""

MVE_NAMES = (
    "mve",
    "mve_load",
    "mve_store",
    "mve_copy_s8",
    "mve_copy_u8",
    "mve_fill",
    "mve_sums",
    "mve_sums_one",
    "mve_sums_two",
    "mve_add",
    "mve_add_all",
    "mve_scale",
    "mve_at_least",
    "mve_at_most",
    "mve_left",
    "mve_largest",
    "mve_round",
    "mve_shift",
    "mve_saturate_s8",
    "mve_saturate_u8",
    "mve_store_bytes",
    "mve_store_some",
    "mve_s8",
    "mve_load_s8",
    "mve_load_part",
    "mve_store_s8",
    "mve_signed",
    "mve_interleave",
    "mve_gather",
    "mve_ahead",
    "mve_dot",
    "mve_windows",
    "mve_four",
    "mve_lower",
    "mve_and",
)
"""Instructions of Helium, Arm's M-profile vector extension, each under its feature macro."""

SCALAR_NAMES = (
    "scalar_multiply_add",
    "scalar_sums",
    "scalar_group1",
    "scalar_group2",
    "scalar_two_groups2",
    "scalar_group4",
    "scalar_group8",
    "scalar_channel1",
    "scalar_channel2",
    "scalar_channel4",
    "scalar_packed1",
    "scalar_packed2",
    "scalar_scale",
    "scalar_scale_split",
    "scalar_saturate_s8",
    "scalar_saturate_u8",
)
"""What kernels for cores without SIMD call."""


SUPPORT_NAMES = (
    "run",
    "right_shift",
    "multiply_high",
    "to_int32",
    "emulate",
    "round_half_even",
    "soft_float",
    "compiler",
    *DSP_NAMES,
    *MVE_NAMES,
    *SCALAR_NAMES,
)
"""What the generated file itself defines under the model's prefix."""

_RESERVED = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and asm bool catch class compl concept constexpr delete explicit export false friend mutable
    namespace new noexcept not nullptr operator or private protected public requires template this throw true try
    typeid typename using virtual xor wchar_t char8_t char16_t char32_t co_await co_return co_yield consteval constinit
    const_cast decltype dynamic_cast reinterpret_cast static_assert static_cast thread_local and_eq bitand bitor not_eq
    or_eq xor_eq final override
    NULL EOF errno stdin stdout stderr assert linux unix arena
    """.split()
)
"""Words that cannot be parameters: keywords of C and C++, macros of the standard library and of common compilers."""

_STANDARD = re.compile(
    r"u?int\w*_t|U?INT\w*(_MIN|_MAX|_C)|(PTRDIFF|SIG_ATOMIC|SIZE|WCHAR|WINT)_(MIN|MAX)|size_t|ptrdiff_t"
)
"""What <stdint.h> and <stddef.h> define."""


def is_reserved(text: str) -> bool:
    """Whether an identifier has a meaning in C, C++ or the headers that generated code includes."""
    return text in _RESERVED or _STANDARD.fullmatch(text) is not None


def identifier(text: str, fallback: str) -> str:
    """``text`` as a part of a C symbol: letters, digits and single underscores; ``fallback`` if nothing is left."""
    parts = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:MAX_LENGTH].strip("_")
    return parts or fallback


def prefix_of(text: str) -> str:
    """A model's prefix: an identifier that does not start with a digit and is no reserved word."""
    name = identifier(text, "model")
    return f"model_{name}" if name[0].isdigit() or is_reserved(name) else name


def is_prefix(text: str) -> bool:
    """Whether a prefix that the user chose can start C symbols."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text) is not None and not is_reserved(text) and not text.endswith("_")


def parameter_names(tensors: Iterable[str], symbols: Collection[str] = ()) -> tuple[str, ...]:
    """Parameters of the C function, one per tensor: unique even in capitals, which the macros are written in.

    ``symbols`` are those of nodes: a parameter must not hide one, nor a table or function that extends it.
    """
    names: list[str] = []
    for tensor in tensors:
        base = identifier(tensor, "tensor")
        base = f"t{base}" if base[0].isdigit() else base
        base = f"{base}_" if is_reserved(base) else base
        base = f"tensor_{base}" if any(f"{base}_".startswith(f"{symbol}_") for symbol in symbols) else base
        name, number = base, 2
        while name.upper() in (taken.upper() for taken in names):
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return tuple(names)


def node_names(nodes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Parts of symbols for nodes, given as (name, operator).

    A node's tables and functions extend its own symbol by an underscore and a word, so no name may begin like another
    one that is extended: such a name gets the node's number in front.
    """
    names: list[str] = []
    for index, (node, operator) in enumerate(nodes):
        name = identifier(node, operator.lower())
        if any(_collide(name, other) for other in (*SUPPORT_NAMES, *names)):
            name = f"n{index}_{name}"
        names.append(name)
    return tuple(names)


def _collide(one: str, other: str) -> bool:
    return f"{one}_".startswith(f"{other}_") or f"{other}_".startswith(f"{one}_")
