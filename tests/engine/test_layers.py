"""Statistics of layers: right, free of side effects, and read only when the host waits anyway."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import with_parts
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.layers import LayerLook, Reading, during_forward
from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.measure.norms import norms
from trueloop.measure.tensors import dense
from trueloop.recipe.recipe import DataRequest, Recipe


def regression(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(48, 4, generator=draws)
    return Splits(train=Tensors(inputs, inputs.sum(1)))


def tokens(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    return Splits(train=Tensors(torch.randint(10, (48, 3), generator=draws), torch.randn(48, generator=draws)))


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))


RECIPE = Recipe(
    name="small", model=two_layers, data=regression, task="regression", optimizer="sgd", lr=0.1, steps=30, batch=12,
    log_every=5, statistics_every=10, trackers=(),
)  # fmt: skip


class Rows(Hook):
    """Keeps the rows of layers and the notes."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def logged(self, row: Row) -> None:
        if row.kind == "layers":
            self.rows.append(row)

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


def rows_of(recipe: Recipe) -> list[Row]:
    heard = Rows()
    Loop.of(recipe, hooks=heard).train()
    return heard.rows


def weights_after(recipe: Recipe) -> dict[str, Tensor]:
    loop = Loop.of(recipe)
    loop.train()
    return loop.parts.model.state_dict()


def ignore(*_: object) -> None:
    """Sees nothing."""


def look(model: nn.Module, inputs: Any, rate: float = 0.1) -> Mapping[str, float]:
    """One step of plain SGD under one look."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    found = LayerLook(model)
    parts = [entry for entry in model.named_modules() if next(entry[1].children(), None) is None and entry[0]]
    during_forward(model, parts, lambda name, _, __, output: found.saw(name, output), ignore)
    model(inputs).square().sum().backward()
    found.gradients()
    optimizer.step()
    return found.updated(1).values()


# -- the numbers --


def test_gradients_updates_and_activations_are_those_that_plain_torch_gives() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    twin = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    twin.load_state_dict(model.state_dict())
    inputs = torch.randn(16, 4)
    values = look(model, inputs)

    first, relu, last = twin
    hidden: Tensor = first(inputs)
    active: Tensor = relu(hidden)
    last(active).square().sum().backward()
    weight = twin.get_parameter("0.weight")
    before, gradient = weight.detach(), weight.grad
    assert gradient is not None
    assert values["grad_norm/0.weight"] == pytest.approx(gradient.norm().item())
    assert values["update/0.weight"] == pytest.approx((0.1 * gradient).norm().item() / before.norm().item(), rel=1e-5)
    assert values["activation_mean/0"] == pytest.approx(hidden.mean().item(), rel=1e-4)
    assert values["activation_std/1"] == pytest.approx(active.std(correction=0).item(), rel=1e-4)
    assert values["activation_zeros/1"] == pytest.approx((active == 0).float().mean().item())
    assert values["activation_zeros/0"] == 0.0


def test_a_module_that_runs_twice_is_one_layer_with_both_calls_in_it() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.same = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            first: Tensor = self.same(x)
            second: Tensor = self.same(first)
            self.seen = torch.cat([first, second]).detach()
            return second

    model = Twice()
    values = look(model, torch.randn(8, 4))
    assert values["activation_mean/same"] == pytest.approx(model.seen.mean().item(), abs=1e-6)
    assert values["activation_std/same"] == pytest.approx(model.seen.std(correction=0).item(), rel=1e-4)
    assert sum(name.startswith("grad_norm/") for name in values) == 2


def test_frozen_parameters_have_no_statistics() -> None:
    model = two_layers()
    model.get_submodule("0").requires_grad_(False)
    values = look(model, torch.randn(8, 4))
    assert "grad_norm/3.weight" in values
    assert not any(name.startswith(("grad", "update")) and "/0." in name for name in values)


def test_a_weight_of_zeros_has_no_update_ratio() -> None:
    model = nn.Linear(4, 1)
    nn.init.zeros_(model.bias)
    values = look(model, torch.randn(8, 4))
    assert "update/weight" in values
    assert "grad_norm/bias" in values
    assert "update/bias" not in values


def test_sparse_gradients_are_those_of_the_rows_that_the_batch_touched() -> None:
    model = nn.Embedding(10, 3, sparse=True)
    values = look(model, torch.tensor([1, 1, 4]))
    gradient = model.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    assert values["grad_norm/weight"] == pytest.approx(gradient.to_dense().norm().item())
    assert dense(gradient).shape == (2, 3)


def test_half_precision_gradients_do_not_overflow_their_norm() -> None:
    assert norms([torch.full((100,), 60000.0, dtype=torch.float16)]).item() == pytest.approx(600000.0, rel=1e-3)


def test_outputs_without_floating_numbers_are_passed_over() -> None:
    found = LayerLook(nn.Identity())
    found.saw("a", torch.arange(3))
    found.saw("b", (torch.zeros(0), {"x": None}))
    found.saw("c", (torch.arange(3), torch.ones(2)))
    values = found.updated(1).values()
    assert values == {"activation_mean/c": 1.0, "activation_std/c": 0.0, "activation_zeros/c": 0.0}


def test_numbers_that_are_none_stay_visible() -> None:
    reading = Reading(1, ("w",), (("a", 2),), torch.tensor([math.nan, 1.0, math.nan, math.inf, math.nan, 2.0]))
    values = reading.values()
    assert math.isnan(values["grad_norm/w"])
    assert math.isnan(values["update/w"])
    assert math.isinf(values["activation_mean/a"])


# -- when --


def test_it_looks_at_the_first_step_and_then_at_its_interval() -> None:
    assert [row.step for row in rows_of(RECIPE)] == [1, 10, 20, 30]
    assert [row.step for row in rows_of(replace(RECIPE, statistics_every=7))] == [1, 7, 14, 21, 28]


def test_zero_means_never() -> None:
    assert rows_of(replace(RECIPE, statistics_every=0)) == []


def test_the_epoch_of_a_row_is_that_of_its_step() -> None:
    assert [row.epoch for row in rows_of(RECIPE)] == [0.25, 2.5, 5.0, 7.5]


# -- what it must not do --


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="plain"),
        pytest.param({"accumulate": 3, "clip": 0.5}, id="accumulated and clipped"),
        pytest.param({"ema": 0.9, "optimizer": "adamw"}, id="averaged"),
        pytest.param({"precision": "bf16"}, id="bf16"),
        pytest.param({"optimizer": "SGD", "optimizer_options": {"nesterov": True, "momentum": 0.9}}, id="nesterov"),
    ],
)
def test_the_training_gives_the_same_bits_with_and_without(change: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **change)
    always, never = (weights_after(replace(recipe, statistics_every=every)) for every in (1, 0))
    assert all(torch.equal(always[name], never[name]) for name in never)


def test_no_random_number_is_drawn() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    before = torch.get_rng_state()
    look(model, torch.ones(2, 4))
    assert torch.equal(torch.get_rng_state(), before)


def test_nothing_is_read_by_the_host_during_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_layers()
    inputs = torch.randn(8, 4)
    reading: Callable[[], Mapping[str, float]]
    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "__bool__", "__float__", "__int__", "numpy"):
            patch.setattr(Tensor, name, _refuse)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        found = LayerLook(model)
        during_forward(model, list(model.named_children()), lambda name, _, __, output: found.saw(name, output), ignore)
        model(inputs).sum().backward()
        found.gradients()
        optimizer.step()
        reading = found.updated(1).values
    assert "grad_norm/0.weight" in reading()


def _refuse(self: Tensor, *args: object) -> None:
    raise AssertionError("the host waited for the device")


def test_hooks_are_gone_after_the_first_forward_and_no_tensor_is_kept() -> None:
    model = two_layers()
    found = LayerLook(model)
    seen: list[str] = []
    during_forward(model, list(model.named_children()), lambda name, *_: seen.append(name), ignore)
    model(torch.randn(2, 4))
    model(torch.randn(2, 4)).sum().backward()
    assert seen == ["0", "1", "2", "3"]
    assert not any(module._forward_hooks for module in model.modules())
    found.gradients()
    reading = found.updated(1)
    gc.collect()
    assert [type(value) for value in vars(found).values() if isinstance(value, Tensor)] == []
    assert not any(
        isinstance(item, Tensor) for value in vars(found).values() if isinstance(value, list) for item in value
    )
    assert reading.numbers.numel() == 3 * len(reading.parameters)


def test_hooks_can_be_taken_away_before_any_forward() -> None:
    model = two_layers()
    remove = during_forward(model, list(model.named_children()), ignore, ignore)
    remove()
    assert not any(module._forward_hooks for module in model.modules())


def test_activations_under_accumulation_are_those_of_the_first_micro_batch() -> None:
    rows = rows_of(replace(RECIPE, model=lambda: nn.Linear(4, 1), accumulate=4))
    assert "activation_mean/Linear" in rows[0].values
    seen: list[int] = []

    class Counting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    rows_of(replace(RECIPE, model=lambda: Counting(4, 1), accumulate=4, steps=1))
    assert 3 in seen


def test_sparse_embeddings_train_under_the_looks() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.EmbeddingBag(10, 4, mode="sum")
            self.head = nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.rows(x))
            return out

    rows = rows_of(replace(RECIPE, model=Bag, data=tokens))
    assert rows[-1].values["grad_norm/rows.weight"] > 0


def test_a_compiled_model_is_not_looked_into_and_a_note_says_so() -> None:
    heard = Rows()
    loop = Loop.of(RECIPE, hooks=heard)
    loop = with_parts(loop, forward=torch.compile(loop.parts.model, backend="eager"))
    loop.train()
    assert len([note for note in heard.notes if "compiled" in note]) == 1
    assert heard.rows[-1].values["grad_norm/0.weight"] > 0
    assert not any(name.startswith("activation") for row in heard.rows for name in row.values)


def test_a_step_that_was_not_taken_leaves_no_row() -> None:
    heard = Rows()

    def spoilt(request: DataRequest) -> Splits:
        found = regression(request)
        assert isinstance(found.train, Tensors)
        inputs = found.train.inputs.clone()
        inputs[:] = math.nan
        return Splits(train=Tensors(inputs, found.train.targets))

    Loop.of(replace(RECIPE, data=spoilt, on_nonfinite="skip", max_nonfinite=3), hooks=heard).train()
    assert heard.rows == []
