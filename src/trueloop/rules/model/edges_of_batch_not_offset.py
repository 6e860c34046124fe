"""MDL119 edges-of-batch-not-offset: the edges of all graphs of a batch run among the nodes of the first one.

What it sees
------------
In recorded calls, the nodes of several graphs are joined in one tensor (a vector says which graph each node is of, or
the nodes are reshaped to one row per graph), and messages pass along indices of nodes. All indices lie in the first
part of the nodes: none is as large as half the number of nodes, although there are many edges.

Why it hurts
------------
Each graph numbers its own nodes from 0. When graphs are joined, the indices of each must grow by the number of nodes
before it. Without it, all edges of the batch fall on the first graph: it gets messages of edges that are not its own,
and the nodes of all other graphs get none.

Evidence
--------
The numbers of nodes, edges and graphs, the largest index, and the recorded calls.

Use instead
-----------
    edges.append(graph.edge_index + offset)
    offset += len(graph.x)

When it is fine
---------------
Not reported: a single graph, indices that reach the second half of the nodes (in any recorded call), fewer than 24
nodes, and edges that only start or only end in the first half (two kinds of nodes, sampled neighbors).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import JOINS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["EdgesOfBatchNotOffset"]

NODES: Final = 24
CALLS: Final = 2
REACHED: Final = 0.6  # of the nodes: two graphs of about the same size without an offset reach about half of them
PER_GRAPH: Final = 3  # times the mean number of nodes of a graph: the largest one
EDGES: Final = 0.5  # edges for each node, at least
_AGGREGATIONS: Final = frozenset({
    "index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_reduce",
    "index_reduce_", "scatter", "scatter_", "segment_reduce",
})  # fmt: skip
_RESHAPES: Final = frozenset({"view", "reshape", "unflatten"})


class _Use(NamedTuple):
    """Indices of nodes that messages pass along."""

    place: Place | None
    nodes: int
    edges: int
    largest: float
    edge: int  # the value
    kind: str  # read, add or both


class EdgesOfBatchNotOffset(Rule, code="MDL119", severity=Severity.ERROR):
    not_applicable = "no step was recorded in which messages pass along the edges of several graphs"

    def __init__(self) -> None:
        self._calls = 0
        self._found: list[tuple[StepProgram, _Use, int, Place | None]] = []

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        graphs = _graphs(view)
        if not graphs:
            return
        uses = [use for operation in event.operations for use in _uses(view, operation) if use.nodes in graphs]
        for nodes, count in graphs.items():
            here = [use for use in uses if use.nodes == nodes and use.edges >= EDGES * nodes]
            kinds = {use.kind for use in here}
            if nodes < NODES or not ("both" in kinds or {"read", "add"} <= kinds):
                continue
            self._calls += 1
            largest = max(use.largest for use in here)
            if largest + 1 <= min(REACHED * nodes, PER_GRAPH * nodes / count):
                self._found.append((event, here[0], count, _joined(view, here[0].edge)))

    def on_run_ended(self, _: RunEnded) -> Findings:
        if self._calls < CALLS or len(self._found) < self._calls:
            return
        event, use, graphs, joined = self._found[-1]
        place = joined or use.place
        yield self.finding(
            event,
            f"The {use.nodes} nodes of {graphs} graphs are joined, but no edge reaches a node above {use.largest:.0f}: "
            f"the {use.edges} edges{on_line(use.place, place)} all fall on the nodes of the first graphs, and the "
            "others get no messages.",
            fix="Add to each graph's edge indices the number of nodes before it: `edges.append(edge_index + offset)`, "
            "then `offset += len(x)`.",
            evidence={"nodes": use.nodes, "graphs": graphs, "edges": use.edges, "largest": use.largest,
                      "calls": self._calls},
            place=place,
        )  # fmt: skip


def _graphs(view: ProgramView) -> dict[int, int]:
    """Numbers of nodes that are pooled, with the number of graphs they are pooled to."""
    found: dict[int, int] = {}
    for operation in view.operations:
        if not operation.outputs or not operation.inputs:
            continue
        shape = view.values[operation.outputs[0]].shape
        if operation.name in _AGGREGATIONS and len(operation.inputs) > 1:
            index = view.values[operation.inputs[1]]
            owners = int((index.largest or 0) + 1)
            if index.shape and shape and 2 <= owners <= shape[0] and index.shape[0] >= 3 * shape[0]:
                found[index.shape[0]] = owners
        elif operation.name in _RESHAPES and operation.inputs[0] in view.learned and len(shape) == 3:
            given = view.values[operation.inputs[0]].shape
            if len(given) == 2 and given[1] == shape[2] and given[0] == shape[0] * shape[1] and shape[0] >= 2:
                found.setdefault(given[0], shape[0])
    return found


def _uses(view: ProgramView, operation: Operation) -> Iterator[_Use]:
    inputs = [view.values[index] for index in operation.inputs]
    if len(inputs) < 2 or not inputs[0].shape:
        return
    rows, index = inputs[0].shape[0], inputs[1]
    if index.dtype not in ("int64", "int32") or index.largest is None or not index.shape:
        return
    use = _Use(operation.place, rows, index.shape[0], index.largest, operation.inputs[1], "read")
    if operation.name in _AGGREGATIONS:
        yield use._replace(kind="add")
    elif operation.name in ("__getitem__", "index_select") and len(index.shape) == 1 and len(inputs) == 2:
        if operation.inputs[0] in view.learned or operation.inputs[0] in view.from_data:
            yield use
    elif operation.name in ("__setitem__", "index_put", "index_put_") and len(inputs) >= 3:
        square = len(inputs[0].shape) == 2 and inputs[0].shape[0] == inputs[0].shape[1]
        if square and inputs[2].largest is not None and inputs[2].dtype == index.dtype:
            yield use._replace(kind="both", largest=max(index.largest, inputs[2].largest))


def _joined(view: ProgramView, index: int) -> Place | None:
    """The line that joined the edges, if it ran in the recorded step."""
    for value in view.behind(index):
        maker = view.maker(value)
        if maker is not None and maker.name in JOINS | {"stack"}:
            return maker.place
    return None
