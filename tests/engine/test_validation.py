"""Validation changes nothing in training, and says what is true."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    SMALL,
    WIDTH,
    Kept,
    Of,
    Read,
    begin,
    blobs,
    plain,
    ran,
    same_bits,
    with_dropout,
    with_norm,
)
from trueloop.data.dataset import Dataset
from trueloop.data.source import Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.evaluate import evaluate, evaluating
from trueloop.engine.precision import Precision
from trueloop.engine.task import Multiclass
from trueloop.engine.train import train
from trueloop.errors import BadData
from trueloop.parallel.peers import Alone

HOST = torch.device("cpu")


class Noisy(nn.Module):
    """Draws from every generator there is, in training and in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        noise = random.random() + float(np.random.rand()) + torch.rand(1)
        answer: Tensor = self.layer(inputs + 0.1 * noise)
        return answer


class Frozen(nn.Module):
    """A backbone that is not trained and whose statistics must not move, under a head that is."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = (
            nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).requires_grad_(False).eval()
        )
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.head(self.backbone(inputs))
        return answer


@pytest.mark.parametrize("model", [plain, with_dropout, with_norm, Noisy, Frozen])
def test_a_run_with_validation_ends_with_the_bits_of_one_without(model: Any) -> None:
    recipe = replace(SMALL, model=model)
    often, never = ran(replace(recipe, evaluate_every=1)), ran(replace(recipe, data=Read(valid=0)))
    assert len(often.kept.steps("valid")) == 12
    assert never.kept.steps("valid") == []
    assert same_bits(often.weights, never.weights)
    assert often.losses == never.losses


def test_parts_in_eval_mode_stay_there_and_their_statistics_stand_still() -> None:
    torch.manual_seed(0)
    over = ran(replace(SMALL, model=Frozen, evaluate_every=2))
    model = over.loop.parts.model
    assert isinstance(model, Frozen)
    assert [model.training, model.backbone.training, model.backbone[1].training, model.head[0].training] == [
        True,
        False,
        False,
        True,
    ]
    assert int(over.weights["backbone.1.num_batches_tracked"]) == 0
    assert torch.equal(over.weights["backbone.1.running_mean"], torch.zeros(8))


def test_a_model_that_comes_in_eval_mode_is_trained_in_training_mode() -> None:
    """As libraries hand out pretrained models."""
    over = ran(replace(SMALL, model=lambda: with_norm().eval()))
    assert all(module.training for module in over.loop.parts.model.modules())
    assert int(over.weights["1.num_batches_tracked"]) == 12


def test_modes_are_put_back_even_when_the_evaluation_fails() -> None:
    model = Frozen()
    before = [module.training for module in model.modules()]

    def fail() -> None:
        with evaluating(model):
            assert not model.training
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [module.training for module in model.modules()] == before


def test_what_a_model_keeps_from_an_evaluation_is_of_use_to_the_training() -> None:
    """A table of positions that grows in the evaluation is multiplied with weights in the next step."""

    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)
            self.table = torch.ones(0)

        def forward(self, inputs: Tensor) -> Tensor:
            if len(self.table) < len(inputs):
                self.table = torch.ones(len(inputs))
            answer: Tensor = self.layer(inputs) * self.table[: len(inputs), None]
            return answer

    over = ran(replace(SMALL, model=Growing, evaluate_every=1, batch=5, data=Read(samples=15, valid=40)))
    assert over.ending.reason == "finished"


def test_no_graph_is_built_while_evaluating() -> None:
    seen: list[bool] = []

    class Asked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            answer: Tensor = self.layer(inputs)
            seen.append(answer.requires_grad)
            return answer

    loop, _, _ = begin(replace(SMALL, model=Asked))
    loop.validation.evaluate()
    assert seen
    assert not any(seen)


# -- what it says is true --


def by_hand(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[float, float]:
    model.eval()
    with torch.no_grad():
        scores = model(inputs)
    return float(nn.functional.cross_entropy(scores, labels)), float((scores.argmax(1) == labels).double().mean())


def test_the_mean_is_over_samples_not_over_batches() -> None:
    """35 samples in batches of 32 leave one of 3: a mean of means would weigh those ten times too much."""
    inputs, labels = blobs(35)
    inputs[32:] *= 40
    model = plain()
    splits = Splits(Tensors(inputs, labels))
    batches = EvaluationBatches(splits.train, splits, SMALL, HOST, Alone())
    assert [len(micro.targets) for micro in batches] == [32, 3]
    values = evaluate(model, batches, Multiclass(), HOST, Precision("fp32", HOST), Alone())
    loss, accuracy = by_hand(model, inputs, labels)
    assert values == {"loss": pytest.approx(loss, rel=1e-5), "accuracy": pytest.approx(accuracy)}


def test_targets_that_do_not_count_are_left_out_of_the_mean() -> None:
    inputs, labels = blobs(40)
    ignored = labels.clone()
    ignored[::3] = 1
    counting = ignored != 1
    splits = Splits(Tensors(inputs, ignored), facts=Facts(ignore=1))
    model = plain()
    values = evaluate(
        model,
        EvaluationBatches(splits.train, splits, SMALL, HOST, Alone()),
        Multiclass(splits.facts),
        HOST,
        Precision("fp32", HOST),
        Alone(),
    )
    loss, accuracy = by_hand(model, inputs[counting], ignored[counting])
    assert values == {"loss": pytest.approx(loss, rel=1e-5), "accuracy": pytest.approx(accuracy)}


def test_an_evaluation_over_nothing_says_so() -> None:
    with pytest.raises(BadData, match="All targets of the evaluation data are ignored"):
        evaluate(plain(), [], Multiclass(), HOST, Precision("fp32", HOST), Alone())


class Counting(Source):
    """Counts how often all its samples are asked for."""

    def __init__(self, inner: Tensors) -> None:
        self.inner, self.brought = inner, 0

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, numbers: Tensor) -> Any:
        return self.inner.fetch(numbers)

    def resident(self, device: torch.device) -> Source:
        self.brought += 1
        return self.inner

    def nbytes(self) -> int:
        return 1


def test_the_samples_are_brought_to_the_device_once_not_at_each_evaluation() -> None:
    valid = Counting(Tensors(*blobs(20)))
    over = ran(replace(SMALL, data=Of(Splits(Tensors(*blobs(50)), valid)), evaluate_every=1))
    assert len(over.kept.steps("valid")) == 12
    assert valid.brought == 1


def test_twice_a_micro_batch_is_evaluated_at_once() -> None:
    splits = Splits(Tensors(*blobs(200)))
    assert EvaluationBatches(splits.train, splits, replace(SMALL, batch=64), HOST, Alone()).batch == 128
    assert EvaluationBatches(splits.train, splits, replace(SMALL, batch=64, accumulate=8), HOST, Alone()).batch == 16


def test_preparation_is_for_evaluation_too_and_augmentation_is_not() -> None:
    def unlike(inputs: Tensor, draws: torch.Generator) -> Tensor:
        raise AssertionError("augmentation is for training only")

    splits = Splits(
        Tensors(torch.full((4, 2), 8, dtype=torch.uint8), torch.zeros(4)),
        prepare=lambda x: x.float() / 16,
        augment=unlike,
    )
    (only,) = EvaluationBatches(splits.train, splits, SMALL, HOST, Alone())
    assert only.inputs.tolist() == [[0.5, 0.5]] * 4


class Drawing:
    """Validation samples with noise of their own: not good practice, but it must not depend on the workers."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.full((WIDTH,), float(number)) + random.random() + float(np.random.rand()) + torch.rand(
            WIDTH
        ), number % CLASSES


@pytest.mark.parametrize("workers", [1, 2])
def test_evaluation_does_not_depend_on_the_workers(workers: int) -> None:
    recipe = replace(SMALL, data=Of(Splits(Tensors(*blobs(16)), Dataset(Drawing()))), batch=4, epochs=1)
    assert ran(recipe).kept.values(kind="valid") == ran(replace(recipe, workers=workers)).kept.values(kind="valid")


# -- what follows from it --


def scripted(values: list[float], recipe: Any = SMALL) -> tuple[Any, Kept]:
    """A run whose validation loss follows the script, one value an evaluation."""
    loop, kept, _ = begin(replace(recipe, metric="loss", epochs=len(values)))
    coming: Iterator[float] = iter(values)
    loop.validation.measure = lambda *_: {"loss": next(coming), "accuracy": 0.0}  # type: ignore[method-assign]
    train(loop)
    return loop, kept


def test_early_stopping_waits_for_its_patience_and_counts_from_the_best() -> None:
    loop, kept = scripted([5, 4, 6, 3, 3.5, 3.2, 9, 1], replace(SMALL, patience=3))
    assert len(kept.steps("valid")) == 7, (
        "three worse ones after 3; the last would have been better, and is not asked for"
    )
    assert loop.state.over
    assert (loop.state.best, loop.state.best_step) == (3, 16)


def test_without_patience_it_runs_to_its_end() -> None:
    loop, kept = scripted([5, 6, 7, 8])
    assert len(kept.steps("valid")) == 4
    assert not loop.state.over


def test_the_best_checkpoint_is_the_best_one() -> None:
    loop, kept = scripted([5, 2, 6, 2, 7])
    assert [row.best for row in kept.rows if row.kind == "valid"] == [True, True, False, False, False]
    assert loop.parts.saver.store.best() == "step-00000008"
    assert "step-00000008" in loop.parts.saver.store.names(), "it stays, however many come after it"


def test_a_metric_that_is_nan_is_never_the_best() -> None:
    loop, _ = scripted([float("nan"), 5, float("nan"), 4, float("inf")])
    assert (loop.state.best, loop.state.best_step) == (4, 16)


def test_a_run_whose_validation_is_always_nan_has_no_best() -> None:
    loop, kept = scripted([float("nan")] * 3)
    assert (loop.state.best, loop.state.best_step) == (None, None)
    assert not any(row.best for row in kept.rows)
    assert loop.parts.saver.store.names()
    assert loop.parts.saver.store.best() is None


def test_accuracy_is_better_when_higher() -> None:
    over = ran(replace(SMALL, lr=0.05, epochs=6))
    values = over.kept.values("accuracy", "valid")
    assert over.loop.state.best == max(values)
    assert over.loop.state.best_step == (values.index(max(values)) + 1) * 4
