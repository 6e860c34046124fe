"""Before the first step: what cannot be trained to its end is refused, and the rehearsal leaves no trace in the run."""

from __future__ import annotations

import random
from collections.abc import Callable
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
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.preflight import check_before_training, machine_problems
from trueloop.errors import BadData, BadRecipe
from trueloop.recipe.recipe import Recipe


def refused(recipe: Recipe, kind: type[Exception] = BadRecipe) -> str:
    loop, _, _ = begin(recipe)
    with pytest.raises(kind) as raised:
        check_before_training(loop.parts)
    assert "Nothing was trained" in str(raised.value)
    return str(raised.value)


def labelled(change: Callable[[Tensor], Tensor], **values: Any) -> Recipe:
    """Blobs whose training labels are changed."""
    return replace(SMALL, data=Read(change=lambda inputs, labels: (inputs, change(labels.clone()))), **values)


# -- it leaves no trace --


class Nosy(nn.Module):
    """Everything that a forward may move: dropout, running statistics, all random states, a buffer of its own, a kept
    table."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES))
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(()))
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.table is None:
            self.table = torch.ones(CLASSES)
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        answer: Tensor = self.body(x) * self.table + self.calls * 0.01 + noise * 0.01
        return answer


class Drawing:
    """A data set that draws from every global random state."""

    def __init__(self) -> None:
        self.inputs, self.labels = blobs(50)

    def __len__(self) -> int:
        return 50

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        return self.inputs[number] + random.random() + np.random.rand() + torch.rand(WIDTH), self.labels[number]


@pytest.mark.parametrize("model", [Nosy, with_dropout, with_norm])
@pytest.mark.parametrize("source", ["tensors", "dataset"])
def test_five_steps_end_with_the_same_bits_with_and_without_it(model: Callable[[], nn.Module], source: str) -> None:
    valid = Tensors(*blobs(20, seed=1))
    data = Of(Splits(Dataset(Drawing()), valid)) if source == "dataset" else Read()
    recipe = replace(SMALL, model=model, data=data, epochs=None, steps=5, ema=0.9)
    with_it, without = ran(recipe, before=lambda loop: check_before_training(loop.parts)), ran(recipe)
    assert same_bits(with_it.weights, without.weights)
    assert with_it.losses == without.losses
    assert with_it.loop.state.step == 5


def test_modes_gradients_and_hooks_are_as_before() -> None:
    loop, _, _ = begin(replace(SMALL, model=with_norm))
    loop.parts.model.train()
    loop.parts.model[1].eval()  # type: ignore[index]
    check_before_training(loop.parts)
    assert [module.training for module in loop.parts.model.children()] == [True, False, True, True]
    assert all(parameter.grad is None for parameter in loop.parts.model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in loop.parts.model.modules())
    assert loop.state.step == 0


def test_what_it_refuses_leaves_no_trace_either() -> None:
    loop, _, _ = begin(labelled(lambda labels: labels + 1, model=Nosy))
    before = {name: value.clone() for name, value in loop.parts.model.state_dict().items()}
    torch.manual_seed(5)
    with pytest.raises(BadData):
        check_before_training(loop.parts)
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))
    assert same_bits(before, loop.parts.model.state_dict())
    assert loop.parts.model.training


# -- targets --


def test_targets_of_the_first_batch_are_checked_against_real_outputs() -> None:
    said = refused(labelled(lambda labels: labels + 1), BadData)
    assert said.startswith("Batch 0 of the training data: ")
    assert "use targets - 1" in said


@pytest.mark.parametrize(("value", "said"), [(CLASSES, "is 3, but the model has 3 outputs"), (-1, "is -1")])
def test_one_wrong_label_anywhere_is_found_when_all_are_in_memory(value: int, said: str) -> None:
    def spoil(labels: Tensor) -> Tensor:
        labels[777] = value
        return labels

    recipe = replace(SMALL, data=Read(samples=1000, change=lambda inputs, labels: (inputs, spoil(labels.clone()))))
    told = refused(recipe, BadData)
    assert told.startswith("The training data: target 777 ")
    assert said in told


def test_one_target_that_is_no_number_is_found_anywhere() -> None:
    inputs = torch.randn(1000, WIDTH)
    targets = torch.randn(1000)
    targets[123] = torch.nan
    data = Of(Splits(Tensors(inputs, targets)))
    said = refused(replace(SMALL, data=data, task="regression", model=lambda: nn.Linear(WIDTH, 1)), BadData)
    assert "The training data: target 123 is nan, and 1 of 1,000 are NaN or Inf" in said


def test_validation_and_test_data_are_tried_before_the_first_epoch_is_spent() -> None:
    train = Tensors(*blobs(50))
    inputs, labels = blobs(20)
    assert refused(replace(SMALL, data=Of(Splits(train, Tensors(inputs, labels + 1)))), BadData).startswith(
        "The validation data: "
    )
    narrow = Tensors(inputs[:, :3], labels)
    assert refused(replace(SMALL, data=Of(Splits(train, test=narrow)))).startswith(
        "The first batch of the test data has inputs [16, 3]"
    )


def test_a_model_that_answers_no_tensor_is_refused() -> None:
    class Pair(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), None

    assert "the model returns a tuple" in refused(replace(SMALL, model=lambda: Pair(WIDTH, CLASSES)), BadData)


# -- a model that fails --


def test_a_shape_that_does_not_fit_is_told_with_the_layer_and_what_it_was_given() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, 8), nn.Sequential(nn.ReLU(), nn.Linear(9, CLASSES)))

    loop, _, _ = begin(replace(SMALL, model=model))
    with pytest.raises(BadRecipe) as raised:
        check_before_training(loop.parts)
    said = str(raised.value)
    assert "Batch 0 of the training data has inputs [16, 6] of float32, and Sequential fails on them" in said
    assert (
        "in its layer 1.1 (Linear(in_features=9, out_features=3, bias=True)), which was given [16, 8] of float32"
        in said
    )
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_forward_that_raises_is_chained() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("mine")

    loop, _, _ = begin(replace(SMALL, model=Broken))
    with pytest.raises(BadRecipe, match="Broken fails on them: KeyError: 'mine'") as raised:
        check_before_training(loop.parts)
    assert isinstance(raised.value.__cause__, KeyError)


# -- lengths --


def test_a_set_smaller_than_a_batch_with_drop_last_is_refused() -> None:
    said = refused(replace(SMALL, data=Read(samples=10), drop_last=True, epochs=None, steps=5))
    assert "There are 10 samples and a batch holds 16: with drop_last=True no batch is left" in said
    assert "a batch of at most 10" in said


def test_a_warmup_longer_than_the_epochs_is_refused() -> None:
    assert "warmup=12 is as long as the run: 12 steps, 4 per epoch" in refused(replace(SMALL, warmup=12))


def test_what_follows_the_validation_data_needs_some() -> None:
    recipe = replace(SMALL, data=Read(valid=0))
    assert "No validation data, but the recipe sets patience and schedule=plateau" in refused(
        replace(recipe, patience=3, schedule="plateau")
    )
    assert "No validation data, but the recipe sets metric" in refused(replace(recipe, metric="loss"))
    check_before_training(begin(recipe)[0].parts)


# -- what data cannot give --


def test_balanced_needs_classes_that_are_known() -> None:
    unknown = Dataset([(row, label) for row, label in zip(*blobs(50), strict=True)])
    recipe = replace(SMALL, data=Of(Splits(unknown)), balanced=True)
    assert "give Dataset(..., labels=...), or balanced=False" in refused(recipe)


def test_resident_needs_samples_that_can_be_held() -> None:
    recipe = replace(SMALL, data=Read(as_dataset=True), where="resident")
    assert "where=resident needs samples in memory, and Dataset reads them as needed" in refused(recipe)


# -- one sample and BatchNorm --


def images(samples: int) -> Of:
    return Of(Splits(Tensors(torch.randn(samples, 1, 4, 4), torch.randint(0, CLASSES, (samples,)))))


def test_a_last_batch_of_one_sample_with_batchnorm_is_refused_with_the_numbers() -> None:
    said = refused(replace(SMALL, model=with_norm, data=Read(samples=33)))
    assert "33 samples in batches of 16 leave a batch of 1" in said
    assert "BatchNorm (1)" in said
    assert "--set drop_last=true, or another batch" in said


def test_torch_would_indeed_have_stopped_there() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        ran(replace(SMALL, model=with_norm, data=Read(samples=33)))


@pytest.mark.parametrize("values", [{"drop_last": True}, {"batch": 11}, {"batch": 31}, {"model": plain}])
def test_each_cure_helps(values: dict[str, Any]) -> None:
    recipe = replace(SMALL, model=with_norm, data=Read(samples=33))
    assert (
        ran(replace(recipe, **values), before=lambda loop: check_before_training(loop.parts)).ending.reason
        == "finished"
    )


def test_batchnorm_over_images_can_do_with_one_sample() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, CLASSES))

    assert (
        ran(
            replace(SMALL, model=model, data=images(17)), before=lambda loop: check_before_training(loop.parts)
        ).ending.reason
        == "finished"
    )


def test_micro_batches_of_one_sample_with_batchnorm_are_refused() -> None:
    said = refused(replace(SMALL, model=with_norm, accumulate=16))
    assert "accumulate=16 leaves micro-batches of one sample" in said


# -- the recipe and this machine --


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"device": "cuda"}, "device=cuda needs CUDA, and this machine has none"),
        ({"device": "cuda:1"}, "device=cuda:1 needs CUDA"),
        ({"device": "auto", "precision": "fp16"}, "device=auto finds only the CPU here: give precision=bf16"),
        ({"device": "auto", "precision": "tf32"}, "give precision=fp32"),
    ],
)
def test_what_this_machine_has_not_is_told_before_data_are_read(values: dict[str, Any], said: str) -> None:
    def unread(request: Any) -> Splits:
        raise AssertionError("the data were read")

    recipe = replace(SMALL, data=unread, **values)
    assert said in machine_problems(recipe)[0]
    with pytest.raises(BadRecipe, match="Nothing was run"):
        begin(recipe)


def test_mps_is_told_likewise() -> None:
    if torch.backends.mps.is_available():
        pytest.skip("this machine has it")
    assert "device=mps needs an Apple GPU" in machine_problems(replace(SMALL, device="mps"))[0]


def test_an_unknown_optimizer_is_told_before_data_are_read() -> None:
    assert "Did you mean adam?" in machine_problems(replace(SMALL, optimizer="adamm"))[0]
    assert machine_problems(SMALL) == []


def test_a_recipe_of_wrong_kinds_does_not_make_it_fail() -> None:
    assert machine_problems(replace(SMALL, device=3, precision=None, optimizer=None)) == []  # type: ignore[arg-type]
