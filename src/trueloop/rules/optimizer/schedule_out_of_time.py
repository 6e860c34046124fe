"""OPT107 schedule-out-of-time: the schedule counts in other units than the loop that steps it.

What it sees
------------
How often a schedule was stepped, against its length and against the steps of its optimizer. Too slow: a schedule that
is made for optimizer steps (OneCycleLR, CyclicLR, or one whose length is exactly the number of optimizer steps) is
stepped once per epoch and never gets anywhere. Too fast: CosineAnnealingLR is stepped per batch past twice its T_max,
so that the rate has climbed back; or a decay that is stepped per batch has brought the rate below a ten-thousandth of
its height for more than half of the run.

Why it hurts
------------
The learning rate you think you train with is not the one that is used: a cycle that never leaves its warm-up, a cosine
that swings up and down all the time, or a rate that is practically zero after the first epoch.

Evidence
--------
The schedule, its length, how often it was stepped, how many steps the optimizer took, and the learning rates.

Use instead
-----------
    scheduler = OneCycleLR(optimizer, max_lr=0.1, epochs=epochs, steps_per_epoch=len(loader))
    for x, y in loader:
        ...
        optimizer.step()
        scheduler.step()

When it is fine
---------------
Not reported: warm restarts and cycles that are stepped per batch, schedules inside others, `step(epoch)`, a schedule in
epochs that a short run does not get through, a cycle that does reach its end though it is stepped per epoch, runs that
were cut short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from trueloop.event import EpochStarted, Place, RunEnded, ScheduleEnded, ScheduleStepped, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import loops_around, move_statement, sole_call
from trueloop.usercode.source import diff, source_of

__all__ = ["ScheduleOutOfTime"]

CYCLES: Final = ("OneCycleLR", "CyclicLR")
"""Schedules that are defined per batch."""
LENGTHY: Final = ("CosineAnnealingLR", "LinearLR", "PolynomialLR")
"""Schedules that have a length, in whichever unit."""
NEITHER: Final = (
    *CYCLES,
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "SequentialLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
)
"""Schedules that come back up, or whose rate follows something else: a low rate is not a decay that ran out."""
PLANNED: Final = 5
"""A cycle was planned in optimizer steps if the run took at least a fifth of its length (accumulation of four) and at
most twice."""
LONGEST_IN_EPOCHS: Final = 100
"""A repeating cycle longer than this is not meant in epochs."""
DEAD: Final = 1e-4
"""Below this share of its highest value a learning rate moves nothing any more: the usual decays end at a hundredth or
a thousandth."""


@dataclass(slots=True)
class _Story:
    """How one schedule was stepped."""

    last: ScheduleStepped
    highest: float = 0.0
    dead_since: int | None = None
    """Optimizer steps taken when the rate had fallen for good."""
    explicit: bool = False
    in_this_pass: int = 0
    most_in_a_pass: int = 0
    passes: int = 0
    """Passes over a loader in which it was stepped."""

    def add(self, event: ScheduleStepped) -> None:
        self.last = event
        self.explicit = self.explicit or event.explicit
        rate = max(event.learning_rates, default=0.0)
        self.highest = max(self.highest, rate)
        if rate >= DEAD * self.highest:
            self.dead_since = None
        elif self.dead_since is None:
            self.dead_since = event.optimizer_steps
        self.in_this_pass += 1
        self.most_in_a_pass = max(self.most_in_a_pass, self.in_this_pass)
        self.passes += self.in_this_pass == 1


@final
class ScheduleOutOfTime(Rule):
    code = "OPT107"
    name = "schedule-out-of-time"
    severity = Severity.ERROR
    not_applicable = "no schedule was stepped"

    def __init__(self) -> None:
        self._stories: dict[int, _Story] = {}
        self._ended: list[ScheduleEnded] = []
        self._loaders = 0
        self._step_places: dict[int, Place | None] = {}

    def on_stepped(self, event: Stepped) -> None:
        self._step_places.setdefault(event.optimizer, event.place)

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._loaders += 1
        for story in self._stories.values():
            story.in_this_pass = 0

    def on_schedule_stepped(self, event: ScheduleStepped) -> None:
        self._stories.setdefault(event.schedule, _Story(event)).add(event)

    def on_schedule_ended(self, event: ScheduleEnded) -> None:
        self._ended.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for ended in self._ended:
            story = self._stories.get(ended.schedule)
            if story is None or story.explicit or ended.inner or not ended.seen_from_start:
                continue
            if _wraps(story, ended, loaders=self._loaders):
                yield self._too_fast(story, ended)
            elif end.reason in ("finished", "exit") and _crawls(ended):
                yield self._too_slow(story, ended)
            elif end.reason == "finished" and _is_dead(story, ended):
                yield self._dead(story, ended)

    def _too_slow(self, story: _Story, ended: ScheduleEnded) -> Finding:
        return self._say(
            story,
            ended,
            f"{ended.name} was made for {ended.length} steps and was stepped {ended.steps} times while its optimizer took "
            f"{ended.optimizer_steps}: it got through {_share(ended.steps, ended.length)} of its course.",
            "Step it after every optimizer step.",
            _into_the_loop(story.last.place, self._step_places.get(ended.optimizer)),
        )

    def _too_fast(self, story: _Story, ended: ScheduleEnded) -> Finding:
        in_epochs = story.passes == ended.length
        return self._say(
            story,
            ended,
            f"CosineAnnealingLR reaches its lowest rate after {ended.length} steps and climbs back after that: it was stepped "
            f"{ended.steps} times, with every optimizer step.",
            "Step it once per epoch, or give T_max in optimizer steps; for waves on purpose there is CosineAnnealingWarmRestarts.",
            _out_of_the_loop(story.last.place) if in_epochs else "",
        )

    def _dead(self, story: _Story, ended: ScheduleEnded) -> Finding:
        return self._say(
            story,
            ended,
            f"{ended.name}, stepped once per batch, had brought the learning rate below {DEAD:g} of its height after "
            f"{story.dead_since} of {ended.optimizer_steps} steps: the rest of the run changed next to nothing.",
            "Step it once per epoch, or give its numbers in optimizer steps.",
            _out_of_the_loop(story.last.place),
        )

    def _say(self, story: _Story, ended: ScheduleEnded, message: str, fix: str, patch: str) -> Finding:
        evidence = {
            "schedule": ended.name,
            "length": ended.length,
            "schedule_steps": ended.steps,
            "optimizer_steps": ended.optimizer_steps,
            "highest_learning_rate": story.highest,
            "last_learning_rate": story.last.learning_rates[:1],
            "built_at": None if ended.place is None else ended.place.line,
        }
        return self.finding(story.last, message, fix=fix, evidence=evidence, diff=patch)


def _share(steps: int, length: int | None) -> str:
    return f"{100 * steps / max(1, length or 1):.2g} %"


def _crawls(ended: ScheduleEnded) -> bool:
    """Stepped far too rarely for a length in optimizer steps."""
    steps, updates, length = ended.steps, ended.optimizer_steps, ended.length
    if length is None or steps < 2 or 2 * steps > updates or 2 * steps > length:
        return False
    if ended.name == "OneCycleLR":
        return length <= PLANNED * updates and updates <= 2 * length
    if ended.name == "CyclicLR":
        return length <= PLANNED * updates and length > LONGEST_IN_EPOCHS
    return ended.name in LENGTHY and length == updates


def _wraps(story: _Story, ended: ScheduleEnded, *, loaders: int) -> bool:
    """A cosine that was stepped with every optimizer step, past twice its length, though that is no wave of an epoch or
    longer."""
    length = ended.length
    if ended.name != "CosineAnnealingLR" or not length or ended.steps < 2 * length:
        return False
    if abs(ended.steps - ended.optimizer_steps) > 1 + ended.optimizer_steps // 10:
        return False
    return not loaders or length < story.most_in_a_pass or length == story.passes


def _is_dead(story: _Story, ended: ScheduleEnded) -> bool:
    """A decay that is stepped inside an epoch, and left more than half of the run without a learning rate."""
    if ended.name in NEITHER or story.dead_since is None or story.most_in_a_pass < 2:
        return False
    per_batch = 2 * ended.steps > ended.optimizer_steps
    return per_batch and 2 * (ended.optimizer_steps - story.dead_since) > ended.optimizer_steps


def _into_the_loop(place: Place | None, step_place: Place | None) -> str:
    """From the epoch's loop to behind the optimizer's step, in the loop inside it."""
    if place is None or step_place is None:
        return ""
    source = source_of(place.path)
    schedule, step = sole_call(source, place, "step"), sole_call(source, step_place, "step")
    if schedule is None or step is None:
        return ""
    mine, others = loops_around(source, schedule[0]), loops_around(source, step[0])
    return diff(place.path, move_statement(source, schedule[0], step[0])) if mine and mine[0] in others[1:] else ""


def _out_of_the_loop(place: Place | None) -> str:
    """From the loop over batches to behind it, in the epoch's loop."""
    source = source_of(place.path) if place is not None else None
    schedule = None if source is None else sole_call(source, place, "step")
    if source is None or place is None or schedule is None:
        return ""
    loops = loops_around(source, schedule[0])
    return diff(place.path, move_statement(source, schedule[0], loops[0])) if len(loops) > 1 else ""
