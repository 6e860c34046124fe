"""OPT106 scheduler-stepped-before-optimizer: `scheduler.step()` is called before the first `optimizer.step()`.

What it sees
------------
The first `scheduler.step()` of the run comes before any optimizer step, and the same line steps the scheduler again
during training.

Why it hurts
------------
The first learning rate of the schedule is never used, and the schedule runs one step early: a warmup skips its lowest
value, a decay starts an epoch too soon, and OneCycleLR runs past its end.

Evidence
--------
The scheduler, the learning rate that was skipped, the one that was used instead, and the line of the optimizer step.

Use instead
-----------
    optimizer.step()
    scheduler.step()

When it is fine
---------------
Not reported: `step(epoch)`; a new scheduler advanced on resume, outside the training loop; a GradScaler, which may skip
the first step; several scheduler steps before the first update (accumulation); ReduceLROnPlateau.
"""

from trueloop.event import Place, ScheduleBuilt, ScheduleStepped, Stepped
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.rewrite import block_of, end_of, loops_around, move_statement, sole_call
from trueloop.usercode.source import diff, source_of

__all__ = ["SchedulerSteppedBeforeOptimizer"]


class SchedulerSteppedBeforeOptimizer(Rule, code="OPT106", severity=Severity.ERROR):
    not_applicable = "no learning rate scheduler was stepped"

    def __init__(self) -> None:
        self._first_rates: dict[int, tuple[float, ...]] = {}
        self._early: dict[int, ScheduleStepped] = {}
        self._step_places: dict[int, Place | None] = {}

    def on_schedule_built(self, event: ScheduleBuilt) -> None:
        self._first_rates[event.schedule] = event.learning_rates

    def on_stepped(self, event: Stepped) -> None:
        self._step_places.setdefault(event.optimizer, event.place)

    def on_schedule_stepped(self, event: ScheduleStepped) -> Findings:
        first = event.index == 0 and event.step == 0 and event.optimizer_steps == 0
        if first and event.seen_from_start and not event.explicit and event.name != "ReduceLROnPlateau":
            self._early[event.schedule] = event
            return
        early = self._early.pop(event.schedule, None)
        if early is None or event.optimizer_steps == 0 or event.place != early.place or event.skipped_by_scaler:
            return
        skipped, used = self._first_rates.get(event.schedule, ())[:1], early.learning_rates[:1]
        lost = f" Its first learning rate, {skipped[0]:g}, is never used." if skipped and skipped != used else ""
        place = self._step_places.get(event.optimizer)
        yield self.finding(
            early,
            f"`step()` of {event.name} ran before the first `optimizer.step()`: the schedule is one step early.{lost}",
            fix="Call `scheduler.step()` after `optimizer.step()`.",
            evidence={
                "schedule": event.name,
                "skipped_learning_rate": skipped,
                "first_used_learning_rate": used,
                "optimizer_step": place,
            },
            diff=_after_step(early.place, place),
        )


def _after_step(place: Place | None, step_place: Place | None) -> str:
    """Moves the line after the optimizer step, or to the end of the epoch if that step is in an inner loop."""
    if place is None or step_place is None:
        return ""
    source = source_of(place.path)
    schedule, step = sole_call(source, place, "step"), sole_call(source, step_place, "step")
    if schedule is None or step is None:
        return ""
    block = block_of(source, schedule[0])
    if step[0] in block:
        return diff(place.path, move_statement(source, schedule[0], step[0]))
    mine, others = loops_around(source, schedule[0]), loops_around(source, step[0])
    last = end_of(block)
    if mine and mine[0] in others and mine[0].body is block and last is not None:
        return diff(place.path, move_statement(source, schedule[0], last))
    return ""
