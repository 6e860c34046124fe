"""The thresholds of the schedule rules, on both sides, on constructed events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest

from trueloop.event import EpochStarted, Event, Place, RunEnded, ScheduleBuilt, ScheduleEnded, ScheduleStepped
from trueloop.rules.checker import Checker
from trueloop.rules.optimizer.scheduler_epoch_batch_mismatch import DEAD, LONGEST_IN_EPOCHS, SchedulerEpochBatchMismatch
from trueloop.rules.optimizer.scheduler_never_stepped import STEPS, SchedulerNeverStepped
from trueloop.rules.optimizer.scheduler_stepped_before_optimizer import SchedulerSteppedBeforeOptimizer
from trueloop.rules.rule import Rule

Reason = Literal["finished", "cut", "exception", "interrupted", "exit"]
BUILT, LINE = Place("/gone.py", 5), Place("/gone.py", 10)
EPOCH = EpochStarted(0, None, 0, 8, 1)


def stepped(index: int, updates: int, **changes: object) -> ScheduleStepped:
    event = ScheduleStepped(
        step=updates, place=LINE, schedule=0, name="StepLR", index=index, length=None, optimizer_steps=updates, skipped_by_scaler=False,  # noqa: E501
        seen_from_start=True, learning_rates=(0.1,), optimizer=0, explicit=False,
    )  # fmt: skip
    return replace(event, **changes)  # type: ignore[arg-type]


def ended(steps: int, updates: int, **changes: object) -> ScheduleEnded:
    event = ScheduleEnded(
        step=updates, place=BUILT, schedule=0, name="StepLR", length=None, steps=steps, optimizer=0, optimizer_steps=updates, passes=0,  # noqa: E501
        inner=False, seen_from_start=True,
    )  # fmt: skip
    return replace(event, **changes)  # type: ignore[arg-type]


def found(rule: type[Rule], events: Iterable[Event], reason: Reason = "finished") -> list[int]:
    checker = Checker([rule])
    for event in (*events, RunEnded(9, None, reason, 0, 0, 0)):
        checker.check(event)
    assert not checker.failures, checker.failures
    return [finding.place.line for finding in checker.findings() if finding.place is not None]


# -- scheduler-stepped-before-optimizer --


def test_the_early_line_must_come_again_after_a_step() -> None:
    built = ScheduleBuilt(0, BUILT, 0, "StepLR", None, (0.1,), 0)
    assert found(SchedulerSteppedBeforeOptimizer, [built, stepped(0, 0), stepped(1, 4)]) == [10]
    assert found(SchedulerSteppedBeforeOptimizer, [built, stepped(0, 0)]) == []
    assert found(SchedulerSteppedBeforeOptimizer, [built, stepped(0, 0), stepped(1, 4, place=BUILT)]) == []
    assert found(SchedulerSteppedBeforeOptimizer, [built, stepped(0, 0), stepped(1, 0), stepped(2, 4)]) == []


@pytest.mark.parametrize(
    "change", [{"explicit": True}, {"seen_from_start": False}, {"name": "ReduceLROnPlateau"}, {"step": 3}]
)
def test_early_steps_that_are_in_order(change: dict[str, object]) -> None:
    assert found(SchedulerSteppedBeforeOptimizer, [stepped(0, 0, **change), stepped(1, 4)]) == []


def test_a_scaler_may_have_skipped_the_first_step() -> None:
    assert found(SchedulerSteppedBeforeOptimizer, [stepped(0, 0), stepped(1, 4, skipped_by_scaler=True)]) == []


# -- scheduler-never-stepped --


@pytest.mark.parametrize(("updates", "lines"), [(STEPS, [5]), (STEPS - 1, [])])
def test_enough_steps_must_have_gone_by(updates: int, lines: list[int]) -> None:
    assert found(SchedulerNeverStepped, [ended(0, updates)]) == lines


@pytest.mark.parametrize("change", [{"inner": True}, {"seen_from_start": False}, {"steps": 1}])
def test_schedules_at_rest_that_are_in_order(change: dict[str, object]) -> None:
    assert found(SchedulerNeverStepped, [replace(ended(0, 50), **change)]) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("passes", "lines"), [(0, [5]), (1, []), (2, [5])])
def test_a_plateau_is_due_after_the_first_epoch(passes: int, lines: list[int]) -> None:
    assert found(SchedulerNeverStepped, [ended(0, 50, name="ReduceLROnPlateau", passes=passes)]) == lines


@pytest.mark.parametrize("reason", ["cut", "exception", "interrupted"])
def test_a_run_that_was_cut_short_says_nothing_of_schedules(reason: Reason) -> None:
    assert found(SchedulerNeverStepped, [ended(0, 50)], reason) == []
    assert found(SchedulerEpochBatchMismatch, _steps(3, 10, "OneCycleLR", 30), reason) == []


# -- scheduler-epoch-batch-mismatch --


def _steps(count: int, each: int, name: str, length: int | None, **changes: object) -> list[Event]:
    """Stepped `count` times, each after `each` optimizer steps."""
    events: list[Event] = [stepped(i, (i + 1) * each, name=name, length=length, **changes) for i in range(count)]
    return [*events, ended(count, count * each, name=name, length=length)]


@pytest.mark.parametrize(
    ("count", "each", "length", "lines"),
    [
        (3, 10, 30, [10]),  # per epoch, length in batches
        (30, 1, 30, []),  # per batch
        (3, 10, 3, []),  # per epoch, length in epochs
        (15, 2, 30, [10]),  # half as often as the optimizer: it gets half way
        (16, 2, 30, []),  # more than half way
        (3, 2, 30, [10]),  # with accumulation: a fifth of the length in updates
        (3, 2, 31, []),
        (3, 10, 15, [10]),  # twice as many updates as its length
        (3, 10, 14, []),
        (1, 10, 30, []),  # once is no habit
    ],
)
def test_a_cycle_must_get_somewhere(count: int, each: int, length: int, lines: list[int]) -> None:
    assert found(SchedulerEpochBatchMismatch, _steps(count, each, "OneCycleLR", length)) == lines


def test_other_lengths_must_be_the_optimizers_to_be_meant_in_its_steps() -> None:
    assert found(SchedulerEpochBatchMismatch, _steps(3, 10, "CosineAnnealingLR", 30)) == [10]
    assert found(SchedulerEpochBatchMismatch, _steps(3, 10, "CosineAnnealingLR", 31)) == []
    assert found(SchedulerEpochBatchMismatch, _steps(3, 10, "StepLR", None)) == []


def test_a_repeating_cycle_may_be_meant_in_epochs_if_it_is_short() -> None:
    assert found(SchedulerEpochBatchMismatch, _steps(3, 100, "CyclicLR", LONGEST_IN_EPOCHS + 1)) == [10]
    assert found(SchedulerEpochBatchMismatch, _steps(3, 100, "CyclicLR", LONGEST_IN_EPOCHS)) == []


@pytest.mark.parametrize(("length", "lines"), [(10, [10]), (11, [])])
def test_a_cosine_wraps_after_twice_its_length(length: int, lines: list[int]) -> None:
    steps = _steps(20, 1, "CosineAnnealingLR", length)
    assert found(SchedulerEpochBatchMismatch, [EPOCH, *steps]) == lines
    assert found(SchedulerEpochBatchMismatch, steps) == []  # without a loader the source must say what an epoch is


def test_a_cosine_of_one_epoch_is_a_wave_and_one_of_the_epochs_count_is_not() -> None:
    def epochs(length: int, count: int) -> list[Event]:
        """Four batches each."""
        events: list[Event] = []
        for i in range(4 * count):
            events += [EPOCH] if i % 4 == 0 else []
            events.append(stepped(i, i + 1, name="CosineAnnealingLR", length=length))
        return [*events, ended(4 * count, 4 * count, name="CosineAnnealingLR", length=length)]

    assert found(SchedulerEpochBatchMismatch, epochs(length=4, count=5)) == []
    assert found(SchedulerEpochBatchMismatch, epochs(length=5, count=5)) == [10]
    assert found(SchedulerEpochBatchMismatch, epochs(length=3, count=5)) == [10]
    assert found(SchedulerEpochBatchMismatch, epochs(length=6, count=5)) == []


@pytest.mark.parametrize(("share", "dead_for", "lines"), [(0.9, 11, [10]), (1.0, 11, []), (0.9, 10, [])])
def test_a_decay_must_be_dead_for_more_than_half_of_the_run(share: float, dead_for: int, lines: list[int]) -> None:
    alive = 20 - dead_for
    rates = [1.0] * (alive - 1) + [share * DEAD] * (dead_for + 1)
    events: list[Event] = [EPOCH, *(stepped(i, i + 1, learning_rates=(rate,)) for i, rate in enumerate(rates))]
    assert found(SchedulerEpochBatchMismatch, [*events, ended(20, 20)]) == lines


def test_a_decay_without_batches_inside_an_epoch_is_not_judged() -> None:
    events: list[Event] = []
    for i in range(20):
        events += [EPOCH, stepped(i, i + 1, learning_rates=(1.0 if i < 3 else 0.0,))]
    assert found(SchedulerEpochBatchMismatch, [*events, ended(20, 20)]) == []
