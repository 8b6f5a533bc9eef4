"""Everything that keeps a model from being compiled, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from qcgen.check.model import (
    boundary_problems,
    contradictions,
    import_problems,
    named_nodes,
    shape_nodes,
    too_large,
    transposed_problems,
    unsupported,
    version_problems,
)
from qcgen.check.node import (
    SEVERAL_OUTPUTS,
    NodeView,
    arity_problems,
    kind_problems,
    output_problems,
    size_problems,
    spec_problems,
)
from qcgen.check.specs import SPECS, signature_of
from qcgen.errors import ModelRejected, Problem
from qcgen.infer import computed
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import DType
from qcgen.schemas import versions

RULES: dict[tuple[str, str], Callable[[NodeView], Iterable[Problem]]] = {
    key: partial(spec_problems, spec) for key, spec in SPECS.items()
}
"""The operators that can be compiled, by (domain, op_type), each with its rules."""


def result_problems(view: NodeView, computed: Mapping[str, Value]) -> Iterator[Problem]:
    """Results whose size does not follow from the node's inputs and attributes, whatever the model declares of them.

    Where the size of an input is unknown or wrong, that is said where it is declared or computed. Constants may be
    empty: a list of no steps.
    """
    constants = view.graph.constants
    sizes = [view.fixed_shape(index) for index, name in enumerate(view.node.inputs) if name and name not in constants]
    if any(size is None or min(size, default=1) < 1 or too_large(size) for size in sizes):
        return
    outputs = view.node.outputs if view.node.op_type in SEVERAL_OUTPUTS else view.node.outputs[:1]
    for name in filter(None, outputs):
        yield from size_problems(view, computed[name])


def well_formed(graph: Graph) -> Graph:
    """The graph itself if its nodes have the inputs and outputs of their operators, and attributes of the right kinds.

    Patterns take that for granted. Otherwise ModelRejected with every node that has not. Operators that cannot be
    compiled are left to ``check``; an If has the results of its branches as inputs here.
    """
    found = _ByProblem()
    for node in graph.nodes:
        key = node.domain, node.op_type
        if key in SPECS and node.op_type != "If":
            view = NodeView(graph, node, signature_of(*key))
            found.add(node, (*arity_problems(view), *output_problems(view), *kind_problems(view)))
    if problems := list(found.problems()):
        raise ModelRejected(problems)
    return graph


def check(graph: Graph) -> Graph:
    """The graph itself if it can be compiled, otherwise ModelRejected with every problem that was found.

    ``graph`` has been inferred; it may be malformed in any way that ``load`` lets through. Each root cause is reported
    once; follow-on errors are suppressed, and nodes of one operator with the same problem are named together.
    """
    problems = list(boundary_problems(graph))
    nodes = _Nodes(graph)
    nodes.run()
    problems += nodes.unsupported.problems()
    problems += import_problems(graph)
    problems += version_problems(nodes.old)
    problems += nodes.found.problems()
    problems += contradictions(graph, nodes.computed, nodes.refused)
    if problems:
        raise ModelRejected(dict.fromkeys(problems))
    return graph


def since(domain: str, op_type: str) -> int:
    """The version of its domain that has an operator; LayerNormalization is run, and written, at every opset.

    The NHWC domain has no published versions: writers import whatever number they like.
    """
    return 1 if domain or op_type == "LayerNormalization" else versions(op_type)[-1].since_version


def _is_unknown(value: Value) -> bool:
    return value.fixed_shape is None or value.dtype in (None, DType.OTHER)


class _ByProblem:
    """What is wrong with nodes."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str, str], list[Node]] = {}

    def add(self, node: Node, problems: Iterable[Problem]) -> None:
        """Notes what is wrong with a node."""
        for problem in dict.fromkeys(problems):
            self._nodes.setdefault((node.operator, problem.what, problem.hint), []).append(node)

    def problems(self) -> Iterator[Problem]:
        """Nodes of one operator with the same problem together."""
        for (_, what, hint), nodes in self._nodes.items():
            yield Problem(named_nodes(nodes), what, hint)


class _Nodes:
    """One walk through the nodes: what is wrong with each, and what follows from that."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.computed, self._wrong = computed(graph)
        self.found = _ByProblem()
        self.unsupported = _ByProblem()
        self.old: list[tuple[Node, int]] = []
        self.refused: set[str] = set()
        # Inputs of unknown size, results of nodes that are refused, and all that depends on them.
        self.already_reported = {name for name in graph.inputs if _is_unknown(graph.value(name))}

    def run(self) -> None:
        """Looks at every node."""
        shapes = shape_nodes(self._graph)
        for node in self._graph.nodes:
            follows = not self.already_reported.isdisjoint(node.inputs)
            # What an If chooses from may be unknown only since its branch has such a node.
            waits = follows and (node.name in shapes or node.op_type == "If")
            if not waits and self._is_refused(node):
                self.refused.add(node.name)
                follows = True
            if follows:
                self.already_reported.update(filter(None, node.outputs))

    def _is_refused(self, node: Node) -> bool:
        rule = RULES.get((node.domain, node.op_type))
        if rule is None:
            malformed = list(transposed_problems(self._graph, node))
            self.found.add(node, malformed)
            self.unsupported.add(node, () if malformed else (unsupported(node),))
            return True
        needed = since(node.domain, node.op_type)
        if node.version < needed:
            self.old.append((node, needed))
        signature, wrong = signature_of(node.domain, node.op_type), self._wrong[node.name]
        view = NodeView(self._graph, node, signature, self.already_reported, wrong)
        found = list(rule(view)) or list(result_problems(view, self.computed))
        self.found.add(node, found)
        return node.version < needed or bool(found)
