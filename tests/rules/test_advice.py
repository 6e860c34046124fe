"""What a finding advises: the cause that the run shows, and nothing that leads into the next finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Checked

SUMMED = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 10)
y = x @ torch.randn(10, 1)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(30):
    rows = torch.randint(0, 512, (64,))
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CLASSES = """\
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(512, 10)
y = {target}
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for _ in range(20):
    rows = torch.randint(0, 512, (64,))
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "message", "fix"),
    [
        ('nn.MSELoss(reduction="sum")(model(x[rows]), y[rows])', "64 times those of a mean", 'Use `reduction="mean"`'),
        ("(model(x[rows]) - y[rows]).pow(2).sum()", "The loss is a sum", "Write `.mean()` instead of `.sum()`"),
    ],
)
def test_a_sum_is_named_as_the_cause(check: Callable[..., Checked], loss: str, message: str, fix: str) -> None:
    (finding,) = [f for f in check(SUMMED.format(loss=loss)).findings if f.name == "loss-diverges"]
    assert message in finding.message
    assert finding.fix.startswith(fix)
    assert finding.evidence["loss_is_a_sum"]


@pytest.mark.parametrize(
    "change",
    [
        ("lr=0.05", "lr=9.0"),  # below: a mean
        ("SGD(model.parameters(), lr=0.05)", "Adam(model.parameters(), lr=9.0)"),  # its update has no scale
    ],
)
def test_a_sum_is_not_blamed_where_it_is_none_or_has_no_effect(
    check: Callable[..., Checked], change: tuple[str, str]
) -> None:
    reduction = "mean" if "Adam" not in change[1] else "sum"
    text = SUMMED.format(loss=f'nn.MSELoss(reduction="{reduction}")(model(x[rows]), y[rows])').replace(*change)
    findings = [f for f in check(text).findings if f.name in ("loss-diverges", "learning-rate-too-high")]
    assert findings
    assert not any("sum" in f.message or "reduction" in f.fix for f in findings)


def test_class_numbers_are_not_answered_with_a_squeeze(check: Callable[..., Checked]) -> None:
    (finding,) = check(CLASSES.format(target="x[:, :4].argmax(1).float()")).findings
    assert finding.name == "shapes-broadcast-in-loss"
    assert "`cross_entropy(logits, y.long())`" in finding.fix
    assert "4 logits" in finding.fix
    assert not finding.diff


def test_amounts_are_still_answered_with_a_squeeze(check: Callable[..., Checked]) -> None:
    (finding,) = check(CLASSES.format(target="x.sum(1)")).findings
    assert finding.fix.startswith("Give input and target the same shape")
    assert "squeeze(-1)" in finding.diff
