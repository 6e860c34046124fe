"""The plain log: calm, aligned, to be searched with grep."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.track.rows import Terminal, finished, on_test, start, told, trained, validated
from tests.waiting import Clock
from trueloop.hook import Ending, Row
from trueloop.report.units import duration, number
from trueloop.track.display import choose_display
from trueloop.track.plain_log import PlainLog
from trueloop.track.progress_bar import ProgressBar


def said(*rows: Row, ending: Ending | None = None, folder: Path | str = "") -> list[str]:
    to = io.StringIO()
    told(PlainLog(to), rows, folder, ending=ending)
    return to.getvalue().splitlines()


def test_the_log_of_a_run() -> None:
    lines = said(
        trained(50, 0.231), trained(150, 0.0541), validated(160, 0.985, 0.0541, best=True), on_test(160, 0.97)
    )  # the test is told at the end
    assert lines[:-3] == [
        "digits: Sequential, 29,258 parameters, on cpu",
        "data: 80 samples",
        "step  50/200  epoch   2.5  loss 0.2310  lr 1.2e-03  1,740 samples/s  data 1%  412 MB",
        "step 150/200  epoch   7.5  loss 0.0541  lr 1.2e-03  1,740 samples/s  data 1%  412 MB",
        "valid  step 160  accuracy 0.9850  loss 0.0541  best",
    ]
    assert lines[-3].startswith("finished   step 200 after 0.")
    assert lines[-2:] == ["best       accuracy 0.9850 at step 160", "test       accuracy 0.9700  loss 0.1300"]


def test_of_dense_rows_some_become_lines() -> None:
    to = io.StringIO()
    log = PlainLog(to)
    log.started(replace(start(total=120), line_every=50))
    for step in range(1, 121):
        log.logged(trained(step))
    assert re.findall(r"^step +(\d+)/120", to.getvalue(), re.MULTILINE) == ["1", "50", "100", "120"]


def test_columns_stand_under_one_another() -> None:
    first, second = said(trained(5, 0.2), trained(195, 0.1))[2:4]
    assert [first.index(word) for word in ("epoch", "loss", "lr")] == [
        second.index(word) for word in ("epoch", "loss", "lr")
    ]


def test_statistics_of_layers_are_not_shown_and_skipped_steps_are() -> None:
    lines = said(Row("layers", 50, 2.5, {"0.weight": 1.0}), trained(100, skipped=3.0))
    assert "0.weight" not in "\n".join(lines)
    assert "skipped 3" in lines[2]


def test_a_resumed_run_says_where_it_goes_on() -> None:
    to = io.StringIO()
    PlainLog(to).started(start(from_step=120))
    assert to.getvalue().splitlines()[-1] == "resumed at step 120 of 200"


def test_a_run_that_did_not_finish_names_the_command_that_goes_on() -> None:
    lines = said(ending=Ending("failed", 120), folder="runs/digits")
    assert lines[-1] == "resume     trueloop resume runs/digits"
    asked = said(ending=Ending("signal", 120, "Stopped. Go on: trueloop resume runs/digits"), folder="runs/digits")
    assert sum("trueloop resume" in line for line in asked) == 1
    assert not any(
        "trueloop resume" in line for line in said(ending=Ending("failed", 0), folder="runs/digits")
    )  # nothing to go on from


def test_the_end_names_the_best_checkpoint_and_the_command_that_shows_the_curves() -> None:
    lines = said(ending=finished(best_checkpoint="runs/digits/checkpoints/step-00000160"), folder="runs/digits")
    assert "best       accuracy 0.9850 at step 160  runs/digits/checkpoints/step-00000160" in lines
    assert "curves     trueloop ui runs/digits" in lines


def test_notes_are_lines() -> None:
    to = io.StringIO()
    PlainLog(to).noted("The step was skipped (1 of at most 10).")
    assert to.getvalue() == "The step was skipped (1 of at most 10).\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5000"),
        (0, "0.0000"),
        (12.34567, "12.3457"),
        (1e-5, "1.00e-05"),
        (123456.0, "1.23e+05"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (4.83, "4.8 s"), (192, "3:12"), (7510, "2:05:10"), (math.inf, "?")]
)
def test_durations_are_read_at_a_glance(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


# -- where nobody listens any more --


def test_a_log_whose_reader_has_gone_does_not_end_the_run(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(
        "import sys\n"
        "from tests.track.rows import start, trained, finished\n"
        "from trueloop.track.plain_log import PlainLog\n"
        "lines = PlainLog()\n"
        "lines.started(start('runs/digits'))\n"
        "for step in range(20000):\n"
        "    lines.logged(trained(step))\n"
        "lines.ended(finished())\n"
        "sys.stderr.write('trained to the end\\n')\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    talking = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert talking.stdout is not None
    assert talking.stderr is not None
    talking.stdout.readline()
    talking.stdout.close()
    complaint = talking.stderr.read()
    talking.stderr.close()
    assert talking.wait(timeout=60) == 0
    assert complaint.splitlines() == [
        "trueloop: the log can no longer be written (Broken pipe). The run continues. Its metrics are in runs/digits.",
        "trained to the end",
    ]


# -- who shows it --


def test_a_terminal_gets_the_bar_and_everybody_else_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(choose_display(Terminal()), ProgressBar)
    assert isinstance(choose_display(io.StringIO()), PlainLog)


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_be_drawn_over_gets_lines(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    assert isinstance(choose_display(Terminal()), PlainLog)


def test_without_colours_it_is_still_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(choose_display(Terminal()), ProgressBar)


def test_a_first_line_soon_and_then_one_at_least_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, to = Clock(monkeypatch), io.StringIO()
    log = PlainLog(to)
    log.started(start(notes=()))
    for step in range(1, 100):  # one step takes half a second, and log_every is 50
        clock.move(0.5)
        if step % 50 == 0:
            log.logged(trained(step))
        else:
            log.progressed(Row("train", step, step / 20, {"loss": 0.5}))
    assert re.findall(r"^step +(\d+)/", to.getvalue(), re.MULTILINE) == ["1", "21", "41", "50", "70", "90"]
