"""`trueloop.watch()` and `%%check` in a notebook: findings under the cell that caused them, with cell and line."""

from __future__ import annotations

import pytest

from tests.doctor.notebook import MODEL, run_cells

LOOP = """for _ in range(12):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
HEALTHY = LOOP.replace("    loss.backward", "    optimizer.zero_grad()\n    loss.backward")
WATCH = "w = trueloop.watch()"


def test_a_finding_appears_under_its_cell_once() -> None:
    first, trained, again, shown = run_cells(MODEL + WATCH, LOOP, LOOP, "display(w)")
    assert first.text == first.printed == ""
    assert "GRD101 gradients-never-cleared  cell 2, line 3" in trained.text
    assert "1 error in 12 steps" in trained.text
    assert again.text == again.html == ""
    for part in ("cell 2, line 3", "<i>3</i>    loss.backward()", "1 error", "GRD101"):
        assert part in trained.html, part
        assert part in shown.html.replace("cell 3", "cell 2"), part  # the same text ran again: it is cell 3 by now
    assert "ipykernel" not in trained.html + shown.html


def test_rules_that_decide_at_the_end_of_a_run_report_under_the_cell_too() -> None:
    schedule = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)\n"
    shown = run_cells(MODEL + WATCH, schedule + HEALTHY, "scheduler.step()")
    assert "OPT108 scheduler-never-stepped" in shown[1].text
    assert "No longer found: OPT108 scheduler-never-stepped" in shown[2].text


def test_nothing_is_displayed_where_nothing_is_found() -> None:
    shown = run_cells(MODEL + WATCH, HEALTHY, "1 + 1;", "display(w)")
    assert shown[1].text == shown[1].html == ""
    assert "Nothing found" in shown[3].html
    assert "this notebook" in shown[3].html


def test_lines_under_time_are_those_of_the_cell() -> None:
    shown = run_cells(MODEL + WATCH, "%%time\n" + LOOP, "%time model(x).shape")
    assert "cell 2, line 4" in shown[1].text
    assert "<i>4</i>    loss.backward()" in shown[1].html
    assert "Wall time" in shown[1].printed


def test_a_crash_is_explained_and_the_watch_goes_on() -> None:
    shown = run_cells(MODEL + WATCH, "a = 1\nmodel(torch.randn(4, 5))", LOOP, "1 / 0")
    assert shown[1].error == "RuntimeError"
    assert "trueloop" not in shown[1].printed.replace("pytest-of", "")
    assert "what the crash means  cell 2, line 2" in shown[1].text
    assert "cell 3, line 3" in shown[2].text
    assert shown[3].error == "ZeroDivisionError"
    assert shown[3].text == ""


def test_calling_watch_again_begins_anew() -> None:
    shown = run_cells(MODEL + WATCH, LOOP, WATCH, HEALTHY, "display(w)", "w.stop()", LOOP)
    assert "GRD101" in shown[1].text
    assert "Nothing found" in shown[4].html
    assert shown[6].text == ""


def test_a_block_shows_its_report() -> None:
    shown = run_cells(MODEL, "with trueloop.watch() as w:\n" + "".join(f"    {line}\n" for line in LOOP.splitlines()))
    assert shown[1].text.count("GRD101 gradients-never-cleared  cell 2, line 4") == 1
    assert "cell 2, line 4" in shown[1].html


def test_the_magic_checks_one_cell() -> None:
    shown = run_cells(MODEL + "%load_ext trueloop", "%check", "%%check\n\n" + LOOP, "%%check GRD\n" + HEALTHY, LOOP)
    assert "type `w = trueloop.watch()`" in shown[1].printed
    assert shown[2].text.count("GRD101 gradients-never-cleared  cell 3, line 5") == 1
    assert "<i>5</i>    loss.backward()" in shown[2].html
    assert "nothing found in 12 steps" in shown[3].text
    assert shown[4].text == ""


def test_the_magic_under_a_watch_is_a_cell_of_that_watch() -> None:
    shown = run_cells(
        MODEL + "%load_ext trueloop\n" + WATCH,
        "%%check\n" + LOOP,
        "display(get_ipython().run_line_magic('check', ''))",
        "%%check GRD\n1",
    )
    assert shown[1].text.count("GRD101 gradients-never-cleared  cell 2, line 4") == 1
    assert "GRD101" in shown[2].html
    assert "runs already" in shown[3].printed


@pytest.mark.parametrize(
    ("cell", "error", "printed"),
    [
        ("%%check NONSENSE\n1", "UsageError", "Unknown rule 'NONSENSE'"),
        ("%%check\n1 / 0", "CellFailed", "ZeroDivisionError: division by zero (traceback above)"),
        ("%%check\ndef f(:", "CellFailed", "SyntaxError"),
    ],
)
def test_the_magic_fails_as_the_cell_does(cell: str, error: str, printed: str) -> None:
    shown = run_cells("import trueloop\n%load_ext trueloop", cell, "%check")
    assert shown[1].error == error
    assert printed in shown[1].printed
    assert "watches nothing yet" in shown[2].printed


def test_what_the_user_wrote_is_shown_as_text() -> None:
    cell = "class Net(nn.Linear): pass\nNet.__name__ = '<script>alert(1)</script>'\nmodel = Net(8, 3)\n"
    cell += "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)\n" + LOOP.replace("step()", "step() # <b>")
    shown = run_cells(MODEL + WATCH, cell, "display(w)")
    assert "GRD101" in shown[1].html
    for html in (shown[1].html, shown[2].html):
        assert "<script" not in html
        assert "# <b>" not in html
