"""GRD110 graph-never-freed: losses are kept with their graphs, and memory grows with every step.

What it sees
------------
Graphs of at least two dozen earlier steps are still in memory, and their number grows: losses are put into a list, or
summed, as tensors.

Why it hurts
------------
A loss drags along the graph that made it: every operation, and for losses that saw no backward every activation too.
Memory grows from step to step until the run dies, often hours later, far from the line that caused it.

Evidence
--------
How many graphs of earlier steps are alive, of how many that were made, the step of the oldest, and the line that keeps
them, if found.

Use instead
-----------
    losses.append(loss.item())         # a number
    total += loss.detach()             # a tensor without its graph: does not make the host wait for a GPU

When it is fine
---------------
A window of bounded length (`deque(maxlen=10)`, a list that is cleared every few steps, an episode's losses before their
one backward) is not reported.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Final, final

from trueloop.event import GraphsAlive, ModelSeen, Place, RunEnded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import loop_without_graph
from trueloop.usercode.source import Source, called_name, diff, source_of

__all__ = ["GraphNeverFreed"]

MANY: Final = 24
"""Graphs of earlier steps; windows and queues that are kept on purpose are mostly shorter."""
VERY_MANY: Final = 64
"""The same where no line was found that keeps them: reference cycles may hold some dozens until Python collects
them."""
RISES: Final = 3
"""Looks, at different steps, of which each saw more than the one before: one burst that is freed later is no growth."""
ALMOST_ALL: Final = 0.9
"""Share of all graphs made that must live where no line was found."""

_HANDS_ON: Final = ("mean", "sum", "cpu", "cuda", "clone", "to", "float", "double", "squeeze", "view", "reshape")
"""Methods whose result still has the graph."""
_KEEPS: Final = ("append", "appendleft", "add", "insert")


@final
class GraphNeverFreed(Rule):
    code = "GRD110"
    name = "graph-never-freed"
    severity = Severity.WARNING
    not_applicable = "no model was called"
    explained_by = ("backward-through-earlier-steps",)

    def __init__(self) -> None:
        self._looks: dict[tuple[bool, Place | None], dict[int, int]] = {}
        self._spoken: set[tuple[str, str]] = set()
        self._steps = 0

    def why_not_checked(self) -> str:
        return "" if self._steps > MANY else f"the run took only {self._steps} steps"

    def on_model_seen(self, event: ModelSeen) -> None:
        """There is something to judge, though graphs are told of only when they pile up."""

    def on_run_ended(self, event: RunEnded) -> None:
        self._steps = event.step

    def on_graphs_alive(self, event: GraphsAlive) -> Findings:
        looks = self._looks.setdefault((event.training, event.place), {})
        looks[event.step] = event.alive
        place = event.place
        if event.alive < MANY or len(looks) < RISES or place is None or (place.path, place.function) in self._spoken:
            return
        source = source_of(place.path)
        kept = _keeper(source, place, event.training)
        if kept is None and (event.alive < VERY_MANY or event.alive < ALMOST_ALL * event.made):
            return
        self._spoken.add((place.path, place.function))
        keeper = None if kept is None else source.place(kept[0], place.function)
        line = f"line {keeper.line} keeps them" if keeper else "something keeps them"
        yield self.finding(
            event,
            f"The graphs of {event.alive} losses of earlier steps are still in memory, the oldest since step {event.oldest}: {line}.",
            fix="Keep a number or a detached tensor, not the loss itself: loss.item() or loss.detach().",
            evidence={"alive": event.alive, "made": event.made, "oldest_step": event.oldest, "trained": event.training},
            place=keeper,
            diff="" if kept is None else _mended(source, kept, None if event.training else place),
        )


def _keeper(source: Source, place: Place, training: bool) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that keeps a loss of this place, and the expression in it that should be detached."""
    here = source.statement(place.line)
    scope = source.enclosing_function(place.line) or source.tree
    names = _names_at(source, place, training)
    if here is not None and not training and (kept := _kept_by(here)) is not None and isinstance(kept, ast.Call):
        return here, kept
    found = _Search(source, scope, names, frozenset()).keeper()
    if found is None and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        returned = [node.value for node in ast.walk(scope) if isinstance(node, ast.Return) and node.value is not None]
        if any(_Search(source, scope, names, frozenset()).carried(value) is not None for value in returned):
            found = _Search(source, source.tree, frozenset(), frozenset({scope.name})).keeper()
    return found


def _names_at(source: Source, place: Place, training: bool) -> frozenset[str]:
    """The names that the loss of this place goes by."""
    if training:
        expression = source.backwarded(place.line)
        return frozenset() if expression is None else frozenset(_names_in(expression))
    statement = source.statement(place.line)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def _names_in(node: ast.AST) -> Iterator[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _kept_by(statement: ast.AST) -> ast.expr | None:
    """What a statement puts away for later: `xs.append(x)`, `total += x`, `total = total + x`, `history[i] = x`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        return (
            call.args[-1] if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPS and call.args else None
        )
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Subscript):
            return value
        if (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Add)
            and ast.unparse(value.left) == ast.unparse(target)
        ):
            return value.right
    return None


class _Search:
    """Where, in one scope, a value that goes by some names (or comes from some functions) is kept."""

    def __init__(self, source: Source, scope: ast.AST, names: frozenset[str], functions: frozenset[str]) -> None:
        self.source, self.functions = source, functions
        self.statements = sorted(
            (node for node in ast.walk(scope) if isinstance(node, ast.stmt)), key=lambda s: s.lineno
        )
        self.names = set(names)
        for _ in range(3):  # a = loss; b = a * 2: names that the value is handed on to
            for statement in self.statements:
                if isinstance(statement, ast.Assign) and self.carried(statement.value) is not None:
                    self.names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
                    self.names |= self._unpacked(statement)

    def _unpacked(self, statement: ast.Assign) -> set[str]:
        """`loss, accuracy = train_step(batch)`: the first name, as losses come first by custom."""
        target = statement.targets[0]
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        return {first.id} if isinstance(first, ast.Name) and isinstance(statement.value, ast.Call) else set()

    def carried(self, value: ast.expr) -> ast.expr | None:
        """The part of an expression that is the value, with its graph; None if it is cut off (`loss.item()`) or not in
        it."""
        if isinstance(value, ast.Name):
            return value if value.id in self.names else None
        if isinstance(value, ast.BinOp):
            left, right = self.carried(value.left), self.carried(value.right)
            tensors = not isinstance(value.left, (ast.Tuple, ast.List)) and not isinstance(
                value.right, (ast.Tuple, ast.List)
            )
            return value if left and right and tensors else left or right
        if isinstance(value, (ast.Tuple, ast.List)):
            return next((part for part in map(self.carried, value.elts) if part is not None), None)
        if isinstance(value, ast.Dict):
            return next((part for part in map(self.carried, value.values) if part is not None), None)
        if isinstance(value, ast.Call):
            if called_name(value) in self.functions:
                return value
            method = value.func
            return (
                self.carried(method.value) if isinstance(method, ast.Attribute) and method.attr in _HANDS_ON else None
            )
        return None

    def keeper(self) -> tuple[ast.stmt, ast.expr] | None:
        """Containers first: a sum within one step (`loss = loss + penalty`) keeps nothing by itself."""
        found: list[tuple[bool, ast.stmt, ast.expr]] = []
        for statement in self.statements:
            kept = _kept_by(statement)
            part = None if kept is None else self.carried(kept)
            if part is None:
                continue
            target = _summed_into(statement)
            if target is None or not self._made_anew(target, statement):
                found.append((target is not None, statement, part))
        best = min(found, key=lambda entry: entry[0], default=None)
        return None if best is None else best[1:]

    def _made_anew(self, target: str, statement: ast.stmt) -> bool:
        """The sum is set to something else inside the loop around it: it does not outlive a turn of that loop."""
        loop = self.source.enclosing_loop(statement.lineno)
        inside = (
            []
            if loop is None
            else [node for node in ast.walk(loop) if isinstance(node, ast.Assign) and node is not statement]
        )
        fresh = [
            node
            for node in inside
            if target not in {ast.unparse(n) for n in ast.walk(node.value) if isinstance(n, ast.expr)}
        ]
        return any(ast.unparse(name) == target for node in fresh for name in node.targets)


def _summed_into(statement: ast.stmt) -> str | None:
    """`total` of `total += loss` and of `total = total + loss`."""
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    if isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Subscript):
        return ast.unparse(statement.targets[0])
    return None


def _mended(source: Source, kept: tuple[ast.stmt, ast.expr], evaluated: Place | None) -> str:
    """No graph at all in a loop that only evaluates; else `.detach()`, since a tensor can still be stacked and divided
    by what follows."""
    edit = None if evaluated is None else loop_without_graph(source, evaluated)
    if edit is not None and edit.first <= kept[0].lineno <= edit.last:
        return diff(source.path, [edit])
    if isinstance(kept[1], ast.Call) and not _gives_a_tensor(source, kept[1]):
        return ""
    text = source.text(kept[1])
    return diff(
        source.path,
        [source.replacing(kept[1], f"({text}).detach()" if isinstance(kept[1], ast.BinOp) else f"{text}.detach()")],
    )


def _gives_a_tensor(source: Source, call: ast.Call) -> bool:
    """Not `dict(loss=…)`, not an object, not a function that returns several things."""
    name = called_name(call)
    if name in dir(builtins) or name[:1].isupper():
        return False
    functions = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    returns = [node.value for function in functions for node in ast.walk(function) if isinstance(node, ast.Return)]
    return not any(isinstance(value, (ast.Tuple, ast.List, ast.Dict)) for value in returns)
