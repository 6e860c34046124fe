"""The report for coding agents: compact whatever was found, and it names the next command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import check_script
from tests.report.verdicts import CLEAN, CRASH, ODD, broken_loop, ordinary
from trueloop.report import render
from trueloop.report.agent import LONGEST
from trueloop.results.check import NotApplicable, Outcome, Verdict


@pytest.fixture
def verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.chdir(tmp_path)
    return ordinary(broken_loop(tmp_path))


def _next(verdict: Verdict) -> str:
    return render(verdict, "agent").rstrip("\n").rpartition("\n")[2]


def test_a_finding_has_its_line_evidence_fix_and_patch(verdict: Verdict) -> None:
    text = render(verdict, "agent")
    first = verdict.findings[0]
    assert f"- error {first.code} {first.name} train.py:3" in text
    for said in ("line: loss.backward()", first.fix, "seen: first at step 1, 39 times", "steps without reset: 39"):
        assert said in text
    assert "no schedule was built: OPT106 not applied" in text


def test_however_much_was_found_it_fits_4000_tokens(verdict: Verdict) -> None:
    long = replace(ODD, message="x" * 5_000, fix="y" * 5_000, diff="z\n" * 5_000, source="w" * 5_000)
    many = replace(
        verdict,
        findings=(*verdict.findings, *(long,) * 300),
        notes=("n" * 900,) * 50,
        not_applicable=tuple(NotApplicable(f"OPT{number}", f"reason {number} " * 80) for number in range(200)),
        step_summary=("s" * 300,) * 80,
        failures=("traceback\n" * 900,) * 3,
        crash=replace(CRASH, message="m" * 5_000, details=("d" * 5_000,) * 30),
        outcome=Outcome("exception", 1, "e" * 5_000),
    )
    text = render(many, "agent")
    assert len(text) <= LONGEST
    assert "more findings: --format json has all" in text
    assert text.rstrip("\n").rpartition("\n")[2].startswith("trueloop check ")


def test_the_next_command_depends_on_what_was_found(verdict: Verdict) -> None:
    first = verdict.findings[0]
    patched = replace(verdict, findings=(replace(first, diff="--- a\n+++ b\n"),))
    assert _next(patched).startswith("trueloop fix --unsafe train.py")
    assert _next(replace(verdict, findings=(replace(first, diff=""),))).startswith("trueloop explain GRD101")
    assert _next(replace(verdict, findings=())).startswith("trueloop probe train.py")
    assert "this one called no model" in _next(replace(CLEAN, watched=replace(CLEAN.watched, steps=0, batches=0)))
    failed = replace(verdict, outcome=Outcome("exception", 1, "ValueError: x"))
    assert _next(failed).startswith("trueloop check --format agent train.py")


def test_a_recorded_step_is_summed_up(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(16, 8)
    loss = ((model(x) - 1.0) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    lines = check_script(tmp_path, script).verdict.step_summary
    text = "\n".join(lines)
    assert lines[0].startswith("step ")
    assert "model Linear (train mode):" in text
    assert "-> float32 [16, 3] at " in text
    assert "backward on: float32 []" in text
    assert "parameters trained by optimizer: 2" in text
    assert "train.py:9 mean(float32 [16, 3]) -> float32 []" in text
