"""How the output step of an integer operator is written: functions of the accumulator, and how kernels call them.

``define``: SYMBOL_requantize, exact. ``define_line``: SYMBOL_line, which is exact but for channels that have a guard
band; loops over channels call it, because they vectorise only without a branch, and requantize those channels again
afterwards. ``define_codes``: SYMBOL_code, one multiplication and a saturation without a call or a branch that is taken,
and SYMBOL_is_near_tie for channels with a guard band; kernels say where a channel's multiplier and offset are, which
both take as arguments unless all channels share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from qcgen.ir.context import LayerField
from qcgen.kernels.epilogue import Output
from qcgen.kernels.fast_output import FastOutput
from qcgen.kernels.portable.float_pointwise import NumberFunction
from qcgen.render.c_text import comment, element, fitted, int64, real

Tables = Mapping[str, str]
"""Names in C by roles."""

MODEL_ROLES = ("scale_mantissa", "scale_exponent", "addend")
"""What the model's own roundings take."""

ROOM = 104
"""Columns of a statement that is indented afterwards."""


def define(
    prefix: str, symbol: str, tables: Tables, output: Output, *, is_apart: bool = False, is_alone: bool = False
) -> str:
    """The exact function. ``is_apart``: what is rare is a function of its own, and the rest belongs to the loop that
    calls it; ``is_alone``: compilers do not inline it.
    """
    if output.kind == "raw":
        return ""
    has_tie = is_apart and output.is_guarded
    channel = ", int32_t m" if output.is_per_channel else ""
    model = _model_code(prefix, tables, output) if output.is_guarded or output.kind == "soft-float" else ""
    text = ""
    if has_tie:
        text += f"/* {symbol}: the code next to a tie. */\n"
        text += f"{prefix.upper()}_NOINLINE static int32_t {symbol}_tie(int32_t acc{channel})\n{{\n"
        text += f"{_numbers(output, MODEL_ROLES)}    return {model};\n}}\n\n"
    attributes = f"{prefix.upper()}_NOINLINE " * is_alone + "static " + f"{prefix.upper()}_INLINE " * is_apart
    text += f"{comment(f'{symbol}: the output code, {output.meaning}')}\n"
    text += f"{attributes}{output.c_type} {symbol}_requantize({output.acc_type} acc{channel})\n{{\n"
    text += _numbers(output, [role for role in output.numbers if not has_tie or role not in MODEL_ROLES])
    if output.is_guarded:
        rare = f"{symbol}_tie(acc{', m' if channel else ''})" if has_tie else model
        text += f"    const int32_t scaled = {_line_of(prefix, tables, output)};\n"
        text += f"    const int32_t code = {_is_near(prefix, tables, output)} ? {rare} : scaled >> {output.shift};\n"
    else:
        c_type = "int64_t" if output.kind == "round-once" else "int32_t"
        code = model if output.kind == "soft-float" else _line_code(prefix, tables, output)
        text += f"    const {c_type} code = {code};\n"
    return f"{text}\n    return {_clamped(prefix, output, 'code')};\n}}\n\n"


def define_line(prefix: str, symbol: str, tables: Tables, output: Output) -> str:
    """The function for channels without a guard band, if others have one."""
    if not output.is_guarded:
        return ""
    channel = ", int32_t m" if output.is_line_per_channel else ""
    return (
        f"/* {symbol}: the same for channels without a guard band, and without a branch. */\n"
        f"static {output.c_type} {symbol}_line(int32_t acc{channel})\n{{\n"
        f"{_numbers(output, output.line_roles)}    const int32_t code = {_line_code(prefix, tables, output)};\n\n"
        f"    return {_clamped(prefix, output, 'code')};\n}}\n\n"
    )


def apply(symbol: str, output: Output, acc: str, m: str) -> str:
    """The exact code of an accumulator of channel ``m``."""
    if output.kind == "raw":
        return acc
    return f"{symbol}_requantize({acc}{f', {m}' if output.is_per_channel else ''})"


def apply_line(symbol: str, output: Output, acc: str, m: str) -> str:
    """The code of an accumulator of a channel without a guard band."""
    if not output.is_guarded:
        return apply(symbol, output, acc, m)
    return f"{symbol}_line({acc}{f', {m}' if output.is_line_per_channel else ''})"


def define_codes(
    prefix: str, symbol: str, tables: Tables, output: Output, fast: FastOutput, inline: str = "inline"
) -> str:
    """The functions that the kernels of one machine call; ``inline`` is how they are declared."""
    parameters = _arguments(output, "int32_t multiplier", "int32_t offset")
    own = _numbers(output, output.shared_roles)
    text = define(prefix, symbol, tables, output, is_alone=fast.is_exact_alone) if fast.is_exact_used else ""
    if fast.is_fast:
        which = ", for channels without a guard band" if fast.has_windows else ""
        text += f"{comment(f'{symbol}: the output code of an accumulator{which}.')}\n"
        text += f"static {inline} {output.c_type} {symbol}_code(int32_t acc{parameters})\n{{\n"
        text += own + "\n" * bool(own)
        text += f"    return {_coded(prefix, output, fast, _scaled(prefix, output, fast))};\n}}\n\n"
    if fast.guard:
        meaning = f"{symbol}: stores the output code of an accumulator; returns 1 where it may be wrong."
        listed = f"int32_t acc{parameters}, {output.c_type} *out"
        text += f"{comment(meaning)}\n{fitted(f'static {inline} int {symbol}_is_near_tie', listed)}{{\n"
        text += f"{own}    const int32_t scaled = {_scaled(prefix, output, fast, fast.guard)};\n\n"
        text += f"    out[0] = {_coded(prefix, output, fast, 'scaled')};\n"
        text += f"    return {prefix}_within_step(scaled, {output.shift}, {fast.guard});\n}}\n\n"
    return text


def code(symbol: str, output: Output, fast: FastOutput, acc: str, m: str, multiplier: str, offset: str) -> str:
    """The code of an accumulator of a channel without a guard band."""
    if not fast.is_fast:
        return apply(symbol, output, acc, m)
    return f"{symbol}_code({acc}{_arguments(output, multiplier, offset)})"


def reads_channel(output: Output, fast: FastOutput) -> bool:
    """Whether that code takes a number of the channel."""
    return bool(_arguments(output, "", "")) if fast.is_fast else output.is_per_channel


def stored_code(
    place: str, symbol: str, output: Output, fast: FastOutput, acc: str, m: str, multiplier: str, offset: str
) -> str:
    """The same as a statement that stores it, indented by up to 16 columns."""
    if not fast.is_fast:
        return f"{place} = {apply(symbol, output, acc, m)};\n"
    return fitted(f"{place} = {symbol}_code", f"{acc}{_arguments(output, multiplier, offset)}", ";", ROOM)


def is_near_tie(symbol: str, output: Output, acc: str, multiplier: str, offset: str, out: str) -> str:
    """Stores the code of an accumulator of a channel that has a guard band, and tells whether it may be wrong."""
    return f"{symbol}_is_near_tie({acc}{_arguments(output, multiplier, offset)}, {out})"


def load_own(output: Output, fast: FastOutput) -> str:
    """What a layer has for itself, loaded before outputs: these may be bytes, which a compiler takes for anything."""
    numbers = {"multiplier": output.multiplier, "offset": output.offset} if fast.is_fast else {}
    return "".join(f"const int32_t {name} = {own};\n" for name, own in numbers.items() if isinstance(own, str))


def table_codes(
    prefix: str,
    symbol: str,
    tables: Tables,
    output: Output,
    fast: FastOutput,
    m: str,
    sums: Sequence[tuple[str, str]],
    has_window: bool,
) -> str:
    """Stores the codes of sums of one channel, whose parameters are in tables; some may be near a tie.

    ``sums``: each with where its code goes, as an address.
    """
    given = {"multiplier": output.multiplier, "offset": output.offset}
    multiplier, offset = (
        str(own) if own is not None else f"{tables[role]}[{m}]" if fast.is_fast else "" for role, own in given.items()
    )
    if not has_window:
        stored = (stored_code(element(out), symbol, output, fast, acc, m, multiplier, offset) for acc, out in sums)
        return "".join(stored)
    exact = [f"{element(out)} = {apply(symbol, output, acc, m)};\n" for acc, out in sums]
    if not fast.guard:
        return "".join(exact)
    near = [is_near_tie(symbol, output, acc, multiplier, offset, out.replace(" + 1 * ", " + ")) for acc, out in sums]
    tested = near[0] if len(near) == 1 else "\n        " + "\n        || ".join(near)
    return f"if ({prefix.upper()}_RARELY({tested})) {{\n{''.join(f'    {each}' for each in exact)}}}\n"


def with_function(prefix: str, function: NumberFunction, number: str, cast: str = "") -> str:
    """A function of a float number; ``cast`` stands before its parameters. NaN stays NaN, but for ThresholdedRelu."""
    if not function.function:
        return number
    name = function.function if function.is_standard else f"{prefix}_{function.function}"
    return f"{name}({', '.join([number, *(cast + real(param) for param in function.params)])})"


def _numbers(output: Output, roles: Iterable[str]) -> str:
    """Parameters that all channels share, but those that are 0, under the names of their roles."""
    lines = ""
    for role in roles:
        if number := output.numbers.get(role):
            is_wide = role == "offset" and output.kind == "wide"
            c_type = "int64_t" if is_wide else "uint32_t" if role == "guard_band" else "int32_t"
            value = int64(number) if is_wide else number
            lines += f"    const {c_type} {role} = {value}; /* {output.texts[role]} */\n"
    return lines


def _value(role: str, tables: Tables, output: Output) -> str:
    if role not in output.numbers:
        return f"{tables[role]}[m]"
    return role if output.numbers[role] else "0"


def _is_near(prefix: str, tables: Tables, output: Output) -> str:
    """Whether the line is so near a tie that the model's own roundings are needed."""
    band = _value("guard_band", tables, output)
    if output.is_always:
        return f"{band} != 0u"
    return f"{prefix.upper()}_RARELY({prefix}_within_guard(scaled, {output.shift}, {band}))"


def _line_of(prefix: str, tables: Tables, output: Output) -> str:
    """The line of an accumulator."""
    values = ["acc", *(_value(role, tables, output) for role in output.line_roles)]
    values += [str(output.word)] if output.kind == "split" else []
    values += [str(output.prescale)] if output.kind == "wide" else []
    return f"{prefix}_{output.line}({', '.join(values)})"


def _line_code(prefix: str, tables: Tables, output: Output) -> str:
    """The code by the line."""
    behind = output.plus_zero_point if output.kind == "round-once" else f" >> {output.shift}" if output.shift else ""
    return f"{_line_of(prefix, tables, output)}{behind}"


def _model_code(prefix: str, tables: Tables, output: Output) -> str:
    """The code by the model's own roundings."""
    mantissa, exponent, addend = MODEL_ROLES
    subtracted = f" - {_value(addend, tables, output)}" if output.subtracts else ""
    scale = f"{_value(mantissa, tables, output)}, {_value(exponent, tables, output)}"
    return f"{prefix}_{output.emulation}(acc{subtracted}, {scale}){output.plus_zero_point}"


def _clamped(prefix: str, output: Output, text: str, low: bool = True, high: bool = True) -> str:
    """The code within those of its bounds that are asked for."""
    both, lower, upper = (f"{prefix}_{name}" for name in output.bounding)
    if low and high:
        text = f"{both}({text}, {output.low}, {output.high})"
    elif low:
        text = f"{lower}({text}, {output.low})"
    elif high:
        text = f"{upper}({text}, {output.high})"
    return f"({output.c_type}){text}"


def _scaled(prefix: str, output: Output, fast: FastOutput, guard: int = 0) -> str:
    multiplier, offset = ("0" if getattr(output, role) == 0 else role for role in ("multiplier", "offset"))
    if fast.bare and not guard:
        return f"{prefix}_{fast.bare}(acc, {multiplier})"
    added = offset if not guard else str(guard) if offset == "0" else f"{offset} + {guard}"
    return f"{prefix}_{fast.scale}(acc, {multiplier}, {added}{f', {output.word}' if fast.is_split else ''})"


def _coded(prefix: str, output: Output, fast: FastOutput, scaled: str) -> str:
    code = f"{prefix}_{fast.saturate}({scaled} >> {output.shift})"
    return _clamped(prefix, output, code, fast.clamps_low, fast.clamps_high)


def _arguments(output: Output, multiplier: str, offset: str) -> str:
    """Those that not all channels share."""
    given = ((output.multiplier, multiplier), (output.offset, offset))
    return "".join(f", {text}" for own, text in given if own is None or isinstance(own, LayerField))
