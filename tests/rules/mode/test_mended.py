"""The diffs of the mode, schedule and checkpoint rules, applied to their own broken scripts: after that the mode rules are silent too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import check_script
from tests.pages import PAGES, Example, examples

MINE = [page for page in PAGES if page.parent.name == "mode" or page.stem.startswith("schedule_") or page.stem == "best_weights_not_copied"]
BROKEN = [example for page in MINE for example in examples(page) if example.broken]
BY_HAND = {
    "dropout-always-on: Broken: through a function of the user's",
    "evaluated-in-train-mode: Broken: one function for both phases, which never calls eval()",
    "schedule-never-stepped: Broken: of two schedules, only one is stepped",
}
"""Scripts too entangled for a mechanical change: there the finding must not offer one."""


@pytest.mark.parametrize("example", BROKEN, ids=lambda e: e.name)
def test_a_diff_mends_the_script(example: Example, tmp_path: Path) -> None:
    (finding,) = [f for f in check_script(tmp_path, example.text).findings if f.name == example.rule]
    assert bool(finding.diff) == (f"{example.rule}: {example.title}" not in BY_HAND)
    if finding.diff:
        subprocess.run(["patch", "-p0"], input=finding.diff, text=True, cwd=tmp_path, check=True, capture_output=True)
        mended = (tmp_path / "train.py").read_text(encoding="utf-8")
        again = check_script(tmp_path, mended)
        assert again.verdict.outcome.reason == "finished", again.output
        assert example.rule not in again.names(), mended
        assert not again.names() & {"evaluated-in-train-mode", "trained-in-eval-mode", "graph-built-while-evaluating"}, mended
