"""How long ranks may stand still, as people write it; and what a run that is ended so shows and leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueloop.errors import Misuse
from trueloop.finding import Finding, Severity
from trueloop.results.check import ExitCode
from trueloop.session import hang_watch
from trueloop.session.folder import RunFolder
from trueloop.session.hang_timeout import HANG_AFTER, VARIABLE, hang_after, parse_seconds
from trueloop.session.hang_watch import end_run_on_hang, record_hang_in

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


@given(
    number=st.integers(1, 10**6),
    unit=st.sampled_from(sorted(UNITS)),
    space=st.sampled_from(["", " ", "  "]),
    around=st.sampled_from(["", " "]),
)
def test_a_number_and_a_unit_are_so_many_seconds(number: int, unit: str, space: str, around: str) -> None:
    assert (
        parse_seconds(f"{around}{number}{space if unit else ''}{unit}{around}", "--hang-after") == number * UNITS[unit]
    )


@given(st.floats(1, 1e6).map(lambda number: f"{number:.3f}"))
def test_parts_of_a_second_are_kept(text: str) -> None:
    assert parse_seconds(text, "--hang-after") == float(text)


@given(st.text(max_size=8))
def test_any_text_is_a_time_or_refused_in_a_sentence(text: str) -> None:
    try:
        assert 1 <= parse_seconds(text, "--hang-after") < float("inf")
    except Misuse as refused:
        said = str(refused)
    else:
        return
    assert said.startswith(f"--hang-after cannot be {text!r}. Nothing was run: ")


@pytest.mark.parametrize(
    "text", ["0.99", "0.01m", "0h", "1e3", "9" * 400, "5M", "1 min 30 s", "+5", "５", ".", "1,5", "nan", "60\n60"]
)
def test_what_might_be_meant_otherwise_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="write a number of seconds, 1 or more, as in HANG 60"):
        parse_seconds(text, "HANG")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", 1.0), ("1.0s", 1.0), ("0.5m", 30.0), ("0.001h", 3.6), ("1.", 1.0), (".5min", 30.0)]
)
def test_what_is_just_long_enough_is_taken(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--hang-after") == pytest.approx(seconds)


def test_the_environment_is_asked_last() -> None:
    assert hang_after({VARIABLE: " 2 min "}) == 120.0
    assert hang_after({"OTHER": "5"}) == HANG_AFTER


# -- watching --


class Watched:
    """Replaces the hang watch and records its arguments."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, Any, int]] = []

    @contextmanager
    def __call__(self, seconds: float, show: Any, code: int) -> Iterator[None]:
        self.asked.append((seconds, show, code))
        yield


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched()
    monkeypatch.setattr("trueloop.doctor.hang_watch.watch_for_hangs", made)
    monkeypatch.delenv(VARIABLE, raising=False)
    return made


@pytest.mark.parametrize(("world", "asked"), [(None, False), ("1", False), ("2", True), ("16", True)])
def test_only_several_processes_are_watched(
    monkeypatch: pytest.MonkeyPatch, watch: Watched, world: str | None, asked: bool
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if world is not None:
        monkeypatch.setenv("WORLD_SIZE", world)
    with end_run_on_hang(7.0):
        pass
    assert [(seconds, code) for seconds, _, code in watch.asked] == ([(7.0, ExitCode.STOPPED)] if asked else [])


@pytest.mark.parametrize(
    ("said", "seconds", "expected"), [(None, None, HANG_AFTER), ("90", None, 90.0), ("90", 5.0, 5.0)]
)
def test_what_is_said_on_the_command_line_wins_over_the_variable(
    monkeypatch: pytest.MonkeyPatch, watch: Watched, said: str | None, seconds: float | None, expected: float
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    if said is not None:
        monkeypatch.setenv(VARIABLE, said)
    with end_run_on_hang(seconds):
        pass
    assert watch.asked[0][0] == expected


def test_rubbish_in_the_variable_stops_the_run_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, watch: Watched
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(VARIABLE, "soon")
    with pytest.raises(Misuse, match="Nothing was run"), end_run_on_hang():
        pytest.fail("never inside")


def test_a_run_of_one_process_leaves_no_word_about_hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Callable[[str], None]] = []
    monkeypatch.setattr("trueloop.doctor.hang_watch.set_hang_recorder", kept.append)
    monkeypatch.delenv("RANK", raising=False)
    record_hang_in(RunFolder(tmp_path, {}), lambda: 3)
    assert kept == []
    monkeypatch.setenv("RANK", "0")
    record_hang_in(RunFolder(tmp_path, {}), lambda: 3)
    assert len(kept) == 1


def test_what_is_shown_ends_with_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(
        "PAR106",
        "collective-mismatch",
        Severity.ERROR,
        None,
        "Rank 1 waits for rank 0.",
        "It hurts.",
        "Call the same on all ranks.",
    )
    hang_watch._show(finding)
    said = capsys.readouterr()
    assert "Rank 1 waits for rank 0." in said.out + said.err
    assert said.err.endswith(
        "  fix   Call the same on all ranks.\n  more  trueloop explain PAR106\n\n"
        "The run was stopped: its ranks would have waited forever. Go on: `trueloop resume runs/NAME`.\n"
    )
