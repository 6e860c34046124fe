"""The engine and `check` report the same facts (events) for the same model and the same batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.conftest import in_child
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.doctor.watch import Watch
from trueloop.engine.loop import Loop
from trueloop.event import Event, GradientsMeasured, IdenticalUnits, LossComputed, ModelSeen, ParametersAccounted
from trueloop.hook import Hook
from trueloop.recipe.recipe import DataRequest, Recipe

E = TypeVar("E", bound=Event)
STEPS = 10


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.0))
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


class Softmaxed(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Softmax(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(super().forward(x))
        return out


class Clamped(Softmaxed):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(1e-6, 1.0)


class Attending(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.1, batch_first=True)
        self.recurrent = nn.LSTM(6, 6, num_layers=2, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        row = x.unsqueeze(1)
        out: Tensor = super().forward(self.recurrent(self.attention(row, row, row)[0])[0].squeeze(1))
        return out


class Spare(Plain):
    """With parameters that get no gradient, each for a different reason."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)
        self.aside = nn.Linear(6, 2)
        self.cut = nn.Linear(6, 3)
        self.frozen = nn.Linear(6, 2).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(3))
        self.average = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.aside(x)
        with torch.no_grad():
            self.average.add_(1)
        out: Tensor = super().forward(x) + self.cut(x).detach()
        return out


class Constant(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8), nn.Tanh())
        self.head = nn.Linear(8, 3)
        for layer in (self.body[0], self.body[2], self.head):
            nn.init.constant_(layer.weight, 0.1)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


class Zeros(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU())
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


def read(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 6, generator=draws)
    return Splits(train=Tensors(inputs, inputs[:, :3].argmax(1)), facts=Facts(classes=("a", "b", "c")))


class Listener(Hook):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def event_emitted(self, event: Event) -> None:
        self.events.append(event)


def both(model: Callable[[], nn.Module]) -> tuple[list[Event], list[Event]]:
    """The events of our loop, and those of the same loop written out, under `check`."""
    listener = Listener()
    recipe = Recipe(name="same", model=model, data=read, steps=STEPS, batch=16, lr=0.01, optimizer="sgd", trackers=())
    loop = Loop.of(recipe, hooks=listener)
    state = {name: tensor.clone() for name, tensor in loop.parts.model.state_dict().items()}
    per_epoch = loop.parts.batches.steps_per_epoch
    batches = [loop.parts.batches.batch_at(step // per_epoch, step % per_epoch) for step in range(STEPS)]

    def plain() -> list[Event]:
        heard: list[Event] = []
        watch = Watch(script="train.py")
        emit = watch._bus.emit

        def hear(event: Event) -> None:
            heard.append(event)
            emit(event)

        watch._bus.emit = hear
        with watch:
            net = model()
            net.load_state_dict(state)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for batch in batches:
                assert batch is not None
                optimizer.zero_grad()
                F.cross_entropy(net(batch.inputs), batch.targets).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        assert watch.verdict is not None
        assert not watch.verdict.failures, watch.verdict.failures
        return [event for event in heard if type(event) in KINDS]

    checked: list[Event] = in_child(plain)
    loop.train()
    return listener.events, checked


KINDS = (LossComputed, ModelSeen, ParametersAccounted, IdenticalUnits, GradientsMeasured)


def of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def placeless(event: Event, **known: Any) -> Event:
    """Without the line: our loop has none of the user's."""
    return replace(event, place=None, **known)


@pytest.mark.parametrize("model", [Plain, Softmaxed, Clamped])
def test_losses(model: Callable[[], nn.Module]) -> None:
    ours, checked = (of(events, LossComputed)[0] for events in both(model))
    assert ours.rows == ("scores" if model is Plain else "probabilities")
    assert "SoftmaxBackward0" in ours.preceding or model is Plain, "behind the clamp too"
    ranges: dict[str, Any] = {"input_range": None, "reduction": "", "preceding_place": None}
    if model is Clamped:  # `check` also sees the call of `clamp`
        ranges["preceding_module"] = ""
    assert ours.preceding_module == ("" if model is Plain else "Softmax")
    assert placeless(ours, **ranges) == placeless(checked, **ranges)
    assert ours.input_range == pytest.approx(checked.input_range, abs=1e-5)


@pytest.mark.parametrize("model", [Plain, Attending])
def test_models(model: Callable[[], nn.Module]) -> None:
    ours, checked = (of(events, ModelSeen)[0] for events in both(model))
    assert placeless(ours) == placeless(checked)
    assert (ours.dropouts, ours.batch_norms) == ((2, 1) if model is Attending else (0, 1))


@pytest.mark.parametrize("model", [Plain, Attending, Spare])
def test_parameters(model: Callable[[], nn.Module]) -> None:
    ours, checked = (of(events, ParametersAccounted)[-1] for events in both(model))
    assert ours.steps == checked.steps == STEPS
    assert (ours.complete, ours.orphans) == (checked.complete, checked.orphans)
    assert [replace(account, cuts=()) for account in ours.accounts] == [
        replace(account, cuts=()) for account in checked.accounts
    ]
    for one, other in zip(ours.accounts, checked.accounts, strict=True):
        assert set(other.cuts) <= set(one.cuts), "`check` sees which call of `detach` it was; our loop reads the source"
    assert {account.name.split(".")[0] for account in ours.accounts} == (
        {"unused", "aside", "cut", "scale"} if model is Spare else set()
    )


@pytest.mark.parametrize(
    ("model", "names"), [(Plain, set()), (Constant, {"body.0.weight", "body.2.weight"}), (Zeros, None)]
)
def test_units(model: Callable[[], nn.Module], names: set[str] | None) -> None:
    ours, checked = ({event.parameter: event for event in of(events, IdenticalUnits)} for events in both(model))
    assert set(ours) == set(checked)
    assert ours if names is None else set(ours) == names
    for name, event in ours.items():
        same: dict[str, Any] = {"value": 0.0, "gradient_norm": 0.0, "step": 0}
        assert placeless(event, **same) == placeless(checked[name], **same)
        assert (event.value, event.gradient_norm) == pytest.approx(
            (checked[name].value, checked[name].gradient_norm), abs=1e-4
        )


@pytest.mark.parametrize("model", [Plain, Constant])
def test_norms(model: Callable[[], nn.Module]) -> None:
    ours, checked = (of(events, GradientsMeasured)[0] for events in both(model))
    assert [(layer.name, layer.size, layer.depth) for layer in ours.layers] == [
        (layer.name, layer.size, layer.depth) for layer in checked.layers
    ]
    assert [layer.norm for layer in ours.layers] == pytest.approx([layer.norm for layer in checked.layers], rel=1e-4)
    assert ours.total == pytest.approx(checked.total, rel=1e-4)
