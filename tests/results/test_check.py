"""What the reports say in common, and the exit codes, which the documentation promises."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.verdicts import CLEAN, ODD, WATCHED, ordinary
from trueloop.event import Event, Place, RunEnded, RunStarted
from trueloop.finding import Severity
from trueloop.results.check import ExitCode, Outcome, Tally, counted, span

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_scripts_own_failure_comes_first_then_ours_then_the_findings(tmp_path: Path) -> None:
    found = ordinary(tmp_path / "train.py")
    ours = replace(found, failures=("boom",))
    assert CLEAN.exit_code(Severity.ADVICE) == ExitCode.CLEAN
    assert found.exit_code(Severity.ERROR) == ExitCode.FINDINGS
    assert found.exit_code(None) == ExitCode.CLEAN
    assert ours.exit_code(Severity.ERROR) == ExitCode.TRUELOOP_FAILED
    assert replace(ours, outcome=Outcome("exit", 17)).exit_code(Severity.ERROR) == 17


def test_a_program_that_could_not_be_watched_counts_where_no_training_was_seen() -> None:
    elsewhere = replace(CLEAN, unwatched=("python -I train.py", "python b.py"))
    assert elsewhere.exit_code(Severity.ERROR) == ExitCode.CLEAN, "a training was seen, and it is healthy"
    nothing = replace(elsewhere, watched=replace(CLEAN.watched, steps=0, batches=0))
    assert nothing.exit_code(Severity.ERROR) == ExitCode.FINDINGS
    assert nothing.exit_code(None) == ExitCode.CLEAN
    assert nothing.plain()["watched"]["notes"] == nothing.closing_lines()
    assert elsewhere.plain()["watched"]["notes"] == ()
    assert "and `python -I train.py` (and 1 more) could not be watched; it ran in another Python" in nothing.closing()


@pytest.mark.parametrize(
    ("fail_on", "code"), [(Severity.ERROR, 0), (Severity.WARNING, 1), (Severity.ADVICE, 1), (None, 0)]
)
def test_findings_count_from_the_asked_severity_up(fail_on: Severity | None, code: int) -> None:
    assert replace(CLEAN, findings=(ODD,)).exit_code(fail_on) == code


def test_the_page_of_exit_codes_names_each_of_them() -> None:
    rows = re.findall(
        r"^\| `(\d+)` \| `([A-Z_]+)` \|", (DOCS / "exit-codes.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name: int(value) for value, name in rows} == {code.name: code.value for code in ExitCode}


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome("finished"), ""),
        (Outcome("exit"), ""),
        (Outcome("exit", 3), "The script itself ended with sys.exit(3). Exit code 3 is the script's own."),
        (Outcome("cut"), "The run was ended early, as requested."),
        (
            Outcome("interrupted", 130),
            "The run was interrupted (KeyboardInterrupt); the report covers the steps before that. "
            "Exit code 130 is the script's own.",
        ),
    ],
)
def test_how_the_script_ended(outcome: Outcome, said: str) -> None:
    assert outcome.sentence() == said


def test_codes_that_follow_one_another_are_drawn_together() -> None:
    assert span(["OPT107", "OPT106", "GRD101", "OPT108", "OPT110"]) == "GRD101, OPT106-108, OPT110"
    assert span([]) == ""


def test_numbers_are_counted_in_words() -> None:
    assert counted(1, "step") == "1 step"
    assert counted(1200, "batch", "batches") == "1,200 batches"
    assert replace(WATCHED, epochs=0, models=(), unwatched_steps=2).sentence() == (
        "40 steps and 44 batches (2 steps not watched, to stay within the budget)"
    )


def test_a_tally_counts_what_was_watched() -> None:
    tally = Tally()
    events: list[Event] = [
        RunStarted(0, None, "train.py", (), "3.11", "2.13", 0, 1),
        RunEnded(7, Place("x", 1), "finished", 0, 0, 3),
    ]
    for event in events:
        tally.hear(event)
    watched = tally.watched(5, 1.0)
    assert (watched.script, watched.steps, watched.unwatched_steps, watched.rules) == ("train.py", 7, 3, 5)
