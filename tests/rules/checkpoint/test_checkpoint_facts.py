"""The checkpoint rules on constructed events: each condition from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import (
    Contents,
    Event,
    FileLoaded,
    FileWritten,
    Place,
    Resumed,
    RunEnded,
    SavedCounter,
    ScheduleAtResume,
    ScheduleStepped,
)
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.checkpoint.optimizer_state_not_restored import OptimizerStateNotRestored
from trueloop.rules.checkpoint.scheduler_or_rng_not_restored import SchedulerOrRngNotRestored
from trueloop.rules.checkpoint.unsafe_load import UnsafeLoad
from trueloop.rules.checkpoint.whole_model_pickled import WholeModelPickled
from trueloop.rules.rule import Rule
from trueloop.run import event_from, event_to

HERE = Place("gone.py", 7, "train")
THERE = Place("gone.py", 20, "train")
FILE = "/runs/last.pt"
KEPT = Contents(weights=4, optimizers=1, counters=(SavedCounter("epoch", 3),))
RESUMED = Resumed(
    step=0,
    place=HERE,
    file=FILE,
    model="Net",
    optimizer=0,
    name="Adam",
    optimizer_place=None,
    fresh=True,
    stateful=True,
    key=("optimizer",),
    parameters_with_state=4,
    steps_before=120,
    same_settings=True,
    rate_moved=False,
    contents=KEPT,
    schedules=(),
    scaler_used=False,
    scaler_restored=False,
    random_restored=False,
)
WRITTEN = FileWritten(step=5, place=THERE, file=FILE, contents=KEPT, direct=True)
OPENED = FileLoaded(
    step=0, place=HERE, file=FILE, unsafe=True, direct=True, written_by_run=False, unsafe_classes=(), fully_read=True
)
COSINE = ScheduleAtResume(schedule=1, name="CosineAnnealingLR", last_epoch=0, user_defined=False)
STEPPED = ScheduleStepped(
    step=1,
    place=THERE,
    schedule=1,
    name="CosineAnnealingLR",
    index=0,
    length=8,
    optimizer_steps=1,
    skipped_by_scaler=False,
    seen_from_start=True,
    learning_rates=(0.1,),
    optimizer=0,
    explicit=False,
)
END = RunEnded(step=9, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)


def judged(rule: type[Rule], events: Iterable[Event]) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event_from(event_to(event)))  # a recorded run is judged alike
    assert not checker.failures
    return checker.findings()


# -- whole models --


def test_a_module_in_a_file_is_reported_and_not_one_in_memory_or_by_a_library() -> None:
    whole = replace(WRITTEN, contents=Contents(modules=(("model", "Net"),)))
    (finding,) = judged(WholeModelPickled, [whole])
    assert "the Net under 'model'" in finding.message
    assert finding.severity is Severity.WARNING
    assert not judged(WholeModelPickled, [replace(whole, file=""), replace(whole, direct=False), WRITTEN])


# -- loads --


def test_only_an_unsafe_load_of_a_strange_file_by_the_user_is_reported() -> None:
    assert len(judged(UnsafeLoad, [OPENED])) == 1
    for silent in (
        replace(OPENED, unsafe=False),
        replace(OPENED, direct=False),
        replace(OPENED, written_by_run=True),
        replace(OPENED, file=""),
    ):
        assert not judged(UnsafeLoad, [silent])


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (OPENED, "only tensors and plain values"),
        (replace(OPENED, unsafe_classes=("__main__.Config",)), "contains __main__.Config"),
        (replace(OPENED, fully_read=False), "cannot be scanned"),
    ],
)
def test_it_says_what_the_file_needs(event: FileLoaded, words: str) -> None:
    (finding,) = judged(UnsafeLoad, [event])
    assert words in finding.message
    assert not finding.diff


# -- optimizers --


def test_a_state_in_the_file_that_nobody_loads_is_reported() -> None:
    (finding,) = judged(OptimizerStateNotRestored, [RESUMED])
    assert "after 120 steps" in finding.message
    assert finding.place == HERE


@pytest.mark.parametrize(
    "event",
    [
        replace(RESUMED, fresh=False),
        replace(RESUMED, stateful=False),
        replace(RESUMED, key=()),
        replace(RESUMED, same_settings=False),
    ],
    ids=["it was loaded", "it has no state", "it is not in the file", "another training"],
)
def test_it_is_not_reported_where_nothing_is_lost_or_nothing_goes_on(event: Resumed) -> None:
    assert not judged(OptimizerStateNotRestored, [event])


def test_different_settings_are_reported_once_the_same_file_is_written_again() -> None:
    other = replace(RESUMED, same_settings=False)
    (finding,) = judged(OptimizerStateNotRestored, [other, WRITTEN])
    assert finding.place == HERE
    assert not judged(OptimizerStateNotRestored, [other, replace(WRITTEN, file="/runs/other.pt")])
    assert not judged(
        OptimizerStateNotRestored, [other, replace(WRITTEN, contents=Contents(counters=(SavedCounter("epoch", 4),)))]
    )


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('start = kept["epoch"] + 1', 1),
        ('start = kept.get("epoch", 0)', 1),
        ('for epoch in range(kept["epoch"], 9): pass', 1),
        ('print(f"from epoch {kept["epoch"]}")', 0),
        ('print("from epoch", kept["epoch"])', 0),
        ('name = f"{kept["epoch"]}.pt"', 0),
        ('start = kept["best"]', 0),
        ('kept["epoch"] = 0', 0),
    ],
)
def test_different_settings_are_reported_if_the_counter_is_read(line: str, count: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(line.replace('{kept["epoch"]}', "{kept['epoch']}") + "\n", encoding="utf-8")
    event = replace(RESUMED, same_settings=False, place=Place(str(script), 1, "train"))
    assert len(judged(OptimizerStateNotRestored, [event])) == count


def test_a_file_that_goes_on_without_a_place_for_the_optimizer_is_reported_where_it_is_written() -> None:
    weights = replace(KEPT, optimizers=0)
    resumed = replace(RESUMED, key=(), contents=weights)
    after = replace(WRITTEN, contents=replace(weights, counters=(SavedCounter("epoch", 4),)))
    (finding,) = judged(OptimizerStateNotRestored, [resumed, after])
    assert finding.place == THERE
    assert finding.evidence["counter"] == {"name": "epoch", "read": 3, "written": 4}


@pytest.mark.parametrize("epoch", [0, 3], ids=["counted anew", "a setting"])
def test_a_counter_that_does_not_continue_is_a_different_training(epoch: int) -> None:
    weights = replace(KEPT, optimizers=0)
    first = replace(WRITTEN, contents=replace(weights, counters=(SavedCounter("epoch", epoch),)))
    later = replace(WRITTEN, contents=replace(weights, counters=(SavedCounter("epoch", 9),)))
    assert not judged(OptimizerStateNotRestored, [replace(RESUMED, key=(), contents=weights), first, later])


# -- scheduler, scaler and random state --

WITH_SCHEDULE = replace(RESUMED, fresh=False, schedules=(COSINE,), contents=replace(KEPT, schedules=1))


def test_a_schedule_at_its_beginning_is_reported_when_it_is_stepped() -> None:
    assert not judged(SchedulerOrRngNotRestored, [WITH_SCHEDULE, END])
    (finding,) = judged(SchedulerOrRngNotRestored, [WITH_SCHEDULE, STEPPED, END])
    assert finding.severity is Severity.ADVICE
    assert finding.evidence["restarted"] == ["the scheduler (CosineAnnealingLR)"]


@pytest.mark.parametrize(
    "event",
    [
        replace(WITH_SCHEDULE, fresh=True),
        replace(WITH_SCHEDULE, key=()),
        replace(WITH_SCHEDULE, schedules=(replace(COSINE, last_epoch=4),)),
        replace(WITH_SCHEDULE, contents=KEPT),
        replace(WITH_SCHEDULE, contents=KEPT, rate_moved=True, schedules=(replace(COSINE, user_defined=True),)),
    ],
    ids=["a fresh optimizer", "not this optimizer", "it was loaded", "none before", "a function that may know"],
)
def test_other_schedules_are_not_reported(event: Resumed) -> None:
    assert not judged(SchedulerOrRngNotRestored, [event, STEPPED, END])


def test_a_rate_that_a_schedule_had_moved_is_enough_and_a_named_epoch_is_an_answer() -> None:
    moved = replace(WITH_SCHEDULE, contents=KEPT, rate_moved=True)
    assert len(judged(SchedulerOrRngNotRestored, [moved, STEPPED])) == 1
    assert not judged(SchedulerOrRngNotRestored, [moved, replace(STEPPED, explicit=True), END])


def test_scaler_and_random_state_are_reported_together() -> None:
    event = replace(RESUMED, fresh=False, scaler_used=True, contents=replace(KEPT, random=True))
    (finding,) = judged(SchedulerOrRngNotRestored, [event])
    assert finding.evidence["restarted"] == ["the GradScaler", "torch's random generator"]
    assert not judged(SchedulerOrRngNotRestored, [replace(event, scaler_restored=True, random_restored=True)])
    assert not judged(SchedulerOrRngNotRestored, [replace(RESUMED, fresh=False)])


def test_a_random_state_that_may_be_put_back_unseen_is_not_reported(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('torch.default_generator.set_state(kept["random"])\n', encoding="utf-8")
    event = replace(RESUMED, fresh=False, contents=replace(KEPT, random=True), place=Place(str(script), 1, "train"))
    assert not judged(SchedulerOrRngNotRestored, [event, END])
