"""OPT126 weight-copy-never-replaced: weights are never copied into a target network, or its own are.

What it sees
------------
A training loop has `target.load_state_dict(model.state_dict())` under an `if` with an interval (`step % interval`) or
with a counter that is compared (`step - last >= interval`), directly or in a function that is called there. In a run of
hundreds of steps the line never ran, or once at the very start. Recorded steps call a second model without gradients.

Or the line runs, during the training, with the state of the model that loads it: `target.load_state_dict(
target.state_dict())`. Seen by the memory of the tensors, however the line is written.

Why it hurts
------------
The interval is longer than the run, or the copy loads itself. The target network keeps its initial weights, so the
values that it bootstraps are those of an untrained network, and nothing spreads from one state to the next.

Evidence
--------
The condition, how often the line ran, and the number of steps; of a model that loads itself its class.

Use instead
-----------
    if step % 200 == 0:                 # a few dozen times in the run
        target.load_state_dict(model.state_dict())

When it is fine
---------------
Not reported: fewer than 200 steps, runs that were cut off or not watched all the time, conditions without a counter
(the best model so far) or at one fixed step (a frozen reference), copies that no recorded training step calls, lines
that ran later than at the start, and copies that are also updated in other ways; a trained model that loads its own
state, which may be its best one (`best-weights-not-copied`), and a model that also loads other states.
"""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from trueloop.event import Place, RunEnded, StateMatched, Stepped, StepProgram, WeightCopies
from trueloop.rules.rule import Findings, Rule, Severity, plural
from trueloop.usercode.source import Source, called_name, calls_in, source_of

__all__ = ["WeightCopyNeverReplaced"]

STEPS: Final = 200
START: Final = 0.05  # of the steps
LOADS: Final = 2  # steps at which a model loads itself: once may be a trick to check a state
SEEN: Final = 32  # loads that are recorded of a run


class _Copying(NamedTuple):
    condition: ast.If
    line: int  # of the call of load_state_dict
    lines: frozenset[int]  # of all such calls for this copy, inside and outside of loops


class WeightCopyNeverReplaced(Rule, code="OPT126", severity=Severity.WARNING):
    not_applicable = "no training step called a second model without gradients"

    def __init__(self) -> None:
        self._places: set[Place] = set()
        self._loads: list[tuple[str, int, int]] = []  # path, line, step
        self._itself: list[StateMatched] = []
        self._others: set[str] = set()  # classes of models that loaded another state during the training
        self._second = False
        self._follows = False

    def on_weight_copies(self, event: WeightCopies) -> None:
        """Copies that are updated a little in each step, perhaps this one."""
        self._follows = self._follows or not event.shared

    def on_stepped(self, event: Stepped) -> None:
        if event.place is not None and len(self._places) < 8:
            self._places.add(event.place)

    def on_state_matched(self, event: StateMatched) -> None:
        if event.place is not None:
            self._loads.append((event.place.path, event.place.line, event.step))
        if event.step > 0 and event.own_state:
            self._itself.append(event)
        elif event.step > 0:
            self._others.add(event.model)

    def on_step_program(self, event: StepProgram) -> None:
        trained = {use.model for use in event.models if use.grad}
        aside = {use.model for use in event.models if not use.grad} - trained
        self._second = self._second or (event.phase == "training" and bool(trained) and bool(aside))

    def on_run_ended(self, end: RunEnded) -> Findings:
        if self._follows or not self._second:
            return
        yield from self._loads_itself()
        if end.step < STEPS or end.reason != "finished" or len(self._loads) >= SEEN:
            return
        for path in sorted({place.path for place in self._places}):
            source = source_of(path)
            for copying in _copies(source):
                ran = [step for where, line, step in self._loads if where == path and line in copying.lines]
                if any(step > START * end.step for step in ran):
                    continue
                condition = ast.unparse(copying.condition.test)
                yield self.finding(
                    end,
                    f"`{source.lines[copying.line - 1].strip()}` did not run "
                    f"{'again after the start' if ran else 'at all'} in {end.step:,} steps: `{condition}` does not "
                    "become true.",
                    fix="Make the interval a small part of the run, for example a fiftieth.",
                    evidence={"condition": condition, "ran": len(ran), "steps": end.step},
                    place=source.place(copying.condition),
                )

    def _loads_itself(self) -> Findings:
        loads = [event for event in self._itself if event.model not in self._others and _takes_and_loads(event.place)]
        steps = {event.step for event in loads}
        if len(steps) < LOADS or len({event.place for event in loads}) > 1:
            return
        event = loads[-1]
        yield self.finding(
            event,
            f"This line gives {event.model} its own weights: all {event.tensors} tensors of the loaded state are those "
            f"of the model that loads it, at {plural(len(steps), 'step')}. Nothing changes.",
            fix="Load the state of the trained model: `target.load_state_dict(model.state_dict())`.",
            evidence={"model": event.model, "tensors": event.tensors, "loads": len(loads), "last_step": event.step},
            severity=Severity.ERROR,
        )


def _takes_and_loads(place: Place | None) -> bool:
    """One line takes a state and loads it: not a state that was kept to be put back."""
    source = None if place is None else source_of(place.path)
    statement = None if source is None or place is None else source.statement(place.line)
    return statement is not None and any(_is_copy(call) for call in calls_in(statement))


def _copies(source: Source) -> Iterator[_Copying]:
    """Calls `target.load_state_dict(model.state_dict())` under an interval in a loop, of a model that is called."""
    functions = {node.name: node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)}
    called = {called_name(call) for call in calls_in(source.tree)}
    counters = _counters(source)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.If) or not _has_interval(node.test, counters) or not _is_repeated(source, node):
            continue
        inside = [call for statement in node.body for call in calls_in(statement)]
        inside += [
            deeper for call in inside if called_name(call) in functions
            for deeper in calls_in(functions[called_name(call)])
        ]  # fmt: skip
        for call in inside:
            if _is_copy(call) and _receiver(call) in called:
                yield _Copying(node, call.lineno, _lines(source, _receiver(call)))
                break


def _lines(source: Source, receiver: str) -> frozenset[int]:
    copies = [call for call in calls_in(source.tree) if _is_copy(call) and _receiver(call) == receiver]
    return frozenset(line for call in copies for line in range(call.lineno, (call.end_lineno or call.lineno) + 1))


def _counters(source: Source) -> frozenset[str]:
    """Names and attributes that count: `step += 1`, `for step in range(...)`."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        one = isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant) and node.value.value == 1
        if isinstance(node, ast.AugAssign) and one and isinstance(node.op, ast.Add):
            found.add(_name(node.target))
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and called_name(node.iter) == "range":
            found.add(_name(node.target))
    return frozenset(found - {""})


def _has_interval(test: ast.expr, counters: frozenset[str]) -> bool:
    """`step % 100 == 0`, `step - last >= 100`, `updates == 100`."""
    if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test)):
        return True
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.GtE, ast.Gt, ast.Eq)):
        return False
    if isinstance(test.ops[0], ast.Eq) and isinstance(test.comparators[0], ast.Constant):
        return False  # once, at a step that was chosen: a frozen reference
    return any(_name(node) in counters for node in ast.walk(test.left) if isinstance(node, (ast.Name, ast.Attribute)))


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_repeated(source: Source, node: ast.If) -> bool:
    """In a loop, or in a function, which a loop may call; not where another `if` may keep it from running at all."""
    outer = list(source.parents(node))
    return any(isinstance(parent, (ast.For, ast.While, ast.FunctionDef)) for parent in outer) and not any(
        isinstance(parent, ast.If) and not _is_main(parent) for parent in outer
    )


def _is_main(node: ast.If) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == "__name__" for inner in ast.walk(node.test))


def _is_copy(call: ast.Call) -> bool:
    given = call.args[0] if call.args else None
    return (
        called_name(call) == "load_state_dict"
        and isinstance(given, ast.Call) and called_name(given) == "state_dict"
    )  # fmt: skip


def _receiver(call: ast.Call) -> str:
    """`target` of `self.target.load_state_dict(...)`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return "" if owner is None else _name(owner)
