"""The bar: what it says, how often it is drawn, and that it leaves the terminal as it found it."""

from __future__ import annotations

import re
import sys

import pytest

from tests.track.rows import Terminal, finished, on_test, start, told, trained, validated
from trueloop.hook import Ending, Row
from trueloop.track.progress_bar import PAUSE, ProgressBar

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def picture(bar: ProgressBar) -> list[str]:
    """What stands in the terminal now."""
    with bar.console.capture() as captured:
        bar.console.print(bar._picture())
    return [line.rstrip() for line in ESCAPES.sub("", captured.get()).splitlines() if line.strip()]


def under_way(clock: Clock, width: int = 110) -> ProgressBar:
    bar = ProgressBar(Terminal(), clock=clock, width=width)
    bar.start = start(total=760)
    for step in (50, 100, 150):
        clock.now += 5
        bar.logged(trained(step, 0.231))
    return bar


def test_it_tells_where_the_run_is_and_how_long_it_takes(clock: Clock) -> None:
    bar = under_way(clock)
    bar.valid = validated(152, 0.985)
    first, second = picture(bar)
    assert re.fullmatch(r"digits ━+─+   20%  step 150/760  epoch 7\.5  1:01 left", first)
    assert second.strip() == "loss 0.2310  accuracy 0.9850  1,740 samples/s  data 1%  412 MB"


def test_it_is_there_before_the_first_step(clock: Clock) -> None:
    to = Terminal()
    bar = ProgressBar(to, clock=clock, width=110)
    bar.started(start(total=760, from_step=76))
    try:
        assert re.search(r"digits ━+─+   10%  step 76/760  epoch 3.8", ESCAPES.sub("", to.getvalue()))
    finally:
        bar.ended(Ending("failed", 76))


def test_the_slow_first_steps_do_not_count_for_the_time_left(clock: Clock) -> None:
    bar = ProgressBar(Terminal(), clock=clock, width=110)
    bar.start = start(total=150)
    clock.now += 600  # a compiler at work
    bar.logged(trained(50))
    assert "left" not in picture(bar)[0]
    clock.now += 5
    bar.logged(trained(100))
    assert picture(bar)[0].endswith("5.0 s left")


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_it_fits_into_any_terminal(width: int, clock: Clock) -> None:
    lines = picture(under_way(clock, width))
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_what_is_done_is_seen_without_colours_too(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bar = under_way(clock)
    with bar.console.capture() as captured:
        bar.console.print(bar._picture())
    assert not re.search(r"\x1b\[3\dm", captured.get())
    assert re.search(r"━\S*─", captured.get())


def test_it_is_drawn_a_few_times_a_second_however_often_the_loop_logs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = ProgressBar(Terminal(), clock=clock, width=100)
    drawn: list[float] = []

    def draw() -> None:
        drawn.append(clock.now)
        bar.drawn = clock.now

    monkeypatch.setattr(bar, "_draw", draw)
    for step in range(1, 1001):
        clock.now += 0.01
        bar.logged(trained(step))
    assert 15 <= len(drawn) <= 10 / PAUSE


def test_validations_and_notes_stay_above_it_and_the_bar_goes(clock: Clock) -> None:
    to = Terminal()
    bar = ProgressBar(to, clock=clock, width=100)
    bar.started(start("runs/digits"))
    try:
        clock.now += 1
        bar.logged(trained(50))
        bar.logged(validated(60, 0.9, best=True))
        bar.noted("The step was skipped (1 of at most 10).")
        print("said by a script")
    finally:
        bar.ended(finished(best_checkpoint="runs/digits/checkpoints/step-00000160"))
    text = ESCAPES.sub("", to.getvalue())
    for line in (
        "digits: Sequential, 29,258 parameters, on cpu",
        "valid  step 60  accuracy 0.9000  loss 0.1000  best",
        "The step was skipped (1 of at most 10).",
        "said by a script",
        "best       accuracy 0.9850 at step 160  runs/digits/checkpoints/step-00000160",
        "test       accuracy 0.9700  loss 0.1300",
    ):
        assert line in text
    shown = to.getvalue()
    assert shown.rindex("\x1b[2K") < shown.rindex("best       accuracy")  # wiped before the last words


def test_the_terminal_has_its_cursor_and_its_streams_back(clock: Clock) -> None:
    to, before = Terminal(), (sys.stdout, sys.stderr)
    bar = ProgressBar(to, clock=clock, width=100)
    bar.started(start())
    hidden, shown = to.getvalue().rindex("\x1b[?25l"), to.getvalue().rindex("\x1b[?25h")
    assert hidden < shown  # also while it runs: a killed run must not leave a terminal without one
    bar.ended(Ending("failed", 3))
    assert (sys.stdout, sys.stderr) == before


def test_a_run_that_failed_before_its_first_row_ends_the_bar(clock: Clock) -> None:
    to = Terminal()
    told(ProgressBar(to, clock=clock, width=100), [], ending=Ending("nonfinite", 1, "The loss is nan.", best=None))
    assert "The loss is nan." in to.getvalue()


def test_what_is_said_before_the_start_is_shown(clock: Clock) -> None:
    to = Terminal()
    ProgressBar(to, clock=clock, width=100).noted("step-00000120 is damaged. It was passed over.")
    assert "passed over" in to.getvalue()


def test_a_loss_that_is_the_metric_is_called_so(clock: Clock) -> None:
    bar = under_way(clock)
    bar.valid = on_test(1, 0.5)
    assert "accuracy 0.5000" in picture(bar)[1]
    bar.valid = type(bar.valid)("valid", 152, 7.6, {"loss": 1.5})
    assert "valid loss 1.5000" in picture(bar)[1]


def test_a_terminal_that_was_closed_does_not_end_the_run(clock: Clock) -> None:
    class Closed(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    bar = ProgressBar(Closed(), clock=clock, width=100)
    bar.noted("a line that nobody sees")
    bar.logged(validated(60, 0.9))
    bar.ended(finished())


def test_it_is_drawn_after_the_first_step_however_seldom_the_loop_logs(clock: Clock) -> None:
    bar = ProgressBar(Terminal(), clock=clock, width=110)
    bar.started(start(total=760))
    try:
        bar.progressed(Row("train", 1, 0.05, {"loss": 2.3}))
        assert "step 1/760" in picture(bar)[0]
        assert "loss 2.3000" in picture(bar)[1]
        bar.logged(trained(50, 0.231))
        clock.now += PAUSE
        bar.progressed(Row("train", 60, 3.0, {"loss": 0.2}))
        assert "step 60/760" in picture(bar)[0]
        assert picture(bar)[1].strip() == "loss 0.2000  1,740 samples/s  data 1%  412 MB", "the speed of the last row"
    finally:
        bar.ended(finished())
