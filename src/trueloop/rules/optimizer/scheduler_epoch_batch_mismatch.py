"""OPT107 scheduler-epoch-batch-mismatch: the scheduler is stepped per epoch but configured per batch, or vice versa.

What it sees
------------
How often a scheduler was stepped, compared with its length and with the optimizer steps. Too slow: a scheduler meant
for optimizer steps (OneCycleLR, CyclicLR, or one whose length is exactly the number of optimizer steps) is stepped once
per epoch. The length of a LambdaLR is a whole number that your function reads. Too fast: CosineAnnealingLR is stepped
per batch past twice its `T_max`, so the learning rate rises again; or a decay stepped per batch was below 1e-4 of its
maximum for more than half of the run.
Without a DataLoader nothing shows where an epoch ends. Then the source must say it: `T_max` is written as the range of
the epoch loop.

Why it hurts
------------
The learning rate is not the one you configured: a cycle that never leaves its warmup, a cosine that goes up and down
all the time, or a learning rate that is practically zero after the first epoch.

Evidence
--------
The scheduler, its length, how often it was stepped, the number of optimizer steps, and the learning rates.

Use instead
-----------
    scheduler = OneCycleLR(optimizer, max_lr=0.1, epochs=epochs, steps_per_epoch=len(loader))
    for x, y in loader:
        ...
        optimizer.step()
        scheduler.step()

When it is fine
---------------
Not reported: warm restarts and cycles stepped per batch, schedulers inside others, `step(epoch)`, a schedule in epochs
that a short run does not finish, a cosine of one epoch, a cycle stepped per epoch that reaches its end, interrupted
runs, a function that turns epochs into optimizer steps itself.
"""

import ast
from dataclasses import dataclass
from typing import Final

from trueloop.event import EpochStarted, Place, RunEnded, ScheduleEnded, ScheduleStepped, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts
from trueloop.usercode.rewrite import loops_around, move_statement, sole_call
from trueloop.usercode.source import called_name, calls_in, diff, source_of

__all__ = ["SchedulerEpochBatchMismatch"]

CYCLES: Final = ("OneCycleLR", "CyclicLR")  # Schedulers defined per batch
LENGTHY: Final = ("CosineAnnealingLR", "LinearLR", "PolynomialLR")  # Schedulers with a length, in batches or epochs
NEITHER: Final = (
    *(*CYCLES, "CosineAnnealingLR", "CosineAnnealingWarmRestarts"),
    *("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau"),
)  # Schedulers whose learning rate rises again or depends on something else: a low value is not a finished decay
PLANNED: Final = 5  # A cycle is in optimizer steps if the run took 1/5 (accumulation over four) to 2 times its length
LONGEST_IN_EPOCHS: Final = 100  # A repeating cycle longer than this is not in epochs
MANY: Final = 4  # optimizer steps in an epoch: with fewer, the number of them may be that of something else
UNMOVED: Final = 0.8  # of the highest rate: a schedule that is at its start, or barely left its peak
DEAD: Final = 1e-4  # Share of the highest learning rate below which nothing changes: usual decays end at 1e-2 or 1e-3


@dataclass(slots=True)
class _Record:
    """How one scheduler was stepped."""

    last: ScheduleStepped
    highest: float = 0.0
    dead_since: int | None = None  # Optimizer steps when the learning rate fell below the limit for good
    explicit: bool = False
    in_this_pass: int = 0
    most_in_a_pass: int = 0
    passes: int = 0  # Passes over a loader in which it was stepped

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


class SchedulerEpochBatchMismatch(Rule, code="OPT107", severity=Severity.ERROR):
    not_applicable = "no learning rate scheduler was stepped"

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}
        self._ended: list[ScheduleEnded] = []
        self._loaders = 0
        self._step_places: dict[int, Place | None] = {}

    def on_stepped(self, event: Stepped) -> None:
        self._step_places.setdefault(event.optimizer, event.place)

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._loaders += 1
        for record in self._records.values():
            record.in_this_pass = 0

    def on_schedule_stepped(self, event: ScheduleStepped) -> None:
        self._records.setdefault(event.schedule, _Record(event)).add(event)

    def on_schedule_ended(self, event: ScheduleEnded) -> None:
        self._ended.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for ended in self._ended:
            record = self._records.get(ended.schedule)
            if record is None or record.explicit or ended.inner or not ended.seen_from_start:
                continue
            # passes over data in unwatched steps were not counted
            if not end.unwatched_steps and _wraps(record, ended, loaders=self._loaders):
                yield self._too_fast(record, ended)
            elif end.reason in ("finished", "exit") and _is_too_slow(ended, loaders=self._loaders):
                yield self._too_slow(record, ended)
            elif end.reason == "finished" and _is_dead(record, ended):
                yield self._dead(record, ended)

    def _too_slow(self, record: _Record, ended: ScheduleEnded) -> Finding:
        length = ended.optimizer_steps if ended.length is None else ended.length  # of a LambdaLR
        share = f"{100 * ended.steps / max(1, length):.2g}%"
        return self._report(
            record,
            ended,
            f"{ended.name} has {length} steps but was stepped {ended.steps} times in {ended.optimizer_steps} "
            f"optimizer steps: only {share} of the schedule ran.",
            "Call `scheduler.step()` after every `optimizer.step()`.",
            _into_the_loop(record.last.place, self._step_places.get(ended.optimizer)),
        )

    def _too_fast(self, record: _Record, ended: ScheduleEnded) -> Finding:
        return self._report(
            record,
            ended,
            f"`CosineAnnealingLR` with `T_max={ended.length}` was stepped {ended.steps} times, once per optimizer "
            f"step: after {ended.length} steps the learning rate rises again.",
            "Call `scheduler.step()` once per epoch, or set `T_max` in optimizer steps. For cycles on purpose use "
            "`CosineAnnealingWarmRestarts`.",
            _out_of_the_loop(record.last.place) if not self._loaders or record.passes == ended.length else "",
        )

    def _dead(self, record: _Record, ended: ScheduleEnded) -> Finding:
        return self._report(
            record,
            ended,
            f"{ended.name}, stepped once per batch, cut the learning rate below {DEAD:g} of its maximum after "
            f"{record.dead_since} of {ended.optimizer_steps} steps. The rest of the run learned almost nothing.",
            "Call `scheduler.step()` once per epoch, or configure it in optimizer steps.",
            _out_of_the_loop(record.last.place),
        )

    def _report(self, record: _Record, ended: ScheduleEnded, message: str, fix: str, patch: str) -> Finding:
        evidence = facts(
            ended,
            "schedule=name length schedule_steps=steps optimizer_steps highest_learning_rate last_learning_rate",
            highest_learning_rate=record.highest,
            last_learning_rate=record.last.learning_rates[:1],
            created_at=ended.place,
        )
        return self.finding(record.last, message, fix=fix, evidence=evidence, diff=patch)


def _is_too_slow(ended: ScheduleEnded, *, loaders: int) -> bool:
    """Stepped far too rarely for a length in optimizer steps."""
    steps, updates, length = ended.steps, ended.optimizer_steps, ended.length
    if ended.numbers and length is None:
        return _knows_only_optimizer_steps(ended)
    if length is None or steps < 2 or 2 * steps > updates or 2 * steps > length:
        return False
    if ended.name == "OneCycleLR":
        return length <= PLANNED * updates and updates <= 2 * length
    if ended.name == "CyclicLR":
        return length <= PLANNED * updates and length > LONGEST_IN_EPOCHS
    planned = loaders or not isinstance(_written_length(ended.place), ast.Constant)  # 100 may be 100 epochs
    return ended.name in LENGTHY and length == updates and bool(planned)


def _knows_only_optimizer_steps(ended: ScheduleEnded) -> bool:
    """A function that reads the number of all optimizer steps, was asked for far fewer, and has not come down. One that
    also reads the optimizer steps between two of its own may convert them. A number that is written in the file as it
    is may be a plan of epochs that a short run does not finish."""
    steps, updates = ended.steps, ended.optimizer_steps
    if steps < 2 or MANY * steps > updates or updates not in ended.numbers:
        return False
    converts = any(number in ended.numbers for number in (updates // steps, updates // (steps + 1)))
    nodes = ast.walk(source_of(ended.place.path).tree) if ended.place else ()
    written = any(isinstance(node, ast.Constant) and node.value == updates for node in nodes)
    highest, last = ended.rates
    return not converts and not written and last >= UNMOVED * highest > 0


def _wraps(record: _Record, ended: ScheduleEnded, *, loaders: int) -> bool:
    """A cosine stepped with every optimizer step, past twice its length, unless a cycle lasts an epoch or longer."""
    length = ended.length
    if ended.name != "CosineAnnealingLR" or not length or ended.steps < 2 * length:
        return False
    if abs(ended.steps - ended.optimizer_steps) > 1 + ended.optimizer_steps // 10:
        return False
    if not loaders:
        return _is_range_of_epochs(_written_length(ended.place), record.last.place)
    return length < record.most_in_a_pass or length == record.passes


def _written_length(place: Place | None) -> ast.expr | None:
    """What the line that builds a schedule gives as its length: the expression behind `T_max`."""
    source = None if place is None else source_of(place.path)
    statement = None if source is None or place is None else source.statement(place.line)
    for call in () if statement is None else calls_in(statement):
        if (name := called_name(call)) in LENGTHY:
            named = [keyword.value for keyword in call.keywords if keyword.arg in ("T_max", "total_iters")]
            return next(iter(named), call.args[1] if name == "CosineAnnealingLR" and len(call.args) > 1 else None)
    return None


def _is_range_of_epochs(length: ast.expr | None, place: Place | None) -> bool:
    """Is the schedule stepped in a loop inside `for epoch in range(length)`?"""
    source = None if place is None else source_of(place.path)
    stepped = None if source is None or place is None else sole_call(source, place, "step")
    if source is None or stepped is None or length is None:
        return False
    batches, *around = [_range_of(loop) for loop in loops_around(source, stepped[0])] or [""]
    return ast.unparse(length) in around and ast.unparse(length) != batches


def _range_of(loop: ast.stmt) -> str:
    """`epochs` of `for _ in range(epochs)` and of `range(1, epochs + 1)`; empty for every other loop."""
    called = calls_in(loop.iter) if isinstance(loop, ast.For) else iter(())
    counted = next((call for call in called if called_name(call) in ("range", "trange")), None)
    if counted is None or not 1 <= len(counted.args) <= 2:
        return ""
    text = [ast.unparse(argument) for argument in counted.args]
    return text[0] if len(text) == 1 or text[0] == "0" else text[1].removesuffix(" + 1") if text[0] == "1" else ""


def _is_dead(record: _Record, ended: ScheduleEnded) -> bool:
    """A decay stepped within epochs that left more than half of the run without a learning rate."""
    if ended.name in NEITHER or record.dead_since is None or record.most_in_a_pass < 2:
        return False
    per_batch = 2 * ended.steps > ended.optimizer_steps
    return per_batch and 2 * (ended.optimizer_steps - record.dead_since) > ended.optimizer_steps


def _into_the_loop(place: Place | None, step_place: Place | None) -> str:
    """Moves the call from the epoch loop to after the optimizer step, in the inner loop."""
    if place is None or step_place is None:
        return ""
    source = source_of(place.path)
    schedule, step = sole_call(source, place, "step"), sole_call(source, step_place, "step")
    if schedule is None or step is None:
        return ""
    mine, others = loops_around(source, schedule[0]), loops_around(source, step[0])
    return diff(place.path, move_statement(source, schedule[0], step[0])) if mine and mine[0] in others[1:] else ""


def _out_of_the_loop(place: Place | None) -> str:
    """Moves the call from the batch loop to after it, in the epoch loop."""
    source = source_of(place.path) if place is not None else None
    schedule = None if source is None else sole_call(source, place, "step")
    if source is None or place is None or schedule is None:
        return ""
    loops = loops_around(source, schedule[0])
    return diff(place.path, move_statement(source, schedule[0], loops[0])) if len(loops) > 1 else ""
