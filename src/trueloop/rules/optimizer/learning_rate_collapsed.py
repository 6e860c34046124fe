"""OPT113 learning-rate-collapsed: most of the run was trained at a small part of the learning rate.

What it sees
------------
The learning rate of every step. For most of the steps it was below a hundredth of the highest rate of the run, or it
rose from the first step to the last and never came near the rate that the schedule starts from; or it rose by equal
steps, as in a warm-up whose length the schedule's function reads and which is longer than the run, and a decay brought
it down again before it came near. Or the state of the optimizer was loaded, and with it came a rate below a twentieth
of the one that it was built with, for all steps: no schedule changes it any more, or the loaded schedule replaced
settings of the one that was built. Also where the loaded state has no step yet, or the optimizer keeps none (SGD
without momentum).

Why it hurts
------------
The training ends, in effect, when the rate is gone, and nobody notices: the loss stays where it is as if the model had
converged. A decay per batch that was meant per epoch, or a warm-up longer than the run, does that. A checkpoint from
the end of a schedule holds the rate of its last step, and `load_state_dict` sets it again.

Evidence
--------
First, highest and last learning rate, the share of steps at less than a hundredth of the highest, and the schedule.

Use instead
-----------
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs * len(loader))      # lengths in the unit that step() counts
    warmup_steps = min(warmup_steps, total_steps // 10)

    optimizer.load_state_dict(checkpoint["optimizer"])
    for group in optimizer.param_groups:
        group["lr"] = learning_rate                                           # not the one of the last step

When it is fine
---------------
Not reported: interrupted runs, fewer than 40 steps, schedules that end near zero (cosine, linear), rates that rise
again, a schedule that continues after a checkpoint, and an optimizer that is built without a learning rate of its own
before its state is loaded.
"""

import ast
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from trueloop.event import OptimizerSettings, Resumed, RunEnded, ScheduleBuilt, ScheduleEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["LearningRateCollapsed"]

STEPS: Final = 40
SHARE: Final = 0.6
RISING: Final = 0.9
REACHED: Final = 0.5
EQUAL: Final = 0.1  # differences of the first rates: a decay over the run changes them little
EXACT: Final = 0.02  # of the length that the first rates show
RESTORED: Final = 0.05  # of the rate that the optimizer was built with


class LearningRateCollapsed(Rule, code="OPT113", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"
    explained_by = ("scheduler-epoch-batch-mismatch",)

    def __init__(self) -> None:
        self._optimizers: list[OptimizerSettings] = []
        self._lengths: dict[int, int | None] = {}
        self._resumed: dict[int, Resumed] = {}
        self._ended: list[ScheduleEnded] = []

    def on_schedule_built(self, event: ScheduleBuilt) -> None:
        self._lengths[event.schedule] = event.length

    def on_schedule_ended(self, event: ScheduleEnded) -> None:
        self._ended.append(event)

    def on_resumed(self, event: Resumed) -> None:
        self._resumed[event.optimizer] = event

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._optimizers.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._optimizers if end.reason in ("finished", "exit") else ():
            yield from self._check(event)

    def _check(self, event: OptimizerSettings) -> Findings:
        if event.steps < STEPS:
            return
        evidence = {
            "steps": event.steps, "first": event.first_rate, "highest": event.highest_rate, "last": event.last_rate,
            "below_a_hundredth": round(event.collapsed, 3), "schedule": event.scheduled,
        }  # fmt: skip
        place = event.scheduled or event.place
        resumed = self._resumed.get(event.optimizer)
        replaced = [] if resumed is None else [text for schedule in resumed.schedules for text in schedule.replaced]
        tiny = event.restored and event.highest_rate <= RESTORED * (event.built_rate or 0.0)
        if tiny and (replaced or self._has_ended(event)) and _is_configured(event):
            file = "" if resumed is None or not resumed.file else f" of {PurePath(resumed.file).name}"
            yield self.finding(
                event,
                f"The optimizer was built with a learning rate of {event.built_rate:.3g}, but no step of {event.steps} "
                f"had more than {event.highest_rate:.3g}: its loaded state{file} holds that rate, probably the "
                "last one of an earlier schedule."
                + (f" The loaded schedule replaced {', '.join(replaced)}." if replaced else ""),
                fix="Set the learning rate of every group again after `optimizer.load_state_dict`, and build a new "
                "schedule for these steps.",
                evidence={**evidence, "built_with": event.built_rate, "replaced": replaced},
            )
        elif event.collapsed >= SHARE and event.last_rate < 0.01 * event.highest_rate:
            yield self.finding(
                event,
                f"{event.collapsed:.0%} of {event.steps} steps ran at less than a hundredth of the highest learning "
                f"rate: it fell from {event.highest_rate:.3g} to {event.last_rate:.3g}.",
                fix="Check the unit of the schedule (steps or epochs), its length and its factor.",
                evidence=evidence,
                place=place,
            )
        elif event.base_rate and event.rising >= RISING and event.last_rate < REACHED * event.base_rate:
            yield self.finding(
                event,
                f"The learning rate rose over all {event.steps} steps and ended at {event.last_rate:.3g}, far below "
                f"the {event.base_rate:.3g} of the schedule: the warm-up is longer than the run.",
                fix="Shorten the warm-up to a small share of the run's steps.",
                evidence={**evidence, "base": event.base_rate},
                place=place,
            )
        elif event.base_rate and event.highest_rate < REACHED * event.base_rate and (length := self._warm_up(event)):
            yield self.finding(
                event,
                f"The warm-up of {length:,} steps is longer than the run of {event.steps:,}: the learning rate never "
                f"was above {event.highest_rate:.3g}, far below the {event.base_rate:.3g} of the schedule.",
                fix="Shorten the warm-up to a small share of the run's steps.",
                evidence={**evidence, "base": event.base_rate, "warm_up": length},
                place=place,
            )

    def _warm_up(self, event: OptimizerSettings) -> int:
        """The length of a warm-up that was not over at the end of the run; 0 if there is none."""
        rates = event.start
        rises = [after - before for before, after in pairwise(rates)]
        if len(rises) < 3 or min(rises) <= 0 or max(rises) > (1 + EQUAL) * min(rises) or not event.base_rate:
            return 0
        if rates[0] > (1 + EQUAL) * rises[0]:  # it does not rise from 0
            return 0
        shown = event.base_rate / rises[0]
        ended = [each for each in self._ended if each.optimizer == event.optimizer]
        known = {number for each in ended for number in each.numbers}
        known |= {each.length for each in ended if each.name == "LinearLR" and each.length is not None}
        return next((n for n in sorted(known) if n > event.steps and abs(n - shown) <= EXACT * n), 0)

    def _has_ended(self, event: OptimizerSettings) -> bool:
        """No schedule changes the rate any more."""
        if event.scheduled is None:
            return event.first_rate == event.last_rate == event.highest_rate
        resumed = self._resumed.get(event.optimizer)
        lengths = [] if resumed is None else [(s.last_epoch, self._lengths.get(s.schedule)) for s in resumed.schedules]
        return bool(lengths) and all(length is not None and last >= length for last, length in lengths)


def _is_configured(event: OptimizerSettings) -> bool:
    """The line that builds the optimizer may name a rate: `Adam(model.parameters())` waits for the loaded one."""
    source = None if event.place is None else source_of(event.place.path)
    statement = None if source is None or event.place is None else source.statement(event.place.line)
    calls = [] if statement is None else [call for call in calls_in(statement) if called_name(call) == event.name]
    return not calls or any(len(call.args) > 1 or call.keywords or _has_rate(call) for call in calls)


def _has_rate(call: ast.Call) -> bool:
    """`SGD([{"params": ..., "lr": 0.1}])`, or groups made elsewhere, or all arguments in one."""
    direct = call.args[0] if call.args else None
    return not (isinstance(direct, ast.Call) and called_name(direct) == "parameters")
