"""Reading runs: what each status is, where a run stands, what is best, and that damage in one hides no other."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.session.made import FINISHED, made, timed, trained_by_somebody
from tests.track.rows import on_test, trained, validated
from trueloop.errors import NotARun
from trueloop.hook import Row
from trueloop.session.folder import find_run
from trueloop.session.runs import RunSummary, by_metric, read_runs, summary_of

ROWS = (
    trained(50, 0.5),
    validated(60, 0.9, best=True),
    trained(100, 0.25),
    validated(120, 0.95, best=True),
    validated(180, 0.93),
)


def test_a_finished_run_in_one_line(tmp_path: Path) -> None:
    path = made(tmp_path, "digits", [*ROWS, trained(200), on_test(160, 0.97)], **FINISHED)
    timed(path, 2.0)
    assert summary_of(path) == RunSummary(
        path=path,
        status="finished",
        recipe="digits",
        started=1000.0,
        seconds=12.0,
        step=200,
        total_steps=200,
        metric="accuracy",
        higher_is_better=True,
        best=0.985,
        best_step=160,
        test={"accuracy": 0.97, "loss": 0.2},
    )


@pytest.mark.parametrize(
    ("said", "status"),
    [("finished", "finished"), ("early-stopped", "finished"), ("signal", "stopped"), ("nonfinite", "failed"),
     ("failed", "failed"), ("collapsed", "collapsed"), ("hung", "hung"), ("running", "killed"),
     ("something newer", "failed")],
)  # fmt: skip
def test_every_ending_has_its_status(said: str, status: str, tmp_path: Path) -> None:
    assert summary_of(made(tmp_path, "digits", ROWS, status=said)).status == status


@pytest.mark.parametrize("said", ["running", "signal"])
def test_a_run_whose_lock_is_held_is_running_whatever_its_file_says(said: str, tmp_path: Path) -> None:
    path = made(tmp_path, "digits", ROWS, status=said)
    with trained_by_somebody(path):
        assert summary_of(path).status == "running"
    assert summary_of(path).status in ("killed", "stopped")


def test_where_a_killed_run_stood_is_read_from_its_rows(tmp_path: Path) -> None:
    run = summary_of(made(tmp_path, "digits", ROWS))
    assert (run.status, run.step, run.best, run.best_step, run.test) == ("killed", 180, 0.95, 120, None)


def test_a_resumed_run_is_read_from_its_rows_not_from_its_earlier_ending(tmp_path: Path) -> None:
    path = made(tmp_path, "digits", ROWS, status="signal", step=60, best=0.9, best_step=60)
    with trained_by_somebody(path):
        run = summary_of(path)
    assert (run.step, run.best, run.best_step) == (180, 0.95, 120)


def test_a_run_that_was_killed_before_its_first_row(tmp_path: Path) -> None:
    run = summary_of(made(tmp_path, "digits", metric=None, total_steps=None))
    assert (run.status, run.step, run.best, run.seconds, run.metric) == ("killed", 0, None, None, "")


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    assert summary_of(made(tmp_path, "digits", ROWS, status="failed", message="OSError: no")).message == "OSError: no"


def test_a_row_cut_off_by_a_kill_is_no_damage(tmp_path: Path) -> None:
    path = made(tmp_path, "digits", ROWS)
    with (path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "valid", "st')
    assert summary_of(path).step == 180


# -- many --


def test_runs_come_newest_first_and_other_folders_are_passed_over(tmp_path: Path) -> None:
    for name, started in (("old", 10.0), ("new", 30.0), ("middle", 20.0)):
        made(tmp_path, name, ROWS, started=started)
    (tmp_path / "notes").mkdir()
    (tmp_path / "a file").touch()
    recorded = tmp_path / "recorded"  # by `trueloop check --record`
    recorded.mkdir()
    (recorded / "run.json").write_text('{"format": 1}', encoding="utf-8")
    (recorded / "events.jsonl").touch()
    assert [run.name for run in read_runs(tmp_path)] == ["new", "middle", "old"]


@pytest.mark.parametrize(
    ("file", "text"), [("run.json", "{"), ("run.json", "[]"), ("metrics.jsonl", '{"kind": "valid", no\n{}\n')]
)
def test_a_damaged_run_is_listed_with_what_is_wrong_and_hides_no_other(file: str, text: str, tmp_path: Path) -> None:
    made(tmp_path, "good", ROWS)
    (made(tmp_path, "bad", ROWS) / file).write_text(text, encoding="utf-8")
    found = {run.name: run for run in read_runs(tmp_path)}
    assert found["good"].status == "killed"
    assert found["bad"].status == "damaged"
    assert str(tmp_path / "bad") in found["bad"].message


def test_the_best_come_first_by_what_each_was_chosen_by(tmp_path: Path) -> None:
    base = RunSummary(tmp_path, "finished", metric="accuracy")
    loss = replace(base, metric="loss", higher_is_better=False)
    low, high, nothing = replace(base, best=0.8), replace(base, best=0.9), replace(base, best=None)
    small, large, broken = replace(loss, best=0.1), replace(loss, best=2.0), replace(loss, best=math.nan)
    assert by_metric([large, nothing, low, broken, small, high]) == [high, low, small, large, nothing, broken]


# -- by name --


def test_a_run_is_found_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "runs", "digits", ROWS)
    monkeypatch.chdir(tmp_path)
    assert find_run("runs/digits", Path("runs")).resolve() == path
    assert find_run("digits", Path("runs")).resolve() == path
    assert find_run(str(path), Path("nowhere")) == path


def test_a_name_that_no_run_has_gets_a_suggestion(tmp_path: Path) -> None:
    made(tmp_path, "digits", ROWS)
    with pytest.raises(
        NotARun, match=r"There is no run 'digts'\. Did you mean digits\? Nothing was compared: `trueloop runs`"
    ):
        find_run("digts", tmp_path)
    with pytest.raises(NotARun, match="holds no run"):
        find_run(str(tmp_path), tmp_path)
    with pytest.raises(NotARun, match="There is no run 'x'"):
        find_run("x", tmp_path / "nowhere")


def test_reading_runs_loads_no_torch(tmp_path: Path) -> None:
    made(tmp_path, "digits", [*ROWS, Row("layers", 180, 9.0, {"w": 1.0})])
    code = (
        "import sys; from pathlib import Path; from trueloop.session.runs import read_runs; import "
        f"trueloop.session.comparison;assert read_runs(Path({str(tmp_path)!r})); assert not "
        f"{{'torch', 'numpy', 'rich'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
