"""What the loss observers measure, and that measuring changes nothing."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.conftest import Checked
from trueloop.event import Event, LossComputed
from trueloop.observers.loss import LossObserver
from trueloop.observers.run_objects import RunObjects
from trueloop.taps.bus import Bus
from trueloop.taps.calls import LossCall
from trueloop.taps.nonfinite_replay import Replay

functional = nn.functional


def told(function: str, scores: Tensor, target: Tensor, **options: object) -> LossComputed:
    events: list[Event] = []
    bus = Bus(events.append)
    LossObserver(bus, RunObjects(bus)).loss_called(LossCall(function, scores, target, options, scores.sum(), None))
    (event,) = events
    assert isinstance(event, LossComputed)
    return event


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(16, 10), (2, 7, 5, 5), (9,), (4, 1000)])
def test_rows_are_told_apart_in_every_precision(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    scores = torch.randn(shape, dtype=torch.float64) * 3
    classes = 1 if len(shape) > 1 else 0
    target = scores.argmax(classes)
    assert told("cross_entropy", scores.softmax(classes).to(kind), target).rows == "probabilities"
    assert told("cross_entropy", scores.log_softmax(classes).to(kind), target).rows == "log-probabilities"
    assert told("cross_entropy", scores.to(kind), target).rows == "scores"
    assert told("cross_entropy", (scores.softmax(classes) * 1.05).to(kind), target).rows == "scores"


def test_a_softmax_is_found_through_views_and_a_small_constant() -> None:
    scores = torch.randn(8, 3, requires_grad=True)
    event = told("cross_entropy", scores.softmax(1).view(2, 4, 3).view(8, 3), torch.zeros(8, dtype=torch.long))
    assert event.preceding[-1] == "SoftmaxBackward0"


def test_what_a_clamp_clamps_is_told() -> None:
    layer = nn.Linear(3, 1)
    event = told("binary_cross_entropy", layer(torch.randn(4, 3)).sigmoid().clamp(0.01, 0.99), torch.ones(4, 1))
    assert event.preceding == ("ClampBackward1", "SigmoidBackward0")


def test_ignored_targets_are_no_targets() -> None:
    target = torch.full((8,), -100)
    assert told("cross_entropy", torch.randn(8, 3), target).target_range is None
    target[0] = 2
    event = told("cross_entropy", torch.randn(8, 3), target)
    assert (event.target_range, event.target_distinct) == ((2.0, 2.0), 1)


def test_rows_of_targets_sum_to_one_or_are_padding() -> None:
    hot = functional.one_hot(torch.arange(6) % 3, 3).float()
    assert told("cross_entropy", torch.randn(6, 3), hot).target_rows_sum_to_one
    assert told("cross_entropy", torch.randn(6, 3), hot * (torch.arange(6) < 3)[:, None]).target_rows_sum_to_one
    assert told("cross_entropy", torch.randn(6, 3), torch.ones(6, 3)).target_rows_sum_to_one is False
    assert told("cross_entropy", torch.randn(6, 3), torch.arange(6) % 3).target_rows_sum_to_one is None


def test_only_some_calls_are_told() -> None:
    events: list[Event] = []
    bus = Bus(events.append)
    observer = LossObserver(bus, RunObjects(bus))
    for _ in range(120):
        scores = torch.randn(4, 3)
        observer.loss_called(
            LossCall("cross_entropy", scores, torch.zeros(4, dtype=torch.long), {}, scores.sum(), None)
        )
    assert [event.call for event in events if isinstance(event, LossComputed)] == [0, 1, 2, 3, 4, 5, 50, 100]


class Writer(nn.Module):
    """A forward that writes wherever it can."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.calls = 0
        self.seen: list[Tensor] = []
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(x)
        self.last = x
        print("forward", random.random(), np.random.rand())
        return torch.log(self.drop(self.norm(x)) - 100)


def test_a_replay_finds_the_operation_and_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = Writer(), torch.randn(6, 4)
    noticed: list[int] = []
    model.register_forward_hook(lambda *_: noticed.append(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    versions = {name: value._version for name, value in model.state_dict().items()}
    randomness = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    replay = Replay(model)
    assert replay.run((x,), {}, grad=True, autocast=None)
    assert replay.origin is not None
    assert replay.origin.operation == "log"
    assert replay.origin.place is not None
    assert replay.origin.place.function == "Writer.forward"
    assert capsys.readouterr().out == ""
    assert (model.calls, model.seen, model.last, noticed) == (0, [], None, [])
    assert all(
        torch.equal(value, before[name]) and value._version == versions[name]
        for name, value in model.state_dict().items()
    )
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    assert torch.equal(after[0], randomness[0])
    assert after[1:] == randomness[1:]


def test_a_replay_goes_back_to_the_overflow_but_not_to_a_mask() -> None:
    class Overflow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            large = torch.exp(x.masked_fill(x < -1, float("-inf")) * 1000)
            return large / large

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(x.masked_fill(x == x, float("-inf")), dim=1)

    for model, operation in ((Overflow(), "exp"), (Masked(), "softmax")):
        replay = Replay(model)
        replay.run((torch.randn(4, 4),), {}, grad=False, autocast=None)
        assert replay.origin is not None
        assert replay.origin.operation == operation


def test_a_forward_that_cannot_be_repeated_says_nothing() -> None:
    class Once(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("once only")

    replay = Replay(Once())
    assert not replay.run((torch.randn(2),), {}, grad=True, autocast=None)
    assert replay.origin is None


SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(12):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    if i == 6:
        x[0, 0] = float("inf")
    out = model(x)
    loss = nn.functional.cross_entropy(out[1:] if i != 6 else out, y[1:] if i != 6 else y)
    optimizer.zero_grad()
    loss.backward()
    if i != 6:
        optimizer.step()
    print(f"{loss.item()!r} {model[0].weight.sum().item()!r} {model[1].running_var.sum().item()!r} {torch.rand(1).item()!r}")
"""  # noqa: E501


def test_the_checked_run_is_the_plain_run(check: Callable[..., Checked], capsys: pytest.CaptureFixture[str]) -> None:
    checked = check(SCRIPT)
    assert "nan-or-inf-in-inputs" in checked.names()
    exec(compile(SCRIPT, "plain.py", "exec"), {"__name__": "plain"})
    plain = capsys.readouterr().out.splitlines()
    assert [line for line in checked.output.splitlines() if line in plain] == plain


def test_nothing_is_kept_alive() -> None:
    events: list[Event] = []
    bus = Bus(events.append)
    observer = LossObserver(bus, RunObjects(bus))
    scores, target = torch.randn(8, 3, requires_grad=True), torch.arange(8).float().view(8, 1)
    gone = weakref.ref(scores), weakref.ref(target)
    observer.loss_called(LossCall("mse_loss", scores, target, {}, scores.sum(), None))
    del scores, target
    assert [reference() for reference in gone] == [None, None]
