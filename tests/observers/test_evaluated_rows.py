"""Rows that are evaluated, of a run so long that only some calls are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Checked
from trueloop.observers import evaluated_rows

DOUBLE_Q = """
import copy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
states = torch.randn(2001, 4)                       # the state after each is the next one
for step in range(400):
    rows = torch.randint(min(2000, 64 + 8 * step), (32,))
    state, after, action = states[rows], states[rows + 1], rows % 2
    with torch.no_grad():
        best = online(after).argmax(1, keepdim=True)
        goal = after[:, 0] + 0.9 * target(after).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(online(state).gather(1, action[:, None]).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        target.load_state_dict(online.state_dict())
"""


def test_targets_of_a_long_q_learning_are_no_evaluation(
    check: Callable[..., Checked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluated_rows, "MOST_DIGESTS", 640)  # reached after 20 of the 400 steps
    checked = check(DOUBLE_Q)
    assert "DAT119" not in {finding.code for finding in checked.verdict.findings}
