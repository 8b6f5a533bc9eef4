"""The branches of If nodes become nodes of the graph around them: what they compute can be chosen from afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto, ValueInfoProto

from qcgen.ir.graph import fresh


def with_branches(graph: GraphProto) -> GraphProto:
    """The graph with the nodes and constants of all branches, under names of their own.

    An If reads its condition, then what its then_branch gives for each output, then what its else_branch gives. A
    malformed one stays as it is.
    """
    if not any(node.op_type == "If" for node in graph.node):
        return graph
    whole = GraphProto()
    whole.CopyFrom(graph)
    del whole.node[:]
    _Inlined(whole, {*_tensors(graph), *_names_within(graph)}).add(graph)
    return whole


class _Inlined:
    """Adds nodes to a graph, those of branches first."""

    def __init__(self, whole: GraphProto, taken: set[str]) -> None:
        self._whole, self._taken = whole, taken

    def add(self, graph: GraphProto) -> None:
        """The nodes of a graph whose names hold in the whole."""
        for node in graph.node:
            branches = _branches(node)
            self._taken.update(node.output)
            if branches is None:
                self._whole.node.append(node)
                continue
            given = [name for branch in branches for name in self._branch(node, branch)]
            self._whole.node.append(
                NodeProto(name=node.name, op_type="If", input=[*node.input, *given], output=node.output)
            )

    def _branch(self, node: NodeProto, branch: GraphProto) -> list[str]:
        """Adds a branch; the tensors that it gives."""
        own = {name: self._fresh(f"{node.output[0]}.{name}") for name in _tensors(branch)}
        renamed = GraphProto()
        renamed.CopyFrom(branch)
        _rename(renamed, own)
        self._whole.initializer.extend(renamed.initializer)
        self._whole.sparse_initializer.extend(renamed.sparse_initializer)
        self._whole.value_info.extend([*renamed.value_info, *_infos_of(renamed, own)])
        self.add(renamed)
        return [own.get(info.name, info.name) for info in branch.output]

    def _fresh(self, name: str) -> str:
        found = fresh(name, self._taken)
        self._taken.add(found)
        return found


def _branches(node: NodeProto) -> tuple[GraphProto, GraphProto] | None:
    """What an If computes where its condition holds, and where not; None for other nodes, and malformed ones."""
    graphs = {each.name: each.g for each in node.attribute if each.type == AttributeProto.GRAPH}
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or len(node.input) != 1 or not node.output:
        return None
    if graphs.keys() != {"then_branch", "else_branch"} or any(graph.input for graph in graphs.values()):
        return None
    if any(len(graph.output) != len(node.output) for graph in graphs.values()):
        return None
    return graphs["then_branch"], graphs["else_branch"]


def _tensors(graph: GraphProto) -> Iterator[str]:
    """The tensors that a graph defines, not those within its branches."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _names_within(graph: GraphProto) -> Iterator[str]:
    """All names of tensors that nodes read, in branches, too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _names_within(attribute.g)


def _rename(graph: GraphProto, names: dict[str, str]) -> None:
    """Gives tensors other names, but where a branch within defines one of the same name."""
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer), *graph.value_info):
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                hidden = set(_tensors(attribute.g))
                inner = {name: new for name, new in names.items() if name not in hidden}
                _rename(attribute.g, inner)
                for info in attribute.g.output:
                    info.name = inner.get(info.name, info.name)


def _infos_of(graph: GraphProto, names: dict[str, str]) -> Iterator[ValueInfoProto]:
    """What is declared of a branch's own outputs, under their new names."""
    for info in graph.output:
        if info.name in names:
            renamed = ValueInfoProto()
            renamed.CopyFrom(info)
            renamed.name = names[info.name]
            yield renamed
