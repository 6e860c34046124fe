"""The learning rate: known values, torch's own schedules where they mean the same, and steps that are optimizer
steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, SequentialLR, StepLR

from tests.engine.small import SMALL, Read, ran
from trueloop.engine.assemble import fill_in
from trueloop.engine.loop import Loop
from trueloop.engine.schedule import SHAPES, Schedule, set_rate
from trueloop.errors import BadRecipe
from trueloop.recipes.catalogue import find_recipe

TOTAL = 40


def torchs(make: Callable[[torch.optim.Optimizer], Any], lr: float = 0.2, steps: int = TOTAL) -> list[float]:
    """The rates that a schedule of torch's gives each step, stepped as its documentation says."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def ours(schedule: Schedule, steps: int = TOTAL) -> list[float]:
    return [schedule(step) for step in range(steps)]


def test_step_is_torchs_step() -> None:
    assert ours(Schedule("step", 0.2, TOTAL, step_size=7, gamma=0.5)) == pytest.approx(
        torchs(lambda o: StepLR(o, 7, 0.5))
    )


def test_cosine_is_torchs_cosine() -> None:
    assert ours(Schedule("cosine", 0.2, TOTAL, final=0.1)) == pytest.approx(
        torchs(lambda o: CosineAnnealingLR(o, TOTAL, 0.02))
    )


def test_linear_is_torchs_linear() -> None:
    assert ours(Schedule("linear", 0.2, TOTAL, final=0.25)) == pytest.approx(
        torchs(lambda o: LinearLR(o, 1.0, 0.25, TOTAL))
    )


@pytest.mark.parametrize("total", [10, 40, 101])
def test_one_cycle_is_torchs_one_cycle(total: int) -> None:
    mine = ours(Schedule("one-cycle", 0.2, total, final=1 / 25 / 100), total)
    # The last call of torch's own step() raises: it has no step after the last.
    theirs = torchs(lambda o: OneCycleLR(o, 0.2, total, final_div_factor=100, cycle_momentum=False), steps=total - 1)
    assert mine[:-1] == pytest.approx(theirs)
    assert mine[-1] == pytest.approx(0.2 / 25 / 100)
    assert max(mine) == pytest.approx(0.2, rel=0.01)


def test_warmup_and_cosine_are_torchs_two_in_sequence() -> None:
    def both(optimizer: torch.optim.Optimizer) -> Any:
        rise = LinearLR(optimizer, 1 / 10, 1.0, 9)
        return SequentialLR(optimizer, [rise, CosineAnnealingLR(optimizer, TOTAL - 10)], [10])

    assert ours(Schedule("cosine", 0.2, TOTAL, warmup=10)) == pytest.approx(torchs(both), abs=1e-9)


def test_warmup_rises_from_a_share_to_the_whole_and_never_beyond() -> None:
    for shape in SHAPES:
        rates = ours(Schedule(shape, 1.0, TOTAL, warmup=4))
        assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
        assert max(rates) <= 1.0


def test_constant_and_plateau_are_the_rate_itself() -> None:
    assert set(ours(Schedule("constant", 0.3, TOTAL)) + ours(Schedule("plateau", 0.3, TOTAL))) == {0.3}


def test_step_without_a_size_drops_after_each_third() -> None:
    rates = ours(Schedule("step", 1.0, 30), 30)
    assert [rates[0], rates[9], rates[10], rates[20]] == pytest.approx([1.0, 1.0, 0.1, 0.01])


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("total", [1, 2, 3])
def test_even_the_shortest_run_has_a_rate(shape: str, total: int) -> None:
    rates = ours(Schedule(shape, 0.1, total), total)
    assert all(0 <= rate <= 0.1 for rate in rates)
    assert rates[0] > 0, "a run of one step learns something"


def test_past_its_end_it_stays_at_its_end() -> None:
    assert Schedule("cosine", 0.1, 10, final=0.5)(25) == pytest.approx(0.05)
    assert Schedule("linear", 0.1, 10)(25) == pytest.approx(0.0)
    assert Schedule("one-cycle", 0.1, 10, final=0.01)(25) == pytest.approx(0.001)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_whole_schedule_is_the_whole_run_whatever_the_accumulation(accumulate: int) -> None:
    over = ran(replace(SMALL, accumulate=accumulate, schedule="linear", epochs=5))
    expected = [SMALL.lr * (1 - step / 20) for step in range(20)]
    assert over.kept.values("lr") == pytest.approx(expected), (
        "20 optimizer steps: 5 epochs of 50 samples in batches of 16"
    )


def test_steps_and_epochs_that_mean_the_same_run_are_the_same_run() -> None:
    by_epochs, by_steps = (
        ran(replace(SMALL, epochs=4, schedule="cosine")),
        ran(replace(SMALL, epochs=None, steps=16, schedule="cosine")),
    )
    assert by_epochs.losses == by_steps.losses
    assert by_epochs.kept.values("lr") == by_steps.kept.values("lr")


def test_plateau_drops_after_so_many_evaluations_without_a_better_one() -> None:
    """A rate of nearly nothing: the metric never gets better after the first evaluation."""
    over = ran(replace(SMALL, data=Read(samples=16), schedule="plateau", plateau=2, gamma=0.5, lr=1e-12, epochs=7))
    assert over.kept.values("lr") == pytest.approx([1e-12, 1e-12, 1e-12, 5e-13, 5e-13, 2.5e-13, 2.5e-13])
    assert over.loop.state.plateau_factor == 0.125


def test_plateau_does_not_drop_while_it_gets_better() -> None:
    over = ran(replace(SMALL, metric="loss", schedule="plateau", plateau=1, lr=1e-2, epochs=3))
    assert set(over.kept.values("lr")) == {1e-2}


def test_groups_keep_their_own_share_of_the_rate() -> None:
    weights = [nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))]
    groups: list[dict[str, Any]] = [{"params": weights[:1]}, {"params": weights[1:], "lr_scale": 0.1}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.05]


def test_a_rate_that_is_a_tensor_stays_the_same_tensor() -> None:
    rate = torch.tensor(1.0)
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=rate, fused=True)
    set_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25


@pytest.mark.parametrize(("epochs", "steps"), [(3, 3), (1, 1)])
def test_a_warm_up_given_as_a_share_follows_the_length_of_the_run(epochs: int, steps: int) -> None:
    parts = Loop.of(replace(SMALL, epochs=epochs, warmup=0.25)).parts  # 4 steps per epoch
    assert parts.schedule.warmup == parts.recipe.warmup == steps
    assert [parts.schedule(step) for step in range(steps)] == [SMALL.lr * (step + 1) / steps for step in range(steps)]


def test_bundled_recipes_keep_their_warm_up_at_their_own_length() -> None:
    assert fill_in(find_recipe("shakespeare", {}), 2500).warmup == 100
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    assert Loop.of(find_recipe("digits", {})).parts.schedule.warmup == 20


# -- a schedule of one's own --

COUNT = itertools.count(1)


def test_a_schedule_of_ones_own_counts_from_the_end_of_the_warm_up() -> None:
    rate = Schedule(lambda step, total: 1 - step / total, lr=2.0, total=12, warmup=2)
    assert [rate(step) for step in (0, 1, 2, 7, 11)] == pytest.approx([1.0, 2.0, 2.0, 1.0, 0.2])


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (lambda *_: -1.0, "returned -1.0 for step 0 of"),
        (lambda *_: math.nan, "returned nan for step 0 of"),
        (lambda *_: "high", "returned 'high' for step 0 of"),
        (lambda *_: None, "returned None for step 0 of"),
        (lambda *_: 0.0, "is 0 at every step"),
        (lambda step: float(step), "write it as `def schedule(step, total_steps)`"),
        (lambda *_: next(COUNT), "a function of the step alone"),
    ],
)  # fmt: skip
def test_a_schedule_of_ones_own_that_cannot_be_used_is_a_sentence(schedule: Any, said: str) -> None:
    with pytest.raises(BadRecipe) as raised:
        ran(replace(SMALL, schedule=schedule))
    assert said in str(raised.value)


def test_a_wrong_name_of_a_schedule_still_gets_did_you_mean() -> None:
    with pytest.raises(BadRecipe, match="Did you mean cosine"):
        ran(replace(SMALL, schedule="cosin"))  # type: ignore[arg-type]


def test_a_warm_up_ends_where_a_schedule_of_ones_own_begins() -> None:
    rate = Schedule(lambda step, total: 0.1 + 0.9 * step / total, lr=1.0, total=20, warmup=4)
    assert [rate(step) for step in range(5)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])
