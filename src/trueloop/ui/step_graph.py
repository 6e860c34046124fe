"""The recorded step program as graphs, from the model down to the operation. What is recorded: `step_program.json`, as
`trueloop.track.step_program_file` describes it.

A graph is nodes and edges between their numbers. At the level "model" each call of a model is one node; at the level
"layer" the operations of a layer are one; at the level "operation" each is its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

__all__ = ["LEVELS", "graph_of", "parameters_of"]

LEVELS: Final = ("model", "layer", "operation")
MOST_OPERATIONS: Final = 1500
LONGEST: Final = 80
BETWEEN: Final = 12
"""Operations outside of models that are drawn one by one at the level "model"; more are taken together by line."""


@dataclass(slots=True)
class Node:
    """Of a graph. `kind`: input, outside, model, operation, loss, optimizer, more."""

    kind: str
    label: str
    note: str = ""
    place: list[int] | None = None
    model: int = -1
    parameters: list[int] = field(default_factory=list)  # numbers of values
    operations: int = 0


class _Program:
    """A program of the file, read as hostile input: what does not fit is left out."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self.values = [each for each in _list(plain.get("values")) if isinstance(each, list) and len(each) >= 4]
        self.whole = len(self.values) == len(_list(plain.get("values")))
        operations = [each for each in _list(plain.get("operations")) if isinstance(each, list) and len(each) >= 5]
        self.left_out = max(0, len(operations) - MOST_OPERATIONS)
        self.operations = operations[:MOST_OPERATIONS]
        self.calls = [each for each in _list(plain.get("calls")) if isinstance(each, dict)]
        self.losses = set(self.numbers(plain.get("losses")))

    def numbers(self, given: Any) -> list[int]:
        return [each for each in _list(given) if type(each) is int and 0 <= each < len(self.values)]

    def origin(self, value: int) -> str:
        return str(self.values[value][2])

    def name(self, value: int) -> str:
        return str(self.values[value][3])[:LONGEST]

    def shape(self, value: int) -> str:
        sizes = [each for each in _list(self.values[value][0]) if type(each) is int]
        return f"{'×'.join(map(str, sizes)) or 'scalar'} {str(self.values[value][1])[:20]}"

    def model_name(self, number: int) -> str:
        return next((str(call.get("name"))[:LONGEST] for call in self.calls if call.get("model") == number), "model")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _place(value: Any) -> list[int] | None:
    plain = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    return value if plain else None


def graph_of(plain: dict[str, Any], optimizers: list[Any], level: str) -> dict[str, Any]:
    """{nodes, edges, left_out}; an edge is [from, to, shape]."""
    program = _Program(plain)
    keys = list(_keys(program, level))
    nodes: dict[Any, Node] = {}
    edges: dict[tuple[Any, Any], str] = {}
    made_by: dict[int, Any] = {}
    for operation, key in zip(program.operations, keys, strict=True):
        node = nodes.setdefault(key, _node(program, operation, key))
        node.operations += 1
        for value in program.numbers(operation[1]):
            if program.origin(value) in ("parameter", "buffer"):
                if value not in node.parameters:
                    node.parameters.append(value)
                continue
            source = made_by.get(value)
            if source is None:
                source = made_by[value] = ("value", value)
                kind = "input" if program.origin(value) == "batch" else "outside"
                label = program.name(value) or ("batch" if kind == "input" else "from before")
                nodes[source] = Node(kind, label, program.shape(value))
            if source != key:
                edges.setdefault((source, key), program.shape(value))
        for value in program.numbers(operation[2]):
            made_by[value] = key
    _add_updates(program, optimizers, nodes, edges, made_by)
    order = {key: number for number, key in enumerate(nodes)}
    return {
        "nodes": [_plain(node, program) for node in nodes.values()],
        "edges": [[order[source], order[target], shape] for (source, target), shape in edges.items()],
        "left_out": program.left_out,
    }


def _keys(program: _Program, level: str) -> Iterator[Any]:
    """For each operation the node that it belongs to. Only neighbors share one, so no edge leads back."""
    outside = sum(1 for operation in program.operations if operation[4] == -1 and operation[0] != "backward")
    group, before, layer = 0, None, ""
    for number, operation in enumerate(program.operations):
        model = operation[4] if type(operation[4]) is int else -1
        place = _place(operation[3])
        # Operations without weights (activations, reshapes) belong to the layer before them.
        names = [program.name(value) for value in program.numbers(operation[1]) if program.name(value)]
        layer = names[0].rpartition(".")[0] or names[0] if names else "" if model != (before or [None])[0] else layer
        kind: list[Any] = [model, place if model < 0 else layer if level == "layer" else None]
        group += kind != before
        before = kind
        if operation[0] == "backward":
            yield "loss", number
        elif level == "operation" or (model < 0 and not (level == "model" and place and outside > BETWEEN)):
            yield "operation", number
        elif model < 0:
            yield "line", group, ""
        else:
            yield "layer" if level == "layer" else "model", group, layer if level == "layer" else ""


def _node(program: _Program, operation: list[Any], key: tuple[Any, ...]) -> Node:
    place, model = _place(operation[3]), operation[4] if type(operation[4]) is int else -1
    name = str(operation[0])[:LONGEST]
    shapes = [program.shape(value) for value in program.numbers(operation[2])]
    if key[0] == "model":
        return Node("model", program.model_name(model), "", None, model)
    if key[0] == "layer":
        return Node("layer", key[2] or "before the first layer", program.model_name(model), place, model)
    if key[0] == "loss":
        return Node("loss", "backward()", "", place)
    if key[0] == "line":
        return Node("operation", f"line {place[1] if place else 0}", "", place)
    return Node("operation", name, shapes[0] if shapes else "", place, model)


def _add_updates(
    program: _Program,
    optimizers: list[Any],
    nodes: dict[Any, Node],
    edges: dict[tuple[Any, Any], str],
    made_by: dict[int, Any],
) -> None:
    """Backward goes into the optimizers. Which of several trains which parameter is not recorded."""
    losses = [key for key in nodes if key[0] == "loss"]
    for value in program.losses:
        if not losses and value in made_by:
            losses.append(("loss", "value", value))
            nodes[losses[0]] = Node("loss", "backward()")
            edges[made_by[value], losses[0]] = program.shape(value)
    for number, each in enumerate(each for each in optimizers if isinstance(each, dict)):
        rates = [f"{rate:g}" for rate in _list(each.get("learning_rates")) if isinstance(rate, (int, float))]
        key = ("optimizer", number)
        nodes[key] = Node("optimizer", str(each.get("name"))[:LONGEST], f"lr {', '.join(rates[:3])}" if rates else "")
        for loss in losses:
            edges[loss, key] = "gradients"


def _plain(node: Node, program: _Program) -> dict[str, Any]:
    weights = [
        [program.name(value), program.shape(value), trainer_of(program.values[value])]
        for value in node.parameters
        if program.origin(value) == "parameter"
    ]
    note = node.note
    if node.kind in ("model", "layer") and weights:
        note = f"{sum(map(_elements, [program.values[value] for value in node.parameters])):,} parameters"
    return {
        "kind": node.kind,
        "label": node.label,
        "note": note,
        "place": node.place,
        "model": node.model,
        "operations": node.operations,
        "parameters": weights[:200],
    }


def trainer_of(value: list[Any]) -> str:
    return value[4] if len(value) > 4 and value[4] in ("optimizer", "elsewhere", "nobody") else ""


def _elements(value: list[Any]) -> int:
    return prod(each for each in _list(value[0]) if type(each) is int)


def parameters_of(plain: dict[str, Any]) -> list[list[Any]]:
    """[name, shape, elements, trainer] of each parameter that the step used, at most 2,000."""
    program = _Program(plain)
    numbers = [number for number in range(len(program.values)) if program.origin(number) == "parameter"]
    return [
        [program.name(each), program.shape(each), _elements(program.values[each]), trainer_of(program.values[each])]
        for each in numbers[:2000]
    ]
