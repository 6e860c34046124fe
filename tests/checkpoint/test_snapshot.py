"""What is copied for a checkpoint: independent of the training, complete, and readable without running anybody's
code."""

from __future__ import annotations

import collections
import enum
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.torture.bits import differences
from trueloop.checkpoint.contents import Contents, read_contents, take_snapshot
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.snapshot import Snapshot
from trueloop.checkpoint.store import Memory
from trueloop.errors import BadCheckpoint, CannotSave


def reread(contents: Contents) -> Contents:
    """Through a store and back."""
    store = Memory()
    store.write(name_of(1), {"step": 1}, contents.writers())
    return read_contents(store, name_of(1))


def through_a_store(model: nn.Module, training: dict[str, Any] | None = None) -> Contents:
    return reread(take_snapshot({"step": 1}, {"model": model.state_dict()}, training or {}))


class Level(enum.IntEnum):
    LOW = 1


Pair = collections.namedtuple("Pair", ["first", "second"])


def test_later_steps_do_not_change_a_snapshot() -> None:
    model = nn.Linear(3, 2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    contents = take_snapshot({}, {"model": model.state_dict()}, {"a": [model.weight]})
    with torch.no_grad():
        model.weight.add_(1)
    assert not list(differences(before, dict(contents.weights["model"])))
    assert torch.equal(contents.training["a"][0], before["weight"])


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (np.float64(0.1), 0.1),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (Level.LOW, 1),
        (Pair(1, 2.0), (1, 2.0)),
        (torch.Size([2, 3]), (2, 3)),
        ({1, 2}, {1, 2}),
        ((None, True, 1j, b"x", "é"), (None, True, 1j, b"x", "é")),
        (torch.float16, torch.float16),
        ({0: {"deep": [{"er": np.float32(0.5)}]}}, {0: {"deep": [{"er": 0.5}]}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_become_plain_and_are_read_back_safely(value: Any, becomes: Any) -> None:
    contents = reread(take_snapshot({}, {}, {"value": value}))
    assert not list(differences(becomes, contents.training["value"]))


@pytest.mark.parametrize("value", [collections.deque([1]), np.zeros(3), object(), frozenset([1]), lambda: 1])
def test_a_value_that_could_not_be_read_back_is_refused_when_it_is_saved_and_named(value: Any) -> None:
    with pytest.raises(CannotSave, match=r"the run's optimizer\['state'\]\[0\]\['buffer'\] is a .*safe to read"):
        take_snapshot({}, {}, {"optimizer": {"state": {0: {"buffer": value}}}})


class Odd(nn.Module):
    """Everything a state dict may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3, bias=False)
        self.decoder = nn.Linear(3, 3, bias=False)
        self.decoder.weight = self.encoder.weight
        self.turned = nn.Parameter(torch.randn(4, 3).t())
        self.register_buffer("empty", torch.zeros(0, 5))
        self.register_buffer("one", torch.tensor(3, dtype=torch.int64))
        self.register_buffer("rounded", torch.randn(3).bfloat16())
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("wide", torch.randn(2, dtype=torch.complex128))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.seen = 5

    def get_extra_state(self) -> dict[str, Any]:
        return {"seen": self.seen, "names": ["a", "b"]}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, Tensor) and value.is_sparse else value


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch 2.11 says so when it reads a sparse tensor
def test_odd_models_come_back_whole() -> None:
    torch.manual_seed(0)
    model, other = Odd(), Odd()
    model.seen = 9
    contents = through_a_store(model)
    other.load_state_dict(contents.state_of("model"))
    assert other.seen == 9
    assert other.decoder.weight is other.encoder.weight, "tied weights stay tied"
    for name, value in model.state_dict().items():
        assert not list(differences(dense(value), dense(other.state_dict()[name]))), name


def test_tied_weights_stand_under_each_of_their_names() -> None:
    weights = through_a_store(Odd()).weights["model"]
    assert torch.equal(weights["encoder.weight"], weights["decoder.weight"])


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(BadCheckpoint, match=r"holds no 'ema', only model"):
        through_a_store(nn.Linear(1, 1)).state_of("ema")


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(inputs).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(steps):
        optimizer.step(closure)  # type: ignore[arg-type]


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "tensor lr": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False, capturable=False),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, history_size=4),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "muon": lambda p: torch.optim.Muon([each for each in p if each.dim() == 2], lr=0.01),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_nothing_had_happened(kind: str) -> None:
    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
        return model, OPTIMIZERS[kind](list(model.parameters()))

    model, optimizer = fresh()
    stepped(model, optimizer, 3)
    contents = through_a_store(model, {"optimizer": optimizer.state_dict()})
    stepped(model, optimizer, 3)
    again, other = fresh()
    again.load_state_dict(contents.state_of("model"))
    other.load_state_dict(contents.training["optimizer"])
    stepped(again, other, 3)
    assert not list(differences(dict(model.state_dict()), dict(again.state_dict())))


def test_states_keep_the_layout_of_their_weights() -> None:
    """A fused step walks over weights and states in memory's order: they must lie alike."""
    torch.manual_seed(0)
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    moment = optimizer.state[model.weight]["exp_avg"]
    saved = through_a_store(model, {"optimizer": optimizer.state_dict()}).training["optimizer"]["state"][0]["exp_avg"]
    assert saved.stride() == moment.stride() != torch.empty(4, 3, 3, 3).stride()
    assert torch.equal(saved, moment)


def test_a_snapshot_on_the_host_has_nothing_to_wait_for() -> None:
    snapshot = Snapshot()
    copied = snapshot.of({"a": torch.ones(2)}, "x")
    snapshot.send()
    snapshot.wait()
    assert torch.equal(copied["a"], torch.ones(2))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch 2.11 says so when it reads a sparse tensor
def test_the_file_of_the_rest_needs_no_trust() -> None:
    contents = take_snapshot({}, {"model": Odd().state_dict()}, {"random": [1, (2, 3)]})
    buffer = io.BytesIO()
    contents.writers()["training.pt"](buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=True)["random"] == [1, (2, 3)]
