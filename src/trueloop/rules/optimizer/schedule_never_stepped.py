"""OPT108 schedule-never-stepped: a learning-rate schedule was built and nobody moves it.

What it sees
------------
A schedule that was built for an optimizer, that was never stepped while the optimizer took its steps to the end of the
run, and for which no line that could step it is written near the loop.

Why it hurts
------------
The learning rate stays where the schedule put it when it was built: at its full value with no decay at all, or, with a
warm-up (OneCycleLR, LinearLR, a LambdaLR that starts at zero), at a fraction of it or at zero for the whole run.

Evidence
--------
The schedule, the learning rate it left behind, and how many steps the optimizer took.

Use instead
-----------
    for epoch in range(epochs):
        for x, y in loader:
            ...
            optimizer.step()
        scheduler.step()

When it is fine
---------------
Not reported: a schedule inside another one, one that a framework steps, one whose step stands in a branch that this run
did not reach, one that was thrown away before training, a ReduceLROnPlateau in a run of one epoch, runs that were cut
short.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import Place, RunEnded, ScheduleBuilt, ScheduleEnded, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import after, end_of, loops_around, sole_call
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["ScheduleNeverStepped"]

STEPS: Final = 10
"""Steps of the optimizer before a schedule at rest is worth a word: a shorter run may be a trial of the first
batches."""
PER_BATCH: Final = ("OneCycleLR", "CyclicLR")
PLATEAU: Final = "ReduceLROnPlateau"


@final
class ScheduleNeverStepped(Rule):
    code = "OPT108"
    name = "schedule-never-stepped"
    severity = Severity.ERROR
    not_applicable = "no schedule was built"

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
            if not _is_at_rest(event) or _could_be_stepped(event.place, step_place, stepped):
                continue
            rates = self._rates.get(event.schedule, ())[:1]
            at = f", at {rates[0]:g}" if rates else ""
            yield self.finding(
                event,
                f"{event.name} was never stepped while its optimizer took {event.optimizer_steps} steps: the learning rate "
                f"stayed where it was when the schedule was built{at}.",
                fix=f"Call its step() {'after every optimizer step' if _per_batch(event) else 'once per epoch'}.",
                evidence={
                    "schedule": event.name,
                    "optimizer_steps": event.optimizer_steps,
                    "learning_rate": rates,
                    "length": event.length,
                },
                diff=_stepping(event, step_place),
            )


def _is_at_rest(event: ScheduleEnded) -> bool:
    if event.steps or event.inner or not event.seen_from_start or event.place is None or event.optimizer_steps < STEPS:
        return False
    return event.name != PLATEAU or event.passes != 1


def _per_batch(event: ScheduleEnded) -> bool:
    """A cycle, or a length that is about the number of optimizer steps."""
    return event.name in PER_BATCH or (event.length is not None and 2 * event.length >= event.optimizer_steps)


def _target(place: Place | None) -> ast.expr | None:
    """What the schedule that is built at a place is assigned to."""
    statement = source_of(place.path).statement(place.line) if place is not None else None
    if (
        not isinstance(statement, ast.Assign)
        or not isinstance(statement.value, ast.Call)
        or len(statement.targets) != 1
    ):
        return None
    return statement.targets[0]


def _last_name(node: ast.AST | None) -> str:
    """`scheduler` of `self.scheduler` and of `scheduler`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _variable(place: Place | None) -> str:
    return _last_name(_target(place))


def _could_be_stepped(place: Place | None, step_place: Place | None, stepped: set[str]) -> bool:
    """Is there a line that would step it, though this run did not come by? Then it is a condition, not a mistake."""
    own = _variable(place)
    for path in {p.path for p in (place, step_place) if p is not None}:
        for call in calls_in(source_of(path).tree):
            receiver = (
                _last_name(call.func.value)
                if called_name(call) == "step" and isinstance(call.func, ast.Attribute)
                else ""
            )
            looks_so = "sched" in receiver.lower() or receiver.lower().startswith("lr")
            if receiver and (receiver == own or (looks_so and receiver not in stepped)):
                return True
    return False


def _stepping(event: ScheduleEnded, step_place: Place | None) -> str:
    """`scheduler.step()` behind the optimizer's step, or at the end of the epoch."""
    place, target = event.place, _target(event.place)
    if place is None or step_place is None or step_place.path != place.path or target is None or event.name == PLATEAU:
        return ""
    source = source_of(place.path)
    step, name = sole_call(source, step_place, "step"), source.text(target)
    if step is None or not name or not _in_sight(source, place, step_place):
        return ""
    loops = loops_around(source, step[0])
    last = (
        step[0]
        if _per_batch(event) or (len(loops) == 1 and not event.passes)
        else end_of(loops[1].body)
        if len(loops) == 2
        else None
    )
    return "" if last is None else diff(place.path, [after(source, last, f"{name}.step()")])


def _in_sight(source: Source, place: Place, step_place: Place) -> bool:
    """Can the function that steps the optimizer see the variable?"""
    built_in = source.enclosing_function(place.line)
    return built_in is None or built_in is source.enclosing_function(step_place.line)
