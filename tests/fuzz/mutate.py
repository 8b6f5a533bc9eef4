"""Small changes of a model: of attributes, shapes, types, edges, initializers, names and raw bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from fuzz.operators import CONVOLUTIONS, NODES
from fuzz.seeds import Seeds
from qcgen.cores import TARGETS

Change = Callable[[ModelProto, random.Random], None]

INTEGERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 100, 127, 128, 255, 256, 1000, 65536, 10**6, 2**31 - 1, 2**31, 2**32, 2**62)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-8, 1e-3, 3.7, 255.0, 1e6, 1e30, 3.4e38, np.inf, -np.inf, np.nan)
WORDS = (
    "", "x", "y", "int", "bytes", "NAN", "NULL", "H", "arena", "main", "run", "a b", "1a", "é", "名", "\n", "\x1b[1m",
    "*/", "//", "\\", '"', "%s", "{{ x }}", "_", "__", "a" * 300, "INT8_MAX", "memcpy", "0", "\x00", "../x",
)  # fmt: skip
DIMENSIONS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 33, -1, 1000, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
TYPES = tuple(range(26))
NAMES_OF_ATTRIBUTES = sorted({name for _, attributes in NODES.values() for name in attributes} | {
    "auto_pad", "ceil_mode", "dilations", "axes", "allowzero", "pads", "value", "mode", "block_size", "storage_order",
    "coordinate_transformation_mode", "group", "activation", "activation_params", "count_include_pad", "epsilon",
})  # fmt: skip
TEXTS = (
    "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "constant", "edge", "reflect", "wrap", "nearest", "linear", "floor",
    "ceil", "round_prefer_ceil", "half_pixel", "asymmetric", "align_corners", "Relu", "Clip", "Tanh", "LeakyRelu",
)  # fmt: skip


def mutant(seeds: Seeds, rng: random.Random) -> tuple[bytes, dict[str, Any]]:
    """A changed model and options to compile it with; the same for the same state of ``rng``."""
    options = options_of(rng)
    is_in_rows = options["arena"] is not None and rng.random() < 0.5
    content = rng.choice(seeds.in_rows if is_in_rows else seeds.own)[1]
    other = rng.random()
    if seeds.beside and other < 0.1:
        content = seeds.beside[int(other * 10 * len(seeds.beside))][1]
    if rng.random() < 0.06:
        return changed_bytes(content, rng), options
    model = ModelProto()
    model.ParseFromString(content)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        try:
            rng.choice(CHANGES)(model, rng)
        except Exception:
            continue  # there was nothing of that kind, protobuf cannot hold it, or onnx cannot read it any more
    content = model.SerializeToString(deterministic=True)
    return (changed_bytes(content, rng) if rng.random() < 0.02 else content), options


def options_of(rng: random.Random) -> dict[str, Any]:
    """Options of qcgen.compile, mostly the plain ones."""
    arena = rng.choice((None, None, None, "least", "least", int(2 ** rng.uniform(4, 14))))
    layouts = ("model", "nhwc", "nchw") if arena is None else ("model", "nhwc", "nhwc", "nchw")
    arenas = ("caller", "caller", "caller", "arena")
    return {
        "arena": arena,
        "io_memory": rng.choice(arenas),
        "input": "rows" if arena is not None and rng.random() < 0.3 else "whole",
        "target": rng.choice(("portable", rng.choice(tuple(TARGETS)))),
        "layout": rng.choice(layouts),
        "optimize": rng.choice(("size", "size", "speed")),
        "io": rng.choice(("model", "model", "model", "quantized")),
        "simplify": rng.random() < 0.9,
    }


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bytes changed, removed, repeated or cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        start = rng.randrange(len(data))
        count = rng.choice((1, 1, 2, 4, 8, 64))
        match rng.randrange(5):
            case 0:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                data[start] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del data[start : start + count]
            case 3:
                data[start:start] = data[start : start + count]
            case 4:
                data[start : start + count] = rng.randbytes(count)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


# Attributes.


def _attribute(model: ModelProto, rng: random.Random) -> tuple[NodeProto, AttributeProto]:
    node = rng.choice([node for node in model.graph.node if node.attribute])
    return node, rng.choice(node.attribute)


def integer(rng: random.Random, near: int | None = None) -> int:
    """A number that is special, small, or near another one."""
    if near is not None and rng.random() < 0.5:
        return max(-(2**63), min(2**63 - 1, near + rng.choice((-2, -1, 1, 2)) if rng.random() < 0.8 else -near))
    value = rng.choice(INTEGERS[: rng.choice((6, len(INTEGERS)))])
    return -value if rng.random() < 0.25 else value


def number(rng: random.Random, near: float = 1.0) -> float:
    if rng.random() < 0.5:
        return float(np.float32(near * rng.choice((0.5, 0.9, 1.1, 2, -1, 1000, 1e-6)))) if np.isfinite(near) else 1.0
    return float(rng.choice(FLOATS)) * rng.choice((1, -1))


def change_attribute(model: ModelProto, rng: random.Random) -> None:
    """One attribute gets a value of its own kind."""
    _, attribute = _attribute(model, rng)
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = integer(rng, attribute.i)
        case AttributeProto.FLOAT:
            attribute.f = number(rng, attribute.f)
        case AttributeProto.STRING:
            attribute.s = rng.choice((*TEXTS, *WORDS)).encode()
        case AttributeProto.INTS:
            attribute.ints[:] = _changed_list(list(attribute.ints), rng)
        case AttributeProto.FLOATS:
            attribute.floats[:] = [number(rng, value) for value in attribute.floats]
        case _:
            attribute.type = rng.randrange(16)


def _changed_list(values: list[int], rng: random.Random) -> list[int]:
    index = rng.randrange(len(values) + 1)
    match rng.randrange(6):
        case 0:
            values.insert(index, integer(rng))
        case 1:
            del values[index : index + 1]
        case 2:
            rng.shuffle(values)
        case 3:
            values = [integer(rng, value) for value in values]
        case _:
            index = min(index, len(values) - 1)
            values[index] = integer(rng, values[index])
    return values


def replace_attribute(model: ModelProto, rng: random.Random) -> None:
    """One attribute becomes another kind, goes, comes twice, or is joined by one of any name."""
    node = rng.choice(model.graph.node)
    choice = rng.randrange(4)
    if choice == 0:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif choice == 1:
        node.attribute.append(rng.choice(node.attribute))
    else:
        name = rng.choice(NAMES_OF_ATTRIBUTES) if choice == 2 else rng.choice(node.attribute).name
        for index in reversed([i for i, own in enumerate(node.attribute) if own.name == name]):
            del node.attribute[index]
        node.attribute.append(helper.make_attribute(name, _any_value(rng)))


def _any_value(rng: random.Random) -> Any:
    count = rng.randrange(1, 5)
    return rng.choice((
        integer(rng), number(rng), rng.choice(TEXTS), [integer(rng) for _ in range(count)], [1] * count, [0, 1] * count,
        [number(rng) for _ in range(count)], numpy_helper.from_array(np.zeros(rng.choice((0, 1, 3)), np.float32)),
        [rng.choice(WORDS)] * count,
    ))  # fmt: skip


# Shapes and types.


def _declared(model: ModelProto, rng: random.Random) -> ValueInfoProto:
    graph = model.graph
    return rng.choice([*graph.input, *graph.input, *graph.output, *graph.value_info])


def change_dimension(model: ModelProto, rng: random.Random) -> None:
    shape = _declared(model, rng).type.tensor_type.shape
    dim = rng.choice(shape.dim)
    kind = rng.random()
    if kind < 0.1:
        dim.dim_param = rng.choice(("N", "batch", *WORDS))
    elif kind < 0.15:
        dim.Clear()
    else:
        dim.dim_value = rng.choice(DIMENSIONS) if rng.random() < 0.7 else dim.dim_value + rng.choice((-1, 1))


def change_rank(model: ModelProto, rng: random.Random) -> None:
    tensor = _declared(model, rng).type.tensor_type
    dims = [dim.dim_value for dim in tensor.shape.dim]
    match rng.randrange(5):
        case 0:
            tensor.ClearField("shape")
            return
        case 1:
            del dims[rng.randrange(len(dims))]
        case 2:
            dims.insert(rng.randrange(len(dims) + 1), rng.choice((0, 1, 1, 2, 3)))
        case 3:
            rng.shuffle(dims)
        case 4:
            dims *= rng.choice((0, 2, 12))
    del tensor.shape.dim[:]
    for dim in dims:
        tensor.shape.dim.add().dim_value = dim


def change_type(model: ModelProto, rng: random.Random) -> None:
    declared = _declared(model, rng)
    if rng.random() < 0.1:
        declared.ClearField("type")
    else:
        common = (TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)
        declared.type.tensor_type.elem_type = rng.choice((*common, rng.choice(TYPES)))


def declare(model: ModelProto, rng: random.Random) -> None:
    """A tensor in the middle is declared, or a declaration goes."""
    if model.graph.value_info and rng.random() < 0.5:
        del model.graph.value_info[rng.randrange(len(model.graph.value_info))]
        return
    name = rng.choice([name for node in model.graph.node for name in node.output])
    dims = [rng.choice(DIMENSIONS) for _ in range(rng.randrange(5))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, rng.choice(TYPES[1:14]), dims))


# Edges and nodes.


def _tensors(model: ModelProto) -> list[str]:
    graph = model.graph
    names = [name for node in graph.node for name in (*node.input, *node.output)]
    return [*names, *(tensor.name for tensor in graph.input), *(tensor.name for tensor in graph.initializer)]


def change_edge(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    name = rng.choice(_tensors(model))
    match rng.randrange(8):
        case 0:
            node.input[rng.randrange(len(node.input))] = ""
        case 1:
            del node.input[rng.randrange(len(node.input)) :]
        case 2:
            node.input.append(name)
        case 3:
            node.output.append(rng.choice((name, "more", "")))
        case 4:
            node.output[0] = rng.choice((name, "", "renamed"))
        case 5:
            i, j = rng.randrange(len(node.input)), rng.randrange(len(node.input))
            node.input[i], node.input[j] = node.input[j], node.input[i]
        case _:
            node.input[rng.randrange(len(node.input))] = name


def change_outputs(model: ModelProto, rng: random.Random) -> None:
    outputs = model.graph.output
    if rng.random() < 0.3:
        del outputs[rng.randrange(len(outputs))]
    else:
        outputs.append(ValueInfoProto(name=rng.choice(_tensors(model))))


def change_node(model: ModelProto, rng: random.Random) -> None:
    """A node becomes another operator, goes, is repeated, or moves in the list."""
    nodes = model.graph.node
    index = rng.randrange(len(nodes))
    match rng.randrange(6):
        case 0:
            del nodes[index]
        case 1:
            nodes.append(nodes[index])
        case 2:
            copy = NodeProto()
            copy.CopyFrom(nodes[index])
            copy.output[0] = f"{copy.output[0]}_again"
            nodes.append(copy)
            model.graph.output.append(ValueInfoProto(name=copy.output[0]))
        case 3:
            nodes[index].domain = rng.choice(("", "com.microsoft", "com.ms.internal.nhwc", "ai.onnx", "strange"))
        case _:
            nodes[index].domain, nodes[index].op_type = rng.choice((*NODES, ("", rng.choice(tuple(CONVOLUTIONS)))))


def insert_node(model: ModelProto, rng: random.Random) -> None:
    """An operator between a tensor and one of its readers, or behind an output."""
    (domain, op_type), (operands, attributes) = rng.choice(tuple(NODES.items()))
    name = f"new{len(model.graph.node)}"
    attributes = {key: value for key, value in attributes.items() if key not in ("outputs", "opset")}
    inputs = []
    for position, (role, spec) in enumerate(operands.items()):
        inputs.append(f"{name}_{role}" if isinstance(spec, np.ndarray) else "")
        if isinstance(spec, np.ndarray):
            model.graph.initializer.append(numpy_helper.from_array(spec, inputs[-1]))
        elif isinstance(spec, tuple) and position:
            inputs[-1] = rng.choice(_tensors(model))
    reader = rng.choice(model.graph.node)
    slot = rng.randrange(len(reader.input))
    if rng.random() < 0.3:
        inputs[operand_slot(operands)] = rng.choice(reader.output)
        model.graph.output.append(ValueInfoProto(name=name))
    else:
        inputs[operand_slot(operands)], reader.input[slot] = reader.input[slot], name
    model.graph.node.append(helper.make_node(op_type, inputs, [name], name=name, domain=domain, **attributes))
    if domain and domain not in {entry.domain for entry in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(domain, 1))


def operand_slot(operands: Any) -> int:
    """The first operand that is not a constant."""
    return next(index for index, spec in enumerate(operands.values()) if isinstance(spec, tuple))


def change_opset(model: ModelProto, rng: random.Random) -> None:
    entry = rng.choice(model.opset_import)
    if rng.random() < 0.1:
        model.ir_version = rng.choice((0, 1, 3, 7, 10, 99))
    elif rng.random() < 0.1:
        entry.domain = rng.choice(("", "ai.onnx", "com.microsoft", "strange"))
    else:
        entry.version = rng.choice((*range(1, 25), 0, -1, 10**6))


# Initializers.


def _initializer(model: ModelProto, rng: random.Random) -> tuple[TensorProto, np.ndarray]:
    tensor = rng.choice(model.graph.initializer)
    return tensor, numpy_helper.to_array(tensor).copy()


def _store(tensor: TensorProto, array: np.ndarray) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def change_elements(model: ModelProto, rng: random.Random) -> None:
    """One element, or all of them, become special."""
    tensor, array = _initializer(model, rng)
    flat = array.reshape(-1)
    where = slice(None) if rng.random() < 0.4 else rng.randrange(flat.size)
    if array.dtype.kind == "f":
        flat[where] = number(rng, float(flat[0]))
    elif rng.random() < 0.3:
        bounds = np.iinfo(array.dtype)
        flat[where] = rng.choice((bounds.min, bounds.max, 0, int(flat[0])))
    else:
        bounds = np.iinfo(array.dtype)
        flat[where] = max(bounds.min, min(bounds.max, integer(rng, int(flat[rng.randrange(flat.size)]))))
    _store(tensor, flat.reshape(array.shape))


def randomize(model: ModelProto, rng: random.Random) -> None:
    """All elements are random."""
    tensor, array = _initializer(model, rng)
    generator = np.random.RandomState(rng.getrandbits(32))
    if array.dtype.kind == "f":
        _store(tensor, (10.0 ** generator.uniform(-6, 3, array.shape)).astype(array.dtype))
    else:
        bounds = np.iinfo(array.dtype if array.dtype.itemsize < 8 else np.int8)
        _store(tensor, generator.randint(bounds.min, bounds.max, array.shape).astype(array.dtype))


def reshape_initializer(model: ModelProto, rng: random.Random) -> None:
    tensor, array = _initializer(model, rng)
    match rng.randrange(8):
        case 0:
            array = array.reshape(-1)
        case 1:
            array = array[None]
        case 2:
            array = array.T
        case 3:
            array = array[:-1]
        case 4:
            array = np.concatenate([array, array])
        case 5:
            array = array.reshape(-1)[0]
        case 6:
            array = array.reshape(-1)[:0]
        case 7:
            array = np.repeat(np.atleast_1d(array), rng.choice((2, 3, 16)), axis=rng.randrange(max(1, array.ndim)))
    _store(tensor, array)


def change_storage(model: ModelProto, rng: random.Random) -> None:
    """The fields of an initializer no longer fit each other, or its type is another one."""
    tensor, array = _initializer(model, rng)
    match rng.randrange(7):
        case 0:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(DIMENSIONS)
        case 1:
            tensor.data_type = rng.choice(TYPES)
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data))]
        case 3:
            _store(tensor, array.astype(rng.choice((np.int8, np.uint8, np.int32, np.int64, np.float32, np.float64))))
        case 4:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=rng.choice(("x", "../x", "/etc/passwd", "", "\x00")))
        case 5:
            tensor.name = rng.choice(_tensors(model))
        case 6:
            del tensor.dims[:]


def move_initializer(model: ModelProto, rng: random.Random) -> None:
    """An initializer goes, becomes an input, or is declared as one, too."""
    index = rng.randrange(len(model.graph.initializer))
    tensor = model.graph.initializer[index]
    if rng.random() < 0.7:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    if rng.random() < 0.7:
        del model.graph.initializer[index]


# Names.


def rename(model: ModelProto, rng: random.Random) -> None:
    """A tensor or a node gets another name, everywhere."""
    new = rng.choice(WORDS)
    if rng.random() < 0.3:
        rng.choice(model.graph.node).name = new
        return
    old = rng.choice(_tensors(model))
    graph = model.graph
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    for tensor in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        if tensor.name == old:
            tensor.name = new


CHANGES: tuple[Change, ...] = (
    change_attribute, change_attribute, change_attribute, replace_attribute, replace_attribute,
    change_dimension, change_dimension, change_rank, change_type, declare,
    change_edge, change_edge, change_outputs, change_node, insert_node, insert_node, change_opset,
    change_elements, change_elements, change_elements, randomize, reshape_initializer, reshape_initializer,
    change_storage, move_initializer, rename,
)  # fmt: skip
"""What may happen to a model; those that find more come more often."""
