"""At which steps rows are written: a short run has a curve, a long run keeps its pace, a resumed run has the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.small import SMALL, Read
from trueloop.engine.row_schedule import RowSchedule, line_interval, metrics_schedule, statistics_schedule
from trueloop.hook import Ending, Hook, Hooks, Row
from trueloop.session.train import resume, train
from trueloop.track.metrics import read_rows


def rows(schedule: RowSchedule, last: int) -> list[int]:
    return [step for step in range(last + 1) if schedule.is_due(step)]


def test_a_short_run_has_a_row_for_each_step() -> None:
    assert rows(metrics_schedule(None), 76) == list(range(1, 77))


def test_a_long_run_has_a_row_in_fifty_steps() -> None:
    found = rows(metrics_schedule(None), 2000)
    assert found[:100] == list(range(1, 101))
    assert found[100:190] == list(range(110, 1001, 10))
    assert found[190:] == list(range(1050, 2001, 50))


@pytest.mark.parametrize("replays", [False, True])
def test_an_interval_that_was_asked_for_is_kept(replays: bool) -> None:
    assert rows(metrics_schedule(20, replays=replays), 100) == [20, 40, 60, 80, 100]
    assert rows(statistics_schedule(20, replays=replays), 60) == [1, 20, 40, 60]


def test_replayed_steps_are_not_cut_short() -> None:
    assert rows(metrics_schedule(None, replays=True), 150) == [1, 50, 100, 150]
    assert rows(statistics_schedule(None, replays=True), 1200) == [1, 500, 1000]


def test_statistics_of_layers_are_dense_at_first() -> None:
    schedule = statistics_schedule(None)
    assert rows(schedule, 300) == [1, 2, 4, 8, 16, 32, 64, 100, 200, 300]
    assert [schedule.next_due(step) for step in (0, 1, 3, 65, 100, 101)] == [1, 1, 4, 100, 100, 200]


def test_no_statistics_at_all() -> None:
    assert rows(statistics_schedule(0), 1000) == []


def test_statistics_come_at_steps_that_have_a_row() -> None:
    """The host waits for the device at a row; statistics at other steps would cost a wait of their own."""
    assert all(metrics_schedule(None).is_due(step) for step in rows(statistics_schedule(None), 5000))


def test_a_plain_log_prints_the_rows_that_were_asked_for() -> None:
    assert (line_interval(None), line_interval(7)) == (50, 1)


class Last(Hook):
    """Raises after a step, as a kill would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, row: Row) -> None:
        if row.kind == "train" and row.step == self.step:
            raise KeyboardInterrupt


def written(folder: Path) -> list[tuple[str, int, float | None]]:
    return [(row.kind, row.step, row.values.get("loss")) for row in read_rows(folder)]


RECIPE = replace(SMALL, data=Read(), epochs=None, steps=70, log_every=None, statistics_every=None, save_every=20)


def test_a_run_that_was_interrupted_and_resumed_has_the_rows_of_one_that_was_not(tmp_path: Path) -> None:
    whole = train(RECIPE, runs=tmp_path, name="whole", hooks=())
    with pytest.raises(KeyboardInterrupt):
        train(RECIPE, runs=tmp_path, name="cut", hooks=(Last(33),))
    resume(RECIPE, tmp_path / "cut", hooks=())
    rows = written(whole.folder)
    assert [step for kind, step, _ in rows if kind == "train"] == list(range(1, 71))
    assert [step for kind, step, _ in rows if kind == "layers"] == [1, 2, 4, 8, 16, 32, 64]
    assert written(tmp_path / "cut") == rows


def test_a_recipe_with_an_interval_of_its_own(tmp_path: Path) -> None:
    kept: list[int] = []

    class Kept(Hook):
        def logged(self, row: Row) -> None:
            kept.extend([row.step] if row.kind == "train" else [])

        def ended(self, ending: Ending) -> None:
            kept.append(-1)

    train(replace(RECIPE, log_every=30), runs=tmp_path, hooks=(Hooks(Kept()),))
    assert kept == [30, 60, 70, -1]
