"""GRD110 graph-never-freed: losses are stored with their autograd graphs, so memory grows with every step.

What it sees
------------
The graphs of at least 24 earlier steps are still in memory, and their number grows: losses, or outputs of a model, are
appended to a list or summed as tensors.

Why it hurts
------------
A loss keeps its autograd graph alive: every operation, and without a backward every activation too. Memory grows from
step to step until the run ends with an out-of-memory error, often hours later and far from the line that caused it.

Evidence
--------
The number of graphs of earlier steps in memory, the number of graphs built, the step of the oldest, and the line that
keeps them, if found.

Use instead
-----------
    losses.append(loss.item())         # a Python number
    total += loss.detach()             # a tensor without graph; does not synchronize with the GPU
    outputs.append(out.detach())

When it is fine
---------------
Not reported: a bounded window (`deque(maxlen=10)`, a list that is cleared every few steps, the losses of an episode
before their one backward).
"""

import ast
import builtins
from typing import Final

from trueloop.event import GraphsAlive, ModelSeen, Place, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.rewrite import wrap_loop_in_no_grad
from trueloop.usercode.source import Source, called_name, diff, source_of

__all__ = ["GraphNeverFreed"]

MANY: Final = 24  # Graphs of earlier steps; windows and queues kept on purpose are mostly shorter
VERY_MANY: Final = 64  # The same if no line keeps them: reference cycles may hold dozens until Python collects them
RISES: Final = 3  # Measurements at different steps, each with more graphs: a burst that is freed later is not growth
ALMOST_ALL: Final = 0.9  # Share of all graphs that must be alive if no line was found

_KEEPS_GRAPH: Final = ("mean", "sum", "cpu", "cuda", "clone", "to", "float", "double", "squeeze", "view", "reshape")
"""Methods whose result still has the graph."""
_KEEPS: Final = ("append", "appendleft", "add", "insert")


class GraphNeverFreed(Rule, code="GRD110", severity=Severity.WARNING):
    not_applicable = "no model was called"
    applies_after = (ModelSeen,)
    explained_by = ("backward-through-earlier-steps",)
    fix_keeps_result = True

    def __init__(self) -> None:
        self._looks: dict[tuple[bool, Place | None], dict[int, int]] = {}
        self._reported: set[tuple[str, str]] = set()
        self._outputs: list[GraphsAlive] = []
        self._steps = 0

    def why_not_checked(self) -> str:
        return "" if self._steps > MANY else f"the run took only {self._steps} steps"

    def on_run_ended(self, event: RunEnded) -> Findings:
        self._steps = event.step
        if self._reported:
            return  # a loss that is kept keeps the outputs behind it
        for last in self._outputs:
            place = last.place
            found = _kept_outputs(place) if place is not None and last.alive >= MANY else None
            if found is None or place is None:
                continue
            source, statement, kept = found
            keeper = source.place(statement, place.function)
            yield self.finding(
                last,
                f"The autograd graphs of {last.alive} earlier outputs of the model are still in memory, the oldest "
                f"since step {last.oldest}: line {keeper.line} keeps them alive.",
                fix=f"Store `{source.text(kept)}.detach()`, or call the model under `torch.no_grad()`.",
                evidence={"alive": last.alive, "made": last.made, "oldest_step": last.oldest},
                place=keeper,
                diff=_detached(source, (statement, kept), None),
            )

    def on_graphs_alive(self, event: GraphsAlive) -> Findings:
        if event.outputs:
            self._outputs.append(event)
            return
        looks = self._looks.setdefault((event.training, event.place), {})
        looks[event.step] = event.alive
        place = event.place
        if event.alive < MANY or len(looks) < RISES or place is None or (place.path, place.function) in self._reported:
            return
        source = source_of(place.path)
        kept = _keeper(source, place, event.training)
        if kept is None and (event.alive < VERY_MANY or event.alive < ALMOST_ALL * event.made):
            return
        self._reported.add((place.path, place.function))
        keeper = None if kept is None else source.place(kept[0], place.function)
        line = f"line {keeper.line} keeps them alive" if keeper else "some reference keeps them alive"
        yield self.finding(
            event,
            f"The autograd graphs of {event.alive} earlier losses are still in memory, the oldest since step "
            f"{event.oldest}: {line}.",
            fix="Store `loss.item()` or `loss.detach()`, not the loss itself.",
            evidence={"alive": event.alive, "made": event.made, "oldest_step": event.oldest, "trained": event.training},
            place=keeper,
            diff="" if kept is None else _detached(source, kept, None if event.training else place),
        )


def _kept_outputs(place: Place) -> tuple[Source, ast.stmt, ast.expr] | None:
    """The line that keeps outputs of the model that is called here, unless something takes them out again."""
    source = source_of(place.path)
    found = _keeper(source, place, training=False)
    if found is None or _kept_by(found[0]) is None:
        return None
    container = _container(found[0])
    text = "".join(source.lines)
    bounded = any(f"{container}.{word}(" in text for word in ("pop", "popleft", "clear")) or f"del {container}" in text
    return None if not container or bounded or _has_limit(source, container) else (source, *found)


def _container(statement: ast.stmt) -> str:
    """`outputs` of `outputs.append(x)` and of `outputs[i] = x`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    return ast.unparse(target.value if isinstance(target, ast.Subscript) else target) if target is not None else ""


def _has_limit(source: Source, container: str) -> bool:
    """`container = deque(maxlen=100)`."""
    assigned = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value]
    for node in assigned:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for name, value in pairs:
            if ast.unparse(name) == container and isinstance(value, ast.Call) and called_name(value) == "deque":
                return True
    return False


def _keeper(source: Source, place: Place, training: bool) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that stores a loss of this line, and the expression in it to detach."""
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
    """The variable names of the loss on this line."""
    if training:
        expression = source.backward_target(place.line)
        inside = () if expression is None else ast.walk(expression)
        return frozenset(node.id for node in inside if isinstance(node, ast.Name))
    statement = source.statement(place.line)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def _kept_by(statement: ast.AST) -> ast.expr | None:
    """What a statement stores: `xs.append(x)`, `total += x`, `total = total + x`, `history[i] = x`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        stores = isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPS
        return call.args[-1] if stores and call.args else None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Subscript):
            return value
        adds = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
        if adds and isinstance(value, ast.BinOp) and ast.unparse(value.left) == ast.unparse(target):
            return value.right
    return None


class _Search:
    """Finds where a scope stores a value with one of the names, or from one of the functions."""

    def __init__(self, source: Source, scope: ast.AST, names: frozenset[str], functions: frozenset[str]) -> None:
        self.source, self.functions = source, functions
        self.statements = sorted(
            (node for node in ast.walk(scope) if isinstance(node, ast.stmt)), key=lambda s: s.lineno
        )
        self.names = set(names)
        for _ in range(3):  # a = loss; b = a * 2: further names of the value
            for statement in self.statements:
                if isinstance(statement, ast.Assign) and self.carried(statement.value) is not None:
                    self.names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
                    self.names |= self._unpacked(statement)

    def _unpacked(self, statement: ast.Assign) -> set[str]:
        """`loss, accuracy = train_step(batch)`: the first name, since losses usually come first."""
        target = statement.targets[0]
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        return {first.id} if isinstance(first, ast.Name) and isinstance(statement.value, ast.Call) else set()

    def carried(self, value: ast.expr) -> ast.expr | None:
        """The part of an expression that holds the value with its graph; None for `loss.item()` or other values."""
        if isinstance(value, ast.Name):
            return value if value.id in self.names else None
        if isinstance(value, ast.BinOp):
            left, right = self.carried(value.left), self.carried(value.right)
            sequences = any(isinstance(side, (ast.Tuple, ast.List)) for side in (value.left, value.right))
            return value if left and right and not sequences else left or right
        if isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
            parts = value.values if isinstance(value, ast.Dict) else value.elts
            return next((part for part in map(self.carried, parts) if part is not None), None)
        if isinstance(value, ast.Call):
            if called_name(value) in self.functions:
                return value
            method = value.func
            if isinstance(method, ast.Attribute) and method.attr in _KEEPS_GRAPH:
                return self.carried(method.value)
        return None

    def keeper(self) -> tuple[ast.stmt, ast.expr] | None:
        """Containers first: a sum within one step (`loss = loss + penalty`) keeps no earlier graph."""
        found: list[tuple[bool, ast.stmt, ast.expr]] = []
        for statement in self.statements:
            kept = _kept_by(statement)
            part = None if kept is None else self.carried(kept)
            if part is None:
                continue
            target = _summed_into(statement)
            if target is None or not self._reassigned(target, statement):
                found.append((target is not None, statement, part))
        best = min(found, key=lambda entry: entry[0], default=None)
        return None if best is None else best[1:]

    def _reassigned(self, target: str, statement: ast.stmt) -> bool:
        """The sum is assigned again inside its loop, so it does not outlive an iteration."""
        loop = self.source.enclosing_loop(statement.lineno)
        return loop is not None and any(
            ast.unparse(name) == target
            for node in ast.walk(loop)
            if isinstance(node, ast.Assign) and node is not statement
            if target not in {ast.unparse(n) for n in ast.walk(node.value) if isinstance(n, ast.expr)}
            for name in node.targets
        )


def _summed_into(statement: ast.stmt) -> str | None:
    """`total` of `total += loss` and of `total = total + loss`."""
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    if isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Subscript):
        return ast.unparse(statement.targets[0])
    return None


def _detached(source: Source, kept: tuple[ast.stmt, ast.expr], evaluated: Place | None) -> str:
    """`no_grad` around a loop that only evaluates; else `.detach()`, since later code may need a tensor."""
    edit = None if evaluated is None else wrap_loop_in_no_grad(source, evaluated)
    if edit is not None and edit.first <= kept[0].lineno <= edit.last:
        return diff(source.path, [edit])
    if isinstance(kept[1], ast.Call) and not _gives_a_tensor(source, kept[1]):
        return ""
    text = source.text(kept[1])
    operand = f"({text})" if isinstance(kept[1], ast.BinOp) else text
    return diff(source.path, [source.replacing(kept[1], f"{operand}.detach()")])


def _gives_a_tensor(source: Source, call: ast.Call) -> bool:
    """Not `dict(loss=…)`, an object, or a function that returns several values."""
    name = called_name(call)
    if name in dir(builtins) or name[:1].isupper():
        return False
    functions = [node for node in ast.walk(source.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    returns = [node.value for f in functions if f.name == name for node in ast.walk(f) if isinstance(node, ast.Return)]
    return not any(isinstance(value, (ast.Tuple, ast.List, ast.Dict)) for value in returns)
