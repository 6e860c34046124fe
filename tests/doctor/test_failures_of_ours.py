"""The watcher never breaks the run: what fails on our side is retired and told, and the script ends as if nothing had
been."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Checked, check_script
from trueloop.observers.forward import ForwardObserver
from trueloop.observers.gradient import GradientObserver
from trueloop.results.check import ExitCode
from trueloop.rules.gradient.gradients_never_cleared import GradientsNeverCleared
from trueloop.taps.loss import LossTap

SCRIPT = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def _explode(*_: object) -> None:
    raise ZeroDivisionError("a bug of ours")


@pytest.fixture
def healthy(tmp_path: Path) -> Checked:
    return check_script(tmp_path, SCRIPT)


def _check_that_it_is_told_and_nothing_else_happened(broken: Checked, healthy: Checked, word: str) -> None:
    assert broken.output == healthy.output
    assert broken.verdict.outcome.reason == "finished"
    assert broken.verdict.exit_code(None) == ExitCode.TRUELOOP_FAILED
    (failure,) = broken.verdict.failures
    assert word in failure.splitlines()[0]
    assert "ZeroDivisionError: a bug of ours" in failure
    assert word in broken.verdict.broken()


@pytest.mark.parametrize("moment", ["module_call_ended", "loss_called", "step_ended", "run_ended"])
def test_a_probe_that_raises_is_retired(
    tmp_path: Path, healthy: Checked, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(ForwardObserver, moment, _explode)
    _check_that_it_is_told_and_nothing_else_happened(
        check_script(tmp_path, SCRIPT), healthy, "observer ForwardObserver"
    )


def test_a_rule_that_raises_is_retired(tmp_path: Path, healthy: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GradientsNeverCleared, "on_stepped", _explode)
    _check_that_it_is_told_and_nothing_else_happened(check_script(tmp_path, SCRIPT), healthy, "rule GRD101")


def test_a_tap_that_does_not_fit_this_torch_is_left_out(
    tmp_path: Path, healthy: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LossTap, "install", _explode)
    _check_that_it_is_told_and_nothing_else_happened(check_script(tmp_path, SCRIPT), healthy, "LossTap")


def test_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForwardObserver, "module_call_ended", _explode)
    checked = check_script(tmp_path, SCRIPT.replace("    optimizer.zero_grad()\n", ""))
    assert "gradients-never-cleared" in checked.names()
    assert len(checked.verdict.failures) == 1
    monkeypatch.setattr(GradientObserver, "backward_ended", _explode)
    assert len(check_script(tmp_path, SCRIPT).verdict.failures) == 2
