"""What the observers of weights, losses and schedules say of scripts that run: how far, how high, how often."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import pytest

from trueloop.event import DecaySeen, Event, LossAgainstChance, LossCurve, PlateauStepped, WeightsMoved

E = TypeVar("E", bound=Event)

START = """\
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(model, optimizer, steps, target=y, criterion=nn.functional.mse_loss):
    for _ in range(steps):
        optimizer.zero_grad()
        criterion(model(x), target).backward()
        optimizer.step()
"""


# -- how far weights move --


def test_weights_are_looked_at_on_few_steps_and_at_the_end(
    told: Callable[[str, type[WeightsMoved]], list[WeightsMoved]],
) -> None:
    events = told("train(model, optimizer, 100)\n", WeightsMoved)
    assert [event.steps for event in events] == [5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 100]
    assert [move.name for move in events[0].moves] == [
        "0.weight"
    ]  # the other weight has too few numbers, the biases are vectors
    assert all(
        move.update is not None and move.gradient_times_weight is not None
        for event in events[:-1]
        for move in event.moves
    )
    assert events[-1].moves[0].update is None
    assert {event.place.line for event in events if event.place} == {7}


def test_the_numbers_are_those_of_the_step(told: Callable[[str, type[WeightsMoved]], list[WeightsMoved]]) -> None:
    text = """
weight = nn.Parameter(torch.full((8, 8), 2.0))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
"""
    first = told(text, WeightsMoved)[0]
    (move,) = first.moves
    assert first.steps == 5
    assert first.learning_rate == pytest.approx(0.1)
    assert move.rms == pytest.approx(2.0)
    assert move.update == pytest.approx(0.1 / 1.6, rel=1e-4)
    assert move.distance == pytest.approx(0.5 / 2.0, rel=1e-4)
    assert move.gradient_times_weight == pytest.approx(
        8 * 8 * 1.6, rel=1e-4
    )  # a gradient of length 8, a weight of length 8 * 1.6


def test_images_last_frozen_sparse_and_half_weights(
    told: Callable[[str, type[WeightsMoved]], list[WeightsMoved]],
) -> None:
    text = """
convolution = nn.Conv2d(3, 64, 5).to(memory_format=torch.channels_last)
frozen = nn.Linear(64, 64).requires_grad_(False)
words = nn.Embedding(50, 64, sparse=True)
half = nn.Linear(64, 1, bias=False).bfloat16()
model = nn.ModuleList([convolution, frozen, words, half])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = model
    def forward(self, images, ids):
        hidden = frozen(convolution(images).mean((2, 3))) + words(ids)
        return half(hidden.bfloat16()).float()
whole = Whole()
for _ in range(5):
    optimizer.zero_grad()
    whole(torch.randn(2, 3, 8, 8), torch.tensor([1, 2])).square().mean().backward()
    optimizer.step()
"""
    events = told(text, WeightsMoved)
    assert [move.name for move in events[0].moves] == ["parts.0.weight", "parts.3.weight"]
    assert all(move.distance > 0 for move in events[0].moves)


def test_a_group_that_is_added_begins_a_new_count(
    told: Callable[[str, type[WeightsMoved]], list[WeightsMoved]],
) -> None:
    text = """
train(model, optimizer, 10)
head = nn.Linear(4, 8)
optimizer.add_param_group({"params": head.parameters()})
train(nn.Sequential(nn.Linear(4, 4), head, *model[1:]), optimizer, 12)
"""
    events = told(text, WeightsMoved)
    assert [event.steps for event in events][:3] == [5, 7, 9]
    assert any(len(event.moves) == 2 for event in events)
    assert max(event.steps for event in events if len(event.moves) == 2) < 12


# -- losses --


def test_the_sample_of_losses_stays_even_and_small(
    told: Callable[[str, type[LossCurve]], list[LossCurve]],
) -> None:
    (followed,) = told("train(model, optimizer, 700)\n", LossCurve)
    assert followed.count == 700
    assert followed.share == 1.0
    assert 80 <= followed.seen <= 161
    assert len(followed.first) == 5
    assert followed.end < followed.first[0] / 2
    assert followed.first[0] >= followed.peak >= followed.first[4]
    assert (followed.optimizers, followed.closures, followed.below_zero, followed.bootstrapped) == (1, False, False, 0)


def test_what_kind_of_training_it_is(told: Callable[[str, type[LossCurve]], list[LossCurve]]) -> None:
    text = """
for _ in range(10):
    with torch.no_grad():
        target = model(x) + 1
        model(x)
    optimizer.zero_grad()
    (nn.functional.mse_loss(model(x), target) - 5).backward()
    optimizer.step()
other = torch.optim.LBFGS(model.parameters())
def closure():
    other.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss
other.step(closure)
"""
    (followed,) = told(text, LossCurve)
    assert followed.bootstrapped == 10
    assert followed.below_zero
    assert followed.closures
    assert followed.optimizers == 2


def entropy(*shares: float) -> float:
    return -sum(share * math.log(share) for share in shares)


def test_chance_is_the_entropy_of_the_classes(
    told: Callable[[str, type[LossAgainstChance]], list[LossAgainstChance]],
) -> None:
    text = """
labels = torch.tensor([0] * 32 + [1] * 16 + [2] * 14 + [-100] * 2)
net = nn.Linear(4, 3)
train(net, torch.optim.SGD(net.parameters(), lr=0.01), 100, labels, nn.functional.cross_entropy)
"""
    (compared,) = told(text, LossAgainstChance)
    assert (compared.calls, compared.sampled_calls, compared.classes, compared.targets) == (100, 7, 3, 7 * 62)
    assert compared.chance == pytest.approx(entropy(32 / 62, 16 / 62, 14 / 62))
    assert compared.third_chance == pytest.approx(compared.chance)
    assert compared.first > compared.last > 0


def test_chance_of_two_classes_and_of_numbers(
    told: Callable[[str, type[LossAgainstChance]], list[LossAgainstChance]],
) -> None:
    text = """
answers = (x[:, :1] > 10).float()
answers[:16] = 1
train(model, optimizer, 70, answers, nn.BCEWithLogitsLoss())
"""
    (compared,) = told(text, LossAgainstChance)
    assert (compared.function, compared.classes) == ("binary_cross_entropy_with_logits", 2)
    assert compared.chance == pytest.approx(entropy(0.25, 0.75))
    text = """
columns = torch.stack([torch.arange(64.0), torch.arange(64.0) / 8], 1)
net = nn.Linear(4, 2)
for _ in range(70):
    loss = nn.functional.mse_loss(net(x), columns)
    (loss / 4).backward()
    optimizer.step()
print(columns.var(0, unbiased=False).mean())
"""
    (compared,) = told(text, LossAgainstChance)
    assert (compared.sampled_calls, compared.classes) == (5, 0)
    assert compared.chance == pytest.approx(((64**2 - 1) / 12) * (1 + 1 / 64) / 2)


@pytest.mark.parametrize(
    "criterion",
    [
        "nn.CrossEntropyLoss(weight=torch.ones(3))",
        "nn.CrossEntropyLoss(label_smoothing=0.1)",
        "nn.CrossEntropyLoss(reduction='sum')",
        "lambda out, target: nn.functional.cross_entropy(out, nn.functional.one_hot(target, 3).float())",
        "lambda out, target: nn.functional.cross_entropy(out, target) + 0.1 * out.square().mean()",
    ],
)
def test_losses_whose_chance_is_another_are_not_compared(
    criterion: str, told: Callable[[str, type[LossAgainstChance]], list[LossAgainstChance]]
) -> None:
    text = f"""
labels = torch.arange(64) % 3
net = nn.Linear(4, 3)
train(net, torch.optim.SGD(net.parameters(), lr=0.01), 70, labels, {criterion})
"""
    (compared,) = told(text, LossAgainstChance)
    assert (compared.sampled_calls, compared.chance) == (0, 0.0)


def test_samples_that_are_numbered_through_are_no_classes(
    told: Callable[[str, type[LossAgainstChance]], list[LossAgainstChance]],
) -> None:
    text = """
labels = torch.arange(64)
net = nn.Linear(4, 64)
train(net, torch.optim.SGD(net.parameters(), lr=0.01), 70, labels, nn.functional.cross_entropy)
"""
    (compared,) = told(text, LossAgainstChance)
    assert compared.one_sided == compared.sampled_calls == 5


# -- settings --


def test_the_decay_is_that_of_the_first_step(told: Callable[[str, type[DecaySeen]], list[DecaySeen]]) -> None:
    text = """
optimizer = torch.optim.Adam([{"params": [model[0].weight]}, {"params": [model[2].weight], "weight_decay": 0.1}], lr=0.01)
optimizer.param_groups[0]["weight_decay"] = 0.2
train(model, optimizer, 2)
train(model, torch.optim.AdamW(model.parameters()), 2)
train(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
"""  # noqa: E501
    adam, adamw = told(text, DecaySeen)
    assert (adam.folded, adam.decays, adam.learning_rates) == (True, (0.2, 0.1), (0.01, 0.01))
    assert (adamw.folded, adamw.decays) == (False, (0.01,))


def test_what_a_plateau_is_told(told: Callable[[str, type[PlateauStepped]], list[PlateauStepped]]) -> None:
    text = """
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0)
train(model, optimizer, 2)
plateau.step(torch.tensor(0.5))
plateau.step(metrics=0.25)
train(model, optimizer, 2)
plateau.step(3)
"""
    events = told(text, PlateauStepped)
    assert [(e.index, e.value, e.is_int, e.optimizer_steps) for e in events] == [
        (0, 0.5, False, 2),
        (1, 0.25, False, 2),
        (2, 3.0, True, 4),
    ]
    assert [e.learning_rates[0] for e in events] == pytest.approx([0.01, 0.001, 0.001])
    assert {(e.mode, e.patience) for e in events} == {("max", 0)}
    assert {e.built.line for e in events if e.built} == {14}
