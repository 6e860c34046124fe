"""The judgement on planted curves, gradients and metrics: what is rounding passes, what is wrong is refused with its
numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trueloop.tune.agreement import COSINE, LENGTH, LOOSE, LOOSEST, ROOM, ROUNDING, Evidence, agreement_of

STEPS = 40


def curve(loss: Callable[[int], float], every: int = 1) -> list[tuple[int, int, float]]:
    """Rows of so many steps each, as a program that plays several at once tells them."""
    return [(at, at + every, sum(map(loss, range(at, at + every))) / every) for at in range(0, STEPS, every)]


def falling(step: int) -> float:
    return 2.3 * math.exp(-step / 20)


def gradients(cosine: float = 0.999, itself: float = 0.999, length: float = 1.0) -> list[dict[str, Any]]:
    return [{"layers": {"0.weight": (cosine, itself), "2.weight": (0.9999, 0.9999)}, "length": length}]


def shown(**changes: Any) -> Evidence:
    made = Evidence(
        STEPS,
        curve(falling),
        [curve(lambda step: falling(step) * 1.001)],
        gradients(),
        [0.90, 0.91, 0.92],
        "accuracy",
        True,
    )
    return replace(made, **changes)


def test_the_reference_is_the_same_as_itself() -> None:
    same = agreement_of(shown(), shown())
    assert same.same
    assert same.loss_apart == pytest.approx(0.0, abs=1e-12)
    assert same.loss_allowed == ROUNDING
    assert (same.metric, same.reference, same.measured) == ("accuracy", (0.90, 0.91, 0.92), (0.90, 0.91, 0.92))


@pytest.mark.parametrize("every", [1, 4, 5, 8])
def test_rounding_passes_however_many_steps_a_line_tells_of(every: int) -> None:
    same = agreement_of(shown(), shown(curve=curve(lambda step: falling(step) * 1.01, every)))
    assert same.same
    assert same.loss_apart == pytest.approx(0.01)


def test_a_loss_that_stays_where_it_began_is_refused_with_its_numbers() -> None:
    """What gradients that underflow do."""
    same = agreement_of(shown(), shown(curve=curve(lambda _: 2.3)))
    assert not same.same
    assert same.loss_apart > 1.0
    assert "within 40 steps; 2.0% is rounding" in same.failures[0]


def test_what_the_reference_does_to_itself_is_allowed_to_others() -> None:
    restless = shown(moved=[curve(lambda step: falling(step) * 1.03)])
    trial = shown(curve=curve(lambda step: falling(step) * 1.08))
    assert agreement_of(restless, trial).same
    assert agreement_of(restless, trial).loss_allowed == pytest.approx(LOOSE * 0.03)
    assert not agreement_of(shown(), trial).same


def test_half_of_a_loss_is_never_rounding() -> None:
    wild = shown(moved=[curve(lambda step: falling(step) * 3)])
    assert agreement_of(wild, shown(curve=curve(lambda step: falling(step) * 1.49))).same
    refused = agreement_of(wild, shown(curve=curve(lambda step: falling(step) * 1.6)))
    assert refused.loss_allowed == LOOSEST
    assert not refused.same


def test_a_share_of_nearly_nothing_says_nothing() -> None:
    """Losses that have all but vanished are held against the first one."""

    def vanishing(step: int) -> float:
        return 2.3 if step < 4 else 1e-4

    same = agreement_of(
        shown(curve=curve(vanishing), moved=[]),
        shown(curve=curve(lambda step: vanishing(step) * (1 if step < 4 else 2))),
    )
    assert same.same
    assert same.loss_apart < 0.001


def test_a_loss_that_is_no_number_is_refused() -> None:
    same = agreement_of(shown(), shown(curve=curve(lambda step: falling(step) if step < 20 else math.nan)))
    assert same.loss_apart == math.inf
    assert not same.same


def test_a_training_that_ends_by_itself_is_refused_in_its_own_words() -> None:
    same = agreement_of(shown(), shown(curve=[], ended="the loss is nan in batch 3 of epoch 0"))
    assert same.failures == ("its training ended early: the loss is nan in batch 3 of epoch 0",)


@pytest.mark.parametrize(
    ("cosine", "passes"), [(COSINE + 0.01, True), (COSINE - 0.01, False), (0.0, False), (-1.0, False)]
)
def test_a_layer_whose_gradient_turns_is_named(cosine: float, passes: bool) -> None:
    same = agreement_of(shown(), shown(gradients=gradients(cosine)))
    assert same.same is passes
    assert (same.layer, same.cosine) == ("0.weight", cosine)
    if not passes:
        assert f"the gradient of 0.weight has a cosine of {cosine:.3f}" in same.failures[0]


def test_the_worst_moment_counts() -> None:
    same = agreement_of(shown(), shown(gradients=[*gradients(0.99), *gradients(0.5)]))
    assert same.cosine == 0.5
    assert not same.same


def test_a_layer_without_a_gradient_to_speak_of_is_left_out() -> None:
    """A bias before a BatchNorm: what there is, is rounding, and turns whenever anything moves."""
    same = agreement_of(shown(), shown(gradients=gradients(0.1, itself=0.2)))
    assert same.same
    assert same.layer == "2.weight"


def test_a_layer_that_turns_by_itself_may_turn_as_far() -> None:
    assert agreement_of(shown(), shown(gradients=gradients(0.75, itself=0.78))).same
    assert not agreement_of(shown(), shown(gradients=gradients(0.70, itself=0.78))).same


@pytest.mark.parametrize(
    ("length", "passes"), [(LENGTH - 0.01, True), (LENGTH + 0.01, False), (1 / LENGTH - 0.01, False), (0.0, False)]
)
def test_a_wrong_factor_is_seen_though_cosines_and_adam_hide_it(length: float, passes: bool) -> None:
    same = agreement_of(shown(), shown(gradients=gradients(length=length)))
    assert same.same is passes
    assert same.length == length


def test_a_metric_that_is_worse_by_more_than_noise_is_refused_with_its_numbers() -> None:
    same = agreement_of(shown(), shown(metrics=[0.80, 0.81, 0.82]))
    assert "accuracy is 0.81 after a short training (mean of 3 seeds), the reference's 0.91" in same.failures[0]


def test_a_metric_may_be_better_or_worse_by_noise() -> None:
    assert agreement_of(shown(), shown(metrics=[0.95, 0.96, 0.97])).same
    assert agreement_of(shown(), shown(metrics=[0.895, 0.905, 0.915])).same
    noisy = shown(metrics=[0.80, 0.90, 1.00])
    assert agreement_of(noisy, shown(metrics=[0.80, 0.82, 0.84])).same


def test_one_seed_has_no_spread_and_some_room() -> None:
    one = shown(metrics=[0.90])
    assert agreement_of(one, shown(metrics=[0.90 - ROOM / 2])).same
    assert not agreement_of(one, shown(metrics=[0.90 - 2 * ROOM])).same


def test_a_metric_that_should_be_low_is_held_the_other_way() -> None:
    low = shown(metrics=[1.0, 1.0, 1.0], metric="loss", higher=False)
    assert agreement_of(low, shown(metrics=[0.5, 0.5, 0.5], metric="loss", higher=False)).same
    assert not agreement_of(low, shown(metrics=[1.1, 1.1, 1.1], metric="loss", higher=False)).same


def test_a_metric_that_is_no_number_is_refused() -> None:
    same = agreement_of(shown(), shown(metrics=[0.9, math.nan, 0.9]))
    assert same.failures == ("its accuracy is NaN or Inf after a short training",)


def test_without_validation_data_the_rest_decides() -> None:
    bare = shown(metrics=[], metric="")
    assert agreement_of(bare, bare).same
    assert not agreement_of(bare, replace(bare, curve=curve(lambda _: 2.3))).same


def test_another_batch_is_judged_by_what_comes_of_it() -> None:
    """Its steps are other steps: neither curve nor gradients are compared."""
    other = shown(steps=20, curve=[], gradients=[])
    assert agreement_of(shown(), other).same
    assert agreement_of(shown(), other).layer == ""
    assert not agreement_of(shown(), replace(other, metrics=[0.5, 0.5, 0.5])).same


def test_all_that_fails_is_told() -> None:
    same = agreement_of(
        shown(), shown(curve=curve(lambda _: 2.3), gradients=gradients(0.0, length=0.0), metrics=[0.1, 0.1, 0.1])
    )
    assert len(same.failures) == 4
