"""The report of `check` that a person reads: concise, or with everything."""

from __future__ import annotations

import io
import linecache
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.verdicts import CLEAN, CRASH, ODD, broken_loop, ordinary
from trueloop.report import Live, print_report, render
from trueloop.report.console import WIDEST
from trueloop.report.from_check import finding_card
from trueloop.results.check import NotApplicable, Outcome, Watched

DIFF = "--- train.py\n+++ train.py\n@@ -3 +3 @@\n+    optimizer.zero_grad()\n"


class Screen(io.StringIO):
    """A terminal whose output can be read."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(tmp_path)
    return broken_loop(tmp_path)


def test_a_finding_is_four_lines_place_sentence_fix_and_where_to_read_more(script: Path) -> None:
    lines = render(ordinary(script, diff=DIFF)).splitlines()
    assert lines[:5] == [
        "✗ error GRD101 gradients-never-cleared  train.py:3",
        "  SGD took step 2 with gradients that still hold those of the step before.",
        "  fix   Reset the gradients once per step.",
        "  more  trueloop explain GRD101",
        "",
    ]
    assert lines[5].startswith("· advice SPD101 slow  train.py:2")
    assert len(lines) == 12


def test_verbose_adds_the_source_the_reason_the_evidence_and_the_diff(script: Path) -> None:
    text = render(ordinary(script, diff=DIFF), verbose=True)
    lines = text.splitlines()
    assert lines[0] == "✗ error GRD101 gradients-never-cleared  train.py:3"
    assert lines[1:4] == [
        "       2 │     loss = f(model(x), y)",
        "  ❱    3 │     loss.backward()",
        "       4 │     optimizer.step()",
    ]
    assert "  SGD took step 2 with gradients that still hold those of the step before." in lines
    assert "  why        backward() adds to `.grad`." in lines
    assert "  fix        Reset the gradients once per step." in lines
    assert "  evidence   optimizer: SGD · steps without reset: 39 · learning rate: 0.1" in lines
    assert "  seen       first at step 1, 39 times" in lines
    assert "    +    optimizer.zero_grad()" in lines
    assert text.index("GRD101") < text.index("SPD101")
    assert "  OPT106  no schedule was built" in lines


def test_the_last_lines_say_what_was_watched_which_rules_applied_and_what_it_cost(script: Path) -> None:
    assert render(ordinary(script)).splitlines()[-2:] == [
        "✗ 1 error and 1 piece of advice in 40 steps of Net, 44 batches and 2 passes over loaders",
        "27 of 28 rules applied; 1 finding allowed; checking added less than 0.1 s",
    ]


def test_the_time_that_checking_added_is_a_share_of_the_run() -> None:
    long = replace(CLEAN, watched=replace(CLEAN.watched, seconds=100.0))
    assert render(long).endswith("27 of 29 rules applied; checking added 4.2 s\n")
    measured = replace(long, overhead=0.25, overhead_measured=True)
    assert measured.added_seconds == pytest.approx(20.0)
    half = replace(measured, watched=replace(long.watched, unwatched_steps=20))
    assert half.added_seconds == pytest.approx(100 * 0.125 / 1.125)
    assert replace(long, overhead=None).added_seconds is None


def test_nothing_found_is_two_lines() -> None:
    first, last = render(CLEAN).splitlines()
    assert first.startswith("✓ nothing found in 40 steps")
    assert last == "27 of 29 rules applied; checking added less than 0.1 s"


def test_why_rules_did_not_apply_is_listed_with_verbose_only() -> None:
    many = replace(CLEAN, not_applicable=tuple(NotApplicable(f"DAT1{i:02}", f"there was no x{i}") for i in range(30)))
    assert len(render(many).splitlines()) == 2
    full = render(many, verbose=True)
    assert "30 rules did not apply" in full
    assert "  DAT129  there was no x29" in full


def test_a_run_without_a_model_is_not_called_clean() -> None:
    empty = replace(CLEAN, watched=Watched("x.py", 0, 0, 0, 0, (), (), 0))
    start = "! nothing to check: no model was called and no optimizer stepped; training in processes"
    assert render(empty).startswith(start)


def test_the_scripts_own_failure_is_separate() -> None:
    text = render(replace(CLEAN, outcome=Outcome("exception", 1, "ValueError: no")))
    assert text.splitlines()[0] == "The script itself failed: ValueError: no. Exit code 1 is the script's own."


def test_a_crash_is_explained_without_verbose() -> None:
    lines = render(replace(CLEAN, crash=CRASH)).splitlines()
    assert lines[0] == "✗ what the crash means  /elsewhere/net.py:3"
    assert lines[1:5] == [
        "  fc takes 8 features and got 4.",
        "  because  its input was made in line 2",
        "           fc was built in line 1",
        "  fix      Make fc take 4 features.",
    ]


def test_trueloops_own_failure_is_reported_with_its_traceback() -> None:
    lines = render(replace(CLEAN, failures=("rule GRD101 raised and was disabled:\nTraceback\n  boom",))).splitlines()
    start = "trueloop itself failed: rule GRD101 raised and was disabled. The run continued without that part"
    assert lines[0].startswith(start)
    assert "      boom" in lines


def test_a_source_that_has_changed_since_is_not_mixed_with_what_was_recorded(script: Path) -> None:
    script.write_text("# rewritten\n" * 5, encoding="utf-8")
    linecache.checkcache(str(script))
    text = render(ordinary(script), verbose=True)
    assert "loss.backward()" in text
    assert "rewritten" not in text


def test_text_of_a_script_cannot_control_the_terminal(script: Path) -> None:
    screen = Screen()
    print_report(replace(CLEAN, findings=(ODD,)), to=screen)
    assert "\\x1b[31mred" in screen.getvalue()
    assert "\x1b[31mred" not in screen.getvalue()


@pytest.mark.parametrize("verbose", [False, True])
def test_a_terminal_gets_colors_and_folded_lines(script: Path, verbose: bool) -> None:
    screen = Screen()
    print_report(ordinary(script), to=screen, verbose=verbose)
    assert "\x1b[" in screen.getvalue()
    plain = Screen()
    print_report(ordinary(script), to=plain, color=False, verbose=verbose)
    assert "\x1b" not in plain.getvalue()
    assert max(len(line) for line in plain.getvalue().splitlines()) <= 60 < WIDEST


def test_no_color_is_respected(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    print_report(ordinary(script), to=screen)
    assert "\x1b" not in screen.getvalue()


def test_a_pipe_gets_neither_colors_nor_folds(script: Path) -> None:
    pipe = io.StringIO()
    print_report(replace(ordinary(script), notes=("x" * 200,)), to=pipe)
    assert pipe.getvalue() == render(replace(ordinary(script), notes=("x" * 200,)))
    assert max(len(line) for line in pipe.getvalue().splitlines()) > WIDEST


def test_a_single_finding_can_be_printed_at_once(script: Path) -> None:
    pipe = io.StringIO()
    Live(pipe, color=False).show(finding_card(ordinary(script).findings[0]))
    first, second, *_ = pipe.getvalue().splitlines()
    assert first == "✗ error GRD101 gradients-never-cleared  train.py:3"
    assert second.startswith("  SGD took step 2")
