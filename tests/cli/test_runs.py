"""`trueloop runs`: a table for people, a list for programs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.session.made import FINISHED, made, timed, trained_by_somebody
from tests.track.rows import on_test, trained, validated
from trueloop.cli.main import main
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]
ROWS = (trained(50, 0.5), validated(60, 0.9, best=True), trained(100, 0.25), on_test(60, 0.875))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def table(captured: Captured, *words: str) -> list[str]:
    assert main(["runs", *words]) == 0
    printed = captured.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def test_the_table_of_runs(capsys: Captured) -> None:
    timed(made(Path("runs"), "digits", ROWS, started=1_000_000_000.0, **FINISHED), 48.0)
    timed(made(Path("runs"), "trial-2", ROWS[:2], started=1_000_000_600.0), 2.0)
    lines = table(capsys)
    assert [line.split("  ")[0] for line in lines] == [
        "run",
        "trial-2",
        "digits",
        "",
        "trial-2: continue with `trueloop resume runs/trial-2`",
    ]
    head, second, first = lines[:3]
    assert head.split() == ["run", "recipe", "best", "test", "steps", "time", "started", "status"]
    assert first.split() == [
        "digits",
        "digits",
        "accuracy",
        "0.9850",
        "0.8750",
        "200",
        "2:24",
        "2001-09-09",
        "01:46",
        "finished",
    ]
    assert second.split() == [
        "trial-2",
        "digits",
        "accuracy",
        "0.9000",
        "60/200",
        "4.0",
        "s",
        "2001-09-09",
        "01:56",
        "killed",
    ]
    assert first.index("finished") == second.index("killed") == head.index("status")


def test_a_run_that_is_being_trained_is_running(capsys: Captured) -> None:
    with trained_by_somebody(made(Path("runs"), "digits", ROWS)):
        assert table(capsys)[1].endswith("running")


def test_a_failed_run_says_why_below_the_table(capsys: Captured) -> None:
    made(Path("runs"), "digits", ROWS, status="nonfinite", message="The loss is nan in layer 3.")
    lines = table(capsys)
    assert lines[1].endswith("failed")
    assert lines[-1] == "digits: The loss is nan in layer 3."


def test_a_run_that_fell_below_its_baseline_says_so_below_the_table(capsys: Captured) -> None:
    made(
        Path("runs"),
        "stopped",
        ROWS,
        status="collapsed",
        message="It fell. Compare.",
        collapse={"sentence": "It fell."},
    )
    made(Path("runs"), "marked", ROWS, collapse={"sentence": "It fell too."}, **FINISHED)
    made(Path("runs"), "risen", ROWS, collapse={"sentence": "It fell once.", "recovered_at": 60}, **FINISHED)
    lines = table(capsys)
    assert sorted(lines[-2:]) == ["marked: marked. It fell too.", "stopped: It fell. Compare."]


def test_sorted_by_metric_the_best_come_first(capsys: Captured) -> None:
    for name, best, started in (("low", 0.8, 3.0), ("high", 0.99, 2.0), ("middle", 0.9, 1.0)):
        made(Path("runs"), name, ROWS, **{**FINISHED, "best": best, "started": started})
    assert [line.split()[0] for line in table(capsys, "--sort", "metric")[1:4]] == ["high", "middle", "low"]
    assert [line.split()[0] for line in table(capsys)[1:4]] == ["low", "high", "middle"]


def test_another_folder_and_a_single_run(capsys: Captured) -> None:
    made(Path("elsewhere"), "digits", ROWS, **FINISHED)
    assert table(capsys, "elsewhere")[1].startswith("digits")
    assert table(capsys, "elsewhere/digits")[1].startswith("digits")


def test_a_list_for_programs(capsys: Captured) -> None:
    made(Path("runs"), "digits", ROWS, **FINISHED)
    made(Path("runs"), "broken", [validated(60, float("nan"), best=True)], started=5.0)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert main(["runs", "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert (first["name"], first["path"], first["status"], first["best"], first["step"]) == (
        "digits",
        "runs/digits",
        "finished",
        0.985,
        200,
    )
    assert first["test"] == {"accuracy": 0.875, "loss": 0.2}
    assert second["best"] == "nan"


def test_a_page_and_markdown(capsys: Captured) -> None:
    made(Path("runs"), "digits", ROWS, status="nonfinite", message="The loss is nan in layer 3.")
    lines = table(capsys, "--format", "markdown")
    assert lines[0] == "# Runs in runs"
    assert "| run | recipe | best | test | steps | time | started | status |" in lines
    assert "- digits: The loss is nan in layer 3." in lines
    page = "\n".join(table(capsys, "--format", "html"))
    assert page.startswith("<!doctype html>")
    assert "digits: The loss is nan in layer 3." in page


# -- what was asked for --


def test_only_fields_that_differ_are_shown_within_120_columns(capsys: Captured) -> None:
    for number in range(4):
        own = {f"a_rather_long_name_{index}": index * number for index in range(12)}
        recipe = {"lr": 0.001 * (number + 1), "seed": 7, "hyperparameters": own}
        made(Path("runs"), f"a-name-of-a-run-that-is-much-longer-than-usual-{number}", ROWS, recipe=recipe, **FINISHED)
    head, *lines = table(capsys)
    assert max(map(len, [head, *lines])) <= 120
    assert "lr" in head.split()
    assert "seed" not in head.split()
    made(Path("runs"), "other", ROWS, recipe={"name": "other", "lr": 9.0, "seed": 1}, **FINISHED)
    assert "seed" not in table(capsys)[0].split(), "of another recipe"


def test_the_run_of_a_checked_script_is_listed(capsys: Captured) -> None:
    for name, lr in (("train", "0.1"), ("train-2", "0.2")):
        about: Any = {"script": "train.py", "arguments": ["--lr", lr, "--fast"], "findings": {"error": 2, "warning": 1}}
        made(Path("runs"), name, ROWS[:3], kind="check", status="finished", step=100, started=-float(lr), **about)
    head, first, _ = table(capsys)
    assert head.split() == ["run", "script", "--lr", "best", "findings", "steps", "time", "started", "status"]
    assert first.split()[:6] == ["train", "train.py", "0.1", "accuracy", "0.9000", "2"]
    made(Path("runs"), "killed", ROWS[:3], kind="check", script="train.py", arguments=["--lr", "1"])
    assert table(capsys)[-1] == "killed: run it again with `trueloop check train.py --lr 1`"


# -- nothing there --


def test_no_runs_yet_is_a_sentence_that_says_how_to_make_one(capsys: Captured) -> None:
    assert table(capsys) == ["There are no runs in runs. `trueloop train digits` starts one."]
    Path("empty").mkdir()
    assert table(capsys, "empty") == ["There are no runs in empty. `trueloop train digits` starts one."]
    assert table(capsys, "--format", "json") == ["[]"]
    assert "There are no runs in runs." in table(capsys, "--format", "markdown")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "There is no folder nowhere."),
        (["--sort", "metrc"], "--sort cannot be 'metrc'. Did you mean metric?"),
        (["--format", "jsn"], "--format cannot be 'jsn'. Did you mean json?"),
        (["a", "b"], "Unexpected argument 'b'"),
        (["--sorted"], "There is no option --sorted. Did you mean --sort?"),
    ],
)
def test_misuse_is_a_sentence(words: list[str], said: str, capsys: Captured) -> None:
    assert main(["runs", *words]) == ExitCode.MISUSE
    assert said in capsys.readouterr().err


def test_the_table_needs_no_torch() -> None:
    made(Path("runs"), "digits", ROWS, **FINISHED)
    slow = {"torch", "numpy", "rich"}
    code = (
        f"import sys; from trueloop.cli.main import main; assert main(['runs']) == 0; assert not {slow} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)
