"""When a run has collapsed: decided from numbers alone, on both sides of every line; and what a constant answer
scores."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engine.small import SMALL, Of, begin, plain, reading
from trueloop.data.dataset import Dataset
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.collapse import FIRST_CHECKED_EPOCH, Baseline, CollapseCheck, ConstantAnswer
from trueloop.engine.constant_baseline import constant_answer
from trueloop.hook import Collapse

GOOD = Baseline("runs/good", "accuracy", True, 0.9, 0.02, "as told", rows=((100, 0.5), (200, 0.7), (400, 0.9)))
LOW = Baseline("runs/low", "loss", False, 0.3, 0.05, "as told", rows=((100, 1.0), (200, 0.6), (400, 0.3)))
MAJORITY = ConstantAnswer("always 'cat'", 0.4)


def judged(
    bar: CollapseCheck, step: int, value: float, best: float | None = None, *, last: bool = False, epoch: float = 5.0
) -> Collapse | None:
    return bar.check(step=step, epoch=epoch, value=value, best=best, last=last)


# -- the baseline's curve --


@pytest.mark.parametrize(
    ("step", "value"), [(99, None), (100, 0.5), (150, 0.6), (200, 0.7), (300, 0.8), (400, 0.9), (999, 0.9)]
)
def test_a_baseline_is_read_between_its_evaluations(step: int, value: float | None) -> None:
    assert GOOD.at(step) == (None if value is None else pytest.approx(value))


def test_a_run_may_be_late_by_half() -> None:
    assert GOOD.expected(199) is None
    assert GOOD.expected(200) == pytest.approx(0.5)
    assert GOOD.expected(400) == pytest.approx(0.7)
    assert LOW.expected(400) == pytest.approx(0.6)


def test_a_baseline_that_got_worse_expects_no_more_than_it_had() -> None:
    overfitted = replace(GOOD, rows=((100, 0.9), (200, 0.6)))
    assert overfitted.expected(200) == pytest.approx(0.6)


def test_a_baseline_survives_its_record() -> None:
    assert Baseline.from_dict(json.loads(json.dumps(GOOD.to_dict()))) == GOOD
    assert GOOD.name == "good"


# -- below it --


@pytest.mark.parametrize(("value", "collapsed"), [(0.681, False), (0.679, True), (0.95, False), (math.nan, True)])
def test_in_mid_run_it_is_held_against_what_the_baseline_had(value: float, collapsed: bool) -> None:
    found = judged(CollapseCheck(GOOD), 400, value)
    assert (found is not None) == collapsed
    assert found is None or (found.kind, found.step, round(found.expected, 9), found.noise) == (
        "baseline",
        400,
        0.7,
        0.02,
    )


@pytest.mark.parametrize(("value", "collapsed"), [(0.64, False), (0.66, True), (0.1, False), (math.inf, True)])
def test_a_loss_is_worse_when_it_is_higher(value: float, collapsed: bool) -> None:
    assert (judged(CollapseCheck(LOW), 400, value) is not None) == collapsed


def test_nothing_is_judged_before_the_baseline_was_or_before_the_first_epoch_is_over() -> None:
    assert judged(CollapseCheck(GOOD, MAJORITY), 199, 0.0) is None
    assert judged(CollapseCheck(GOOD, MAJORITY), 400, 0.0, epoch=FIRST_CHECKED_EPOCH - 0.01) is None
    assert judged(CollapseCheck(GOOD, MAJORITY), 400, 0.0, epoch=FIRST_CHECKED_EPOCH) is not None


@pytest.mark.parametrize(
    ("value", "best", "collapsed"),
    [(0.2, 0.89, False), (0.2, 0.87, True), (0.881, 0.2, False), (0.879, None, True), (math.nan, 0.9, False)],
)
def test_at_the_end_the_best_is_held_against_the_best(value: float, best: float | None, collapsed: bool) -> None:
    found = judged(CollapseCheck(GOOD), 400, value, best, last=True)
    assert (found is not None) == collapsed
    assert found is None or "its best, 0.9" in found.sentence


def test_the_sentence_has_the_numbers_and_where_the_noise_is_from() -> None:
    found = judged(CollapseCheck(GOOD), 400, 0.1)
    assert found is not None
    assert found.sentence == (
        "Validation accuracy 0.1 at step 400 is worse than the baseline good (0.7, which it had after 200 to 400 "
        "steps) by more than its seed noise of 0.02 (as told)."
    )


# -- as good as a constant --


@pytest.mark.parametrize(("value", "collapsed"), [(0.419, True), (0.421, False)])
def test_no_better_than_a_constant_is_a_collapse_where_the_baseline_was_better(value: float, collapsed: bool) -> None:
    bar = CollapseCheck(replace(GOOD, rows=((100, 0.43), (400, 0.43)), value=0.43), MAJORITY)
    found = judged(bar, 400, value)
    assert (found is not None) == collapsed
    assert found is None or found.kind == "constant"
    assert found is None or "always 'cat': 0.4" in found.sentence


def test_a_slow_beginning_that_the_baseline_had_too_is_none() -> None:
    bar = CollapseCheck(replace(GOOD, rows=((100, 0.41), (400, 0.41))), MAJORITY)
    assert judged(bar, 400, 0.4) is None


@pytest.mark.parametrize(("value", "collapsed"), [(0.4, True), (0.401, False)])
def test_at_the_end_of_a_blunt_metric_only_what_is_not_better_at_all_has_collapsed(
    value: float, collapsed: bool
) -> None:
    bar = CollapseCheck(replace(GOOD, value=0.41), MAJORITY)
    assert (judged(bar, 400, value, last=True) is not None) == collapsed


def test_what_a_constant_answer_reaches_is_never_promoted() -> None:
    assert not CollapseCheck(GOOD, MAJORITY).may_be_best(0.419)
    assert CollapseCheck(GOOD, MAJORITY).may_be_best(0.421)
    assert CollapseCheck(GOOD).may_be_best(0.0)
    assert CollapseCheck(replace(GOOD, value=0.41), MAJORITY).may_be_best(0.401)


def test_the_decision_needs_no_torch() -> None:
    code = "import sys, trueloop.engine.collapse, trueloop.session.baseline; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- the constant answer --


def answer(train: Tensor, valid: Tensor, facts: Facts | None = None, **changes: Any) -> ConstantAnswer:
    splits = Splits(
        Tensors(torch.zeros(len(train), 6), train), Tensors(torch.zeros(len(valid), 6), valid), facts=facts or Facts()
    )
    loop, _, _ = begin(replace(SMALL, model=plain, data=Of(splits), **changes))
    found = constant_answer(loop.parts, may_read=False)
    assert found is not None
    return found


def test_the_commonest_class_of_the_training_data_is_scored_on_the_validation_data() -> None:
    found = answer(torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0, 0, 2]), Facts(classes=("ant", "bee", "cat")))
    assert found == ConstantAnswer("always 'bee'", 0.25)


@pytest.mark.parametrize("smooth", [0.0, 0.2])
def test_the_shares_of_the_classes_have_the_loss_that_the_task_gives_them(smooth: float) -> None:
    train, valid = torch.tensor([0, 1, 1, 2, 1]), torch.tensor([1, 0, 2, 2])
    found = answer(train, valid, metric="loss", label_smoothing=smooth)
    share = (1 - smooth) * torch.tensor([2.0, 4.0, 2.0]) / 8 + smooth / 3
    told = share.log().expand(4, 3)
    assert found.value == pytest.approx(
        float(torch.nn.functional.cross_entropy(told, valid, label_smoothing=smooth)), rel=1e-5
    )


def test_padding_does_not_count() -> None:
    loop, _, _ = begin(reading(5, 9))
    splits = replace(loop.parts.splits, valid=loop.parts.splits.train)
    loop, _, _ = begin(replace(reading(5, 9), data=Of(splits), metric="accuracy"))
    found = constant_answer(loop.parts, may_read=False)
    assert isinstance(splits.train, Tensors)
    counted = torch.bincount(splits.train.targets[splits.train.targets != 0])
    assert found is not None
    assert found.value == pytest.approx(float(counted.max() / counted.sum()))


@pytest.mark.parametrize(
    ("metric", "said", "value"),
    [("accuracy", "always no", 0.5), ("f1", "always yes", 2 / 3), ("loss", "the share of yes", None)],
)
def test_yes_and_no(metric: str, said: str, value: float | None) -> None:
    found = answer(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1]), task="binary", metric=metric)
    share = 2 / 6
    assert found.answer.startswith(said)
    assert found.value == pytest.approx(-(math.log(share) + math.log(1 - share)) / 2 if value is None else value)


@pytest.mark.parametrize(
    ("metric", "said", "value"), [("loss", "the mean", 4.0), ("mae", "the median", 3.0), ("r2", "the mean", 0.0)]
)
def test_quantities(metric: str, said: str, value: float) -> None:
    found = answer(
        torch.tensor([0.0, 1.0, 5.0]),
        torch.tensor([0.0, 4.0]) if metric != "mae" else torch.tensor([4.0]),
        task="regression",
        metric=metric,
    )
    assert found.answer == f"{said} of the training data"
    assert found.value == pytest.approx(value)


def test_labels_that_are_not_in_memory_are_read_only_where_that_is_asked_for() -> None:
    samples = [(torch.zeros(6), torch.tensor(number % 3)) for number in range(9)]
    splits = Splits(Dataset(samples), Dataset(samples))
    loop, _, _ = begin(replace(SMALL, data=Of(splits)))
    before = torch.get_rng_state()
    assert constant_answer(loop.parts, may_read=False) is None
    assert constant_answer(loop.parts, may_read=True) == ConstantAnswer("always 0", 3 / 9)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_of_ones_own_has_no_constant_answer() -> None:
    loop, _, _ = begin(replace(SMALL, loss=torch.nn.functional.cross_entropy))
    assert constant_answer(loop.parts, may_read=True) is None
