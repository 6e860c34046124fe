"""An evaluation counts what it should, shares it with all, and leaves the model and the random states as they were."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.engine.small import CLASSES, SMALL, WIDTH, blobs, plain, with_norm
from trueloop.data.source import Batch, Facts
from trueloop.engine.evaluate import evaluate, evaluating
from trueloop.engine.precision import Precision
from trueloop.engine.schedule import Schedule, lr_note, peak_lr
from trueloop.engine.task import build_task
from trueloop.errors import BadData
from trueloop.parallel.peers import Alone, Peers

HOST = torch.device("cpu")
TASK = build_task(SMALL, Facts())
PRECISION = Precision("fp32", HOST)


def cut(sizes: Sequence[int]) -> list[Batch]:
    inputs, labels = blobs(sum(sizes))
    return [
        Batch(*pair) for pair in zip(torch.split(inputs, list(sizes)), torch.split(labels, list(sizes)), strict=True)
    ]


def measured(
    model: nn.Module, batches: Sequence[Batch], peers: Peers | None = None, idle: Sequence[Batch] = ()
) -> dict[str, float]:
    return evaluate(model, batches, TASK, HOST, PRECISION, peers or Alone(), idle)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6))
@settings(max_examples=30)
def test_how_the_samples_are_batched_changes_nothing(sizes: list[int]) -> None:
    torch.manual_seed(0)
    model = plain()
    assert measured(model, cut(sizes)) == pytest.approx(measured(model, cut([sum(sizes)])), rel=1e-6)


def test_the_loss_is_the_mean_over_all_samples() -> None:
    torch.manual_seed(0)
    model, (batch,) = plain(), cut([9])
    with torch.no_grad():
        expected = float(nn.functional.cross_entropy(model(batch.inputs), batch.targets))
        right = float((model(batch.inputs).argmax(1) == batch.targets).double().mean())
    found = measured(model, [batch])
    assert found["loss"] == pytest.approx(expected, rel=1e-6)
    assert found["accuracy"] == pytest.approx(right)


@final
class Counting(nn.Module):
    """Knows how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(WIDTH, CLASSES), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = self.inner(inputs)
        return answer


def test_idle_batches_are_computed_and_count_for_nothing() -> None:
    model, batches = Counting(), cut([4, 4, 2])
    wrong = Batch(torch.full((2, WIDTH), math.nan), torch.zeros(2).long())
    alone = measured(model, batches)
    assert model.calls == 3
    assert measured(model, batches, idle=[wrong, wrong]) == alone
    assert model.calls == 8


def test_who_has_nothing_but_idle_batches_says_so_only_if_nobody_has_more() -> None:
    with pytest.raises(BadData, match="All targets of the evaluation data are ignored"):
        measured(plain(), [], idle=cut([2]))
    found = measured(plain(), [], Doubling(loss=6.0, count=3.0), idle=cut([2]))
    assert found["loss"] == 2.0


@final
class Doubling(Peers):
    """Another process that has these sums."""

    rank, world = 0, 2

    def __init__(self, **theirs: float) -> None:
        self.theirs, self.asked = list(theirs.values()), 0

    def sum(self, value: Any) -> Any:
        more = self.theirs[self.asked] if self.asked < len(self.theirs) else 0.0
        self.asked += 1
        return value + more

    any = add_up = gather = share = wait = None  # type: ignore[assignment]


def test_sums_of_all_processes_are_what_counts() -> None:
    torch.manual_seed(0)
    model, batches = plain(), cut([4])
    alone = measured(model, batches)
    found = measured(model, batches, Doubling(loss=4.0, count=4.0))
    assert found["loss"] == pytest.approx((alone["loss"] * 4 + 4.0) / 8)


def test_a_million_small_losses_are_not_rounded_away() -> None:
    """In single precision a sum of 2**24 no longer grows by one."""
    many = [Batch(torch.zeros(1, WIDTH), torch.zeros(1).long())] * 3
    assert measured(plain(), many, Doubling(loss=2.0**40, count=2.0**40 - 3))["loss"] > 1.0


def test_nothing_is_learnt_or_drawn_and_every_module_is_in_its_mode_again() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(with_norm(), nn.Dropout(0.5))
    model[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes, draws = [module.training for module in model.modules()], torch.get_rng_state()
    measured(model, cut([8, 8]))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), draws)
    assert torch.is_grad_enabled()


def test_modes_come_back_even_if_the_model_fails() -> None:
    model = plain()
    with evaluating(model):
        assert not model.training
        assert not torch.is_grad_enabled()
    with pytest.raises(RuntimeError), evaluating(model):
        model(torch.zeros(2, WIDTH + 1))
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_a_table_that_a_model_makes_while_it_is_evaluated_can_be_trained_with() -> None:
    model = plain()
    with evaluating(model):
        table = torch.ones(CLASSES)
    (model(torch.ones(1, WIDTH)) * table).sum().backward()
    assert not table.is_inference()


# -- the rate of another batch --


@given(lr=st.floats(1e-6, 10), batch=st.integers(1, 1 << 20), reference=st.integers(1, 1 << 20))
def test_the_rate_follows_the_batch_by_its_rule_and_never_falls_as_it_grows(
    lr: float, batch: int, reference: int
) -> None:
    def rate(rule: Any, size: int = batch) -> float:
        return peak_lr(replace(SMALL, lr=lr, batch=size, lr_scaling=rule, reference_batch=reference))

    assert rate("none") == lr
    assert rate("linear") == pytest.approx(lr * batch / reference)
    assert rate("sqrt") ** 2 == pytest.approx(lr * rate("linear"))
    for rule in ("linear", "sqrt"):
        assert rate(rule, reference) == pytest.approx(lr)
        assert rate(rule, batch + 1) > rate(rule)
    between = sorted((lr, rate("linear")))
    assert between[0] <= rate("sqrt") * (1 + 1e-12)
    assert rate("sqrt") <= between[1] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ""),
        (
            {"lr": 0.1, "batch": 4096, "lr_scaling": "linear", "reference_batch": 1024},
            "lr: 0.1 for a batch of 1,024 is 0.4 for 4,096 (lr_scaling=linear)",
        ),
        (
            {"lr": 0.1, "batch": 256, "lr_scaling": "sqrt", "reference_batch": 1024},
            "lr: 0.1 for a batch of 1,024 is 0.05 for 256 (lr_scaling=sqrt)",
        ),
    ],
)
def test_what_becomes_of_the_rate_is_said_in_one_line(options: dict[str, Any], said: str) -> None:
    assert lr_note(replace(SMALL, **options)) == said


@given(
    shape=st.sampled_from(["constant", "step", "cosine", "one-cycle", "linear", "plateau"]),
    total=st.integers(1, 400),
    warmup=st.integers(0, 50),
    final_share=st.floats(0, 1),
)
def test_a_rate_is_never_negative_and_never_above_the_highest(
    shape: str, total: int, warmup: int, final_share: float
) -> None:
    schedule = Schedule(shape, 0.5, total, min(warmup, total), final_share)
    rates = [schedule(step) for step in range(total + 5)]
    assert all(0 <= rate <= 0.5 * (1 + 1e-12) for rate in rates)
    rising = rates[: schedule.warmup]
    assert rising == sorted(rising)
