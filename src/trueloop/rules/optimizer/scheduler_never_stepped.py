"""OPT108 scheduler-never-stepped: a learning rate scheduler was created but `scheduler.step()` is never called.

What it sees
------------
A scheduler that was never stepped while its optimizer took its steps until the end of the run, and no line near the
loop that could step it.

Why it hurts
------------
The learning rate stays at its first value: the full value without decay, or, with a warmup (OneCycleLR, LinearLR, a
LambdaLR that starts at zero), a fraction of it or zero for the complete run.

Evidence
--------
The scheduler, the learning rate that was used, and the number of optimizer steps.

Use instead
-----------
    for epoch in range(epochs):
        for x, y in loader:
            ...
            optimizer.step()
        scheduler.step()

When it is fine
---------------
Not reported: a scheduler inside another scheduler, one that a framework steps, one whose `step()` is in a branch that
this run did not reach, one that was dropped before training, ReduceLROnPlateau in a run of one epoch, interrupted runs.
"""

import ast
from typing import Final

from trueloop.event import Place, RunEnded, ScheduleBuilt, ScheduleEnded, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.rewrite import after, end_of, loops_around, sole_call
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["SchedulerNeverStepped"]

STEPS: Final = 10  # Optimizer steps needed: a shorter run may be a trial of the first batches
PER_BATCH: Final = ("OneCycleLR", "CyclicLR")
PLATEAU: Final = "ReduceLROnPlateau"


class SchedulerNeverStepped(Rule, code="OPT108", severity=Severity.ERROR):
    not_applicable = "no learning rate scheduler was created"

    def __init__(self) -> None:
        self._ended: list[ScheduleEnded] = []
        self._rates: dict[int, tuple[float, ...]] = {}
        self._step_places: dict[int, Place | None] = {}

    def on_schedule_built(self, event: ScheduleBuilt) -> None:
        self._rates[event.schedule] = event.learning_rates

    def on_stepped(self, event: Stepped) -> None:
        if event.optimizer not in self._step_places:
            self._step_places[event.optimizer] = event.place

    def on_schedule_ended(self, event: ScheduleEnded) -> None:
        self._ended.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        if end.reason not in ("finished", "exit"):
            return
        stepped = {_variable(event.place) for event in self._ended if event.steps}
        for event in self._ended:
            step_place = self._step_places.get(event.optimizer)
            if not _is_idle(event) or _could_be_stepped(event.place, step_place, stepped):
                continue
            rates = self._rates.get(event.schedule, ())[:1]
            at = f" at {rates[0]:g}" if rates else " at its first value"
            yield self.finding(
                event,
                f"`step()` of {event.name} was never called in {event.optimizer_steps} optimizer steps: the learning "
                f"rate stayed{at}.",
                fix=f"Call `scheduler.step()` {'after `optimizer.step()`' if _per_batch(event) else 'once per epoch'}.",
                evidence=facts(event, "schedule=name optimizer_steps learning_rate length", learning_rate=rates),
                diff=_stepping(event, step_place),
            )


def _is_idle(event: ScheduleEnded) -> bool:
    if event.steps or event.inner or not event.seen_from_start or event.place is None or event.optimizer_steps < STEPS:
        return False
    return event.name != PLATEAU or event.passes != 1


def _per_batch(event: ScheduleEnded) -> bool:
    """A cycle, or a length close to the number of optimizer steps."""
    return event.name in PER_BATCH or (event.length is not None and 2 * event.length >= event.optimizer_steps)


def _target(place: Place | None) -> ast.expr | None:
    """The variable that the scheduler created at a place is assigned to."""
    _, statement = statement_at(place)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    return statement.targets[0] if len(statement.targets) == 1 else None


def _last_name(node: ast.AST | None) -> str:
    """`scheduler` of `self.scheduler` and of `scheduler`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _variable(place: Place | None) -> str:
    return _last_name(_target(place))


def _could_be_stepped(place: Place | None, step_place: Place | None, stepped: set[str]) -> bool:
    """Is there a line that would step it but that this run did not reach? Then it is a condition, not a mistake."""
    own = _variable(place)
    for path in {p.path for p in (place, step_place) if p is not None}:
        for call in calls_in(source_of(path).tree):
            steps = called_name(call) == "step" and isinstance(call.func, ast.Attribute)
            receiver = _last_name(call.func.value) if steps and isinstance(call.func, ast.Attribute) else ""
            is_scheduler = "sched" in receiver.lower() or receiver.lower().startswith("lr")
            if receiver and (receiver == own or (is_scheduler and receiver not in stepped)):
                return True
    return False


def _stepping(event: ScheduleEnded, step_place: Place | None) -> str:
    """`scheduler.step()` after the optimizer step, or at the end of the epoch."""
    place, target = event.place, _target(event.place)
    if place is None or step_place is None or step_place.path != place.path or target is None or event.name == PLATEAU:
        return ""
    source = source_of(place.path)
    step, name = sole_call(source, step_place, "step"), source.text(target)
    if step is None or not name or not _in_sight(source, place, step_place):
        return ""
    loops = loops_around(source, step[0])
    each_step = _per_batch(event) or (len(loops) == 1 and not event.passes)
    last = step[0] if each_step else end_of(loops[1].body) if len(loops) == 2 else None
    return "" if last is None else diff(place.path, [after(source, last, f"{name}.step()")])


def _in_sight(source: Source, place: Place, step_place: Place) -> bool:
    """Is the variable in scope where the optimizer is stepped?"""
    built_in = source.enclosing_function(place.line)
    return built_in is None or built_in is source.enclosing_function(step_place.line)
