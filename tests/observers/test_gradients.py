"""What the observers of backwards, graphs and gradients say of scripts that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from trueloop.event import Backward, Clipped, Event, GradientsMeasured, GraphsAlive, Stepped

E = TypeVar("E", bound=Event)

START = """\
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mse = nn.functional.mse_loss
x = torch.randn(16, 4)
y = x.sum(1, keepdim=True)
"""


Told = Callable[[str, type[Any]], list[Any]]


# -- Backward --


def test_the_loss_is_read_at_every_backward(told: Told) -> None:
    events: list[Backward] = told(
        """
for _ in range(12):
    optimizer.zero_grad()
    loss = mse(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        Backward,
    )
    assert [event.step for event in events] == list(range(12))
    assert all(event.loss is not None and event.loss > 0 and event.loss_text == "loss" for event in events)
    assert events[0].loss != events[1].loss
    assert {(event.root, event.mean, event.divided) for event in events} == {("MseLossBackward0", True, False)}
    assert [event.reached for event in events[:8]] == [4] * 8
    assert events[9].nodes is None, "later graphs are walked now and then"


@pytest.mark.parametrize(
    ("backward", "mean", "divided", "amp", "text"),
    [
        ("(mse(model(x), y) / 4).backward()", True, True, False, "mse(model(x), y) / 4"),
        ("mse(model(x), y, reduction='sum').backward()", False, False, False, "mse(model(x), y, reduction='sum')"),
        ("mse(model(x), y).backward(torch.tensor(0.5))", True, True, False, "mse(model(x), y)"),
        ("loss = mse(model(x), y); torch.autograd.backward(loss)", True, False, False, "loss"),
        ("scaler.scale(mse(model(x), y)).backward()", True, False, True, "scaler.scale(mse(model(x), y))"),
        ("scaler.scale(mse(model(x), y) / 2).backward()", True, True, True, "scaler.scale(mse(model(x), y) / 2)"),
    ],
)
def test_how_the_loss_was_put_together(
    told: Told, backward: str, mean: bool, divided: bool, amp: bool, text: str
) -> None:
    event: Backward = told(f"scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)\n{backward}\n", Backward)[0]
    assert (event.mean, event.divided, event.scaled_by_amp, event.loss_text) == (mean, divided, amp, text)
    assert event.loss is not None
    assert event.loss < 100, "a scaler's factor is not part of the loss"


def test_a_loss_without_a_graph_reaches_nothing(told: Told) -> None:
    (event,) = told("loss = torch.tensor(1.0, requires_grad=True)\nloss.backward()\n", Backward)
    assert (event.root, event.reached, event.nodes, event.optimized) == ("", 0, 0, 4)


def test_several_losses_are_walked_together(told: Told) -> None:
    (event,) = told(
        "torch.autograd.backward([mse(model[0](x), torch.zeros(16, 8)), mse(model[2](x.repeat(1, 2)), y)])\n", Backward
    )
    assert (event.root, event.loss, event.mean, event.reached) == ("MseLossBackward0", None, False, 4)


def test_only_parameters_that_an_optimizer_holds_are_reached(told: Told) -> None:
    (event,) = told(
        "other = nn.Linear(1, 1)\nother(model[2](torch.tanh(model[0](x)).detach())).mean().backward()\n", Backward
    )
    assert (event.reached, event.optimized) == (2, 4)


def test_a_graph_made_in_earlier_steps_is_as_old_as_they_are(told: Told) -> None:
    events: list[Backward] = told(
        """
carried = torch.zeros(())
weight = nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    carried = carried * 0.5 + weight.sum()
    carried.backward(retain_graph=True)
    carried.backward(retain_graph=True)
    optimizer.step()
""",
        Backward,
    )
    assert [event.spanned_steps for event in events] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    sizes = [event.nodes or 0 for event in events[::2]]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("loss", "shapes"),
    [
        ("((model(x) - y[:, 0]) ** 2).mean()", ((16, 1), (16, 16))),
        ("(y[:, 0] - model(x)).abs().sum() / 16", ((16, 1), (16, 16))),
        ("torch.square(model(x).squeeze(1) - y).mean()", ((16,), (16, 16))),
        ("(d := model(x) - y[:, 0]).mul(d).mean()", ((16, 1), (16, 16))),
        ("((model(x) - y) ** 2).mean()", None),
        ("((model(x)[:, 0][:, None] - y[:, 0][None]) ** 2).mean()", None),
        ("((model(x) - model(x).squeeze(1)) ** 2).mean()", ((16, 1), (16, 16))),
        ("((model(x) - model(x).T) ** 2).mean()", None),
        ("((model[2].bias - y) ** 2).mean()", None),
        ("((model(x) - y[:, 0]) ** 2).min(0).values.mean()", None),
    ],
)
def test_a_prediction_that_was_broadcast_against_its_target(told: Told, loss: str, shapes: object) -> None:
    (event,) = told(f"def train():\n    loss = {loss}\n    loss = loss * 1\n    loss.backward()\ntrain()\n", Backward)
    assert event.broadcast == shapes
    assert (event.broadcast_place.line if event.broadcast_place else None) == (
        len(START.splitlines()) + 2 if shapes else None
    )


# -- Stepped and Clipped --


@pytest.mark.parametrize("rescale", ["p.grad /= 2", "p.grad.data.div_(2)", "p.grad = p.grad / 2"])
def test_gradients_rescaled_by_hand_are_averaged(told: Told, rescale: str) -> None:
    text = """
for i in range(6):
    mse(model(x), y).backward()
    if i % 2:
        for p in model.parameters():
            {}
        optimizer.step()
        optimizer.zero_grad()
"""
    assert [event.averaged for event in told(text.format(rescale), Stepped)] == [True] * 3
    assert [event.averaged for event in told(text.format("pass"), Stepped)] == [False] * 3


def test_a_scaler_that_unscales_is_not_the_users_division(told: Told) -> None:
    events: list[Stepped] = told(
        """
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for i in range(8):
    scaler.scale(mse(model(x), y)).backward()
    if i % 2:
        if i > 3:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
        Stepped,
    )
    assert [(event.most_at_one_place, event.averaged, event.clipped) for event in events] == [(2, False, False)] * 2 + [
        (2, False, True)
    ] * 2


def test_a_clip_is_late_only_if_all_it_clips_is_used(told: Told) -> None:
    events: list[Clipped] = told(
        """
optimizer = None
first = torch.optim.SGD(model[0].parameters(), lr=0.01)
last = torch.optim.SGD(model[2].parameters(), lr=0.01)
for _ in range(2):
    model.zero_grad()
    mse(model(x), y).backward()
    first.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    last.step()
    nn.utils.clip_grad_norm_(model[2].parameters(), 1.0)
""",
        Clipped,
    )
    assert [event.stale for event in events] == [False, True] * 2


# -- GraphsAlive --


def test_kept_losses_are_counted_and_freed_ones_are_not(told: Told) -> None:
    loop = """
import collections
kept = {}
for _ in range(40):
    optimizer.zero_grad()
    loss = mse(model(x), y)
    (loss * 0.5).backward()
    optimizer.step()
    kept.append(loss)
"""
    events: list[GraphsAlive] = told(loop.replace("{}", "[]"), GraphsAlive)
    *losses, outputs = events  # a kept loss keeps the output behind it
    assert [(event.alive, event.oldest, event.training) for event in losses] == [(n, 0, True) for n in (8, 16, 24, 32)]
    assert (outputs.outputs, outputs.alive, outputs.oldest) == (True, 40, 0)
    assert [event.alive for event in told(loop.replace("{}", "collections.deque(maxlen=10)"), GraphsAlive)] == [8]
    assert not told(loop.replace("{}", "[]").replace("append(loss)", "append(loss.detach())"), GraphsAlive)


# -- GradientsMeasured --


def test_gradients_are_measured_layer_by_layer_in_the_order_of_running(told: Told) -> None:
    events: list[GradientsMeasured] = told(
        """
class Backwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.first, self.unused = nn.Linear(8, 1), nn.Linear(4, 8), nn.Linear(2, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


model = Backwards()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    optimizer.zero_grad()
    mse(model(x), y).backward()
    if step == 25:
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()
""",
        GradientsMeasured,
    )
    assert [event.index for event in events] == [0, 1, 2, 25]
    assert [[layer.name for layer in event.layers] for event in events] == [["first.weight", "last.weight"]] * 4
    assert all(layer.norm > 0 and layer.weight_norm > 0 for event in events for layer in event.layers)
    assert all(event.total >= max(layer.norm for layer in event.layers) for event in events)
    assert [event.clipped for event in events] == [False, False, False, True]
    assert events[-1].total == pytest.approx(1e-3, rel=1e-2)


def test_a_loss_that_jumps_is_measured_out_of_turn(told: Told) -> None:
    events: list[GradientsMeasured] = told(
        """
for step in range(12):
    optimizer.zero_grad()
    mse(model(x), y * (100 if step == 9 else 1)).backward()
    optimizer.step()
""",
        GradientsMeasured,
    )
    assert [event.index for event in events][:4] == [0, 1, 2, 9]
