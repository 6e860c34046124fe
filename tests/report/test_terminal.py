"""The report that a person reads."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.verdicts import CLEAN, ODD, broken_loop, ordinary
from trueloop.report.ink import WIDEST
from trueloop.report.terminal import document, print_finding, print_verdict
from trueloop.results.check import LISTED, Outcome, Unjudged, Watched


class Screen(io.StringIO):
    """A terminal of which one can read what was written."""

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


def test_a_finding_shows_its_line_its_sentence_the_reason_and_the_fix(script: Path) -> None:
    text = document(ordinary(script, diff="--- train.py\n+++ train.py\n@@ -3 +3 @@\n+    optimizer.zero_grad()\n"))
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


def test_the_last_line_says_what_was_watched_and_what_was_not(script: Path) -> None:
    last = document(ordinary(script)).splitlines()[-1]
    assert last == (
        "✗ 1 error and 1 piece of advice in 40 steps of Net, 44 batches and 2 passes over loaders; 27 rules judged; "
        "1 rule had nothing to judge: no schedule was built (OPT106); 1 finding allowed; watching cost 4.2%, 0.06 s"
    )


def test_nothing_found_is_one_line() -> None:
    (line,) = document(CLEAN).splitlines()
    assert line.startswith("✓ nothing found in 40 steps")
    assert "2 rules had nothing to judge: no schedule was built (OPT106-107)" in line


def test_many_reasons_are_not_a_wall_of_text() -> None:
    many = replace(
        CLEAN, not_judged=tuple(Unjudged(f"DAT1{i:02}", f"there was no thing {i}") for i in range(LISTED + 1))
    )
    (line,) = document(many).splitlines()
    assert f"{LISTED + 1} rules had nothing to judge (--format json says why); watching cost" in line
    few = replace(CLEAN, not_judged=many.not_judged[:LISTED])
    assert f"there was no thing {LISTED - 1} (DAT10{LISTED - 1})" in document(few)


def test_a_run_without_a_model_is_not_called_clean() -> None:
    empty = replace(CLEAN, watched=Watched("x.py", 0, 0, 0, 0, (), (), 0))
    assert document(empty).startswith(
        "? nothing to judge: no model was called and no optimizer stepped; training in processes"
    )


def test_the_scripts_own_failure_is_told_apart() -> None:
    text = document(replace(CLEAN, outcome=Outcome("exception", 1, "ValueError: no")))
    assert text.splitlines()[0] == "The script itself failed: ValueError: no. Exit code 1 is the script's own."


def test_our_own_failure_is_confessed_with_its_traceback() -> None:
    lines = document(replace(CLEAN, failures=("rule GRD101 raised and was disabled:\nTraceback\n  boom",))).splitlines()
    assert lines[0].startswith(
        "trueloop itself failed: rule GRD101 raised and was disabled. The run went on without that part"
    )
    assert "      boom" in lines


def test_a_source_that_has_changed_since_is_not_mixed_with_what_was_recorded(script: Path) -> None:
    script.write_text("# rewritten\n" * 5, encoding="utf-8")
    import linecache

    linecache.checkcache(str(script))
    text = document(ordinary(script))
    assert "loss.backward()" in text
    assert "rewritten" not in text


def test_what_a_script_says_cannot_steer_the_terminal(script: Path) -> None:
    screen = Screen()
    print_verdict(replace(CLEAN, findings=(ODD,)), to=screen)
    assert "\\x1b[31mred" in screen.getvalue()
    assert "\x1b[31mred" not in screen.getvalue()


def test_a_terminal_gets_colours_and_folded_lines(script: Path) -> None:
    screen = Screen()
    print_verdict(ordinary(script), to=screen)
    assert "\x1b[" in screen.getvalue()
    plain = Screen()
    print_verdict(ordinary(script), to=plain, colour=False)
    assert "\x1b" not in plain.getvalue()
    assert max(len(line) for line in plain.getvalue().splitlines()) <= 60 < WIDEST


def test_no_color_is_respected(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    print_verdict(ordinary(script), to=screen)
    assert "\x1b" not in screen.getvalue()


def test_a_pipe_gets_neither_colours_nor_folds(script: Path) -> None:
    pipe = io.StringIO()
    print_verdict(ordinary(script), to=pipe)
    assert pipe.getvalue() == document(ordinary(script))
    assert max(len(line) for line in pipe.getvalue().splitlines()) > WIDEST


def test_an_error_is_told_at_once_in_one_line_on_stderr(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_finding(ordinary(script).findings[0])
    printed = capsys.readouterr()
    assert printed.out == ""
    (told,) = printed.err.splitlines()
    assert told.startswith("step 1: ✗ error GRD101 gradients-never-cleared  train.py:3 SGD took step 2")
