"""Losses, parameters and units: the facts, one by one."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.event import LossComputed, Place
from trueloop.measure.loss import LossInputs, loss_computed
from trueloop.measure.parameters import Gradients, ModuleRuns, fingerprint, held_ids, is_idle_expert
from trueloop.measure.units import LOOKS, equal_units, is_fed

# -- losses --


def fact(function: str, scores: Tensor, target: Tensor, ignore: Any = None) -> LossComputed:
    inputs = LossInputs(function, scores, target, "mean", ignore)
    event = loss_computed(inputs, lambda _: None, step=0, place=None, call=0, grad=True)
    assert event is not None
    return event


@pytest.mark.parametrize("shape", [(8, 5), (300, 5), (8, 5, 20), (4, 5, 9, 9), (5,)])
def test_rows_over_the_classes_of_every_shape(shape: tuple[int, ...]) -> None:
    classes = 1 if len(shape) > 1 else 0
    scores = torch.randn(shape)
    target = torch.zeros([size for number, size in enumerate(shape) if number != classes]).long()
    assert fact("cross_entropy", scores, target).rows == "scores"
    assert fact("cross_entropy", scores.softmax(classes), target).rows == "probabilities"
    assert fact("nll_loss", scores.log_softmax(classes), target).rows == "log-probabilities"


def test_rows_are_sampled_over_the_whole_batch_and_over_all_positions() -> None:
    late = torch.randn(64, 3, 40).softmax(1)
    late[:, :, 35] *= 3.0
    assert fact("cross_entropy", late, torch.zeros(64, 40).long()).rows == "scores"
    last = torch.randn(64, 3).softmax(1)
    last[40:] *= 3.0
    assert fact("cross_entropy", last, torch.zeros(64).long()).rows == "scores"


def test_padding_of_zeros_is_not_a_row() -> None:
    rows = torch.randn(8, 3).softmax(1)
    rows[5:] = 0.0
    assert fact("kl_div", rows.log(), rows).target_rows_sum_to_one is True


def test_values_of_targets() -> None:
    event = fact("cross_entropy", torch.randn(4, 3), torch.tensor([2, 0, -100, 2]), -100)
    assert (event.target_range, event.target_distinct, event.target_integral) == ((0.0, 2.0), 2, True)
    assert event.rows == "scores"
    assert not fact("mse_loss", torch.randn(4), torch.tensor([0.5, 1.0, 2.0, 3.0])).target_integral
    assert fact("mse_loss", torch.full((4,), torch.nan), torch.zeros(4)).input_range is None
    assert fact("cross_entropy", torch.zeros(4, 1), torch.zeros(4).long()).rows == "unknown", "one class is no row"


def test_an_activation_is_found_behind_a_clamp_and_further_only_behind_probabilities() -> None:
    activation = (Place("train.py", 3, ""), "Softmax")
    softmax = torch.randn(8, 3, requires_grad=True).softmax(1)

    def found(scores: Tensor) -> str:
        inputs = LossInputs("cross_entropy", scores, torch.zeros(8).long(), "mean")
        of = lambda node: activation if node is softmax.grad_fn else None  # noqa: E731
        event = loss_computed(inputs, of, step=0, place=None, call=0, grad=True)
        assert event is not None
        return event.preceding_module

    assert found(softmax.clamp(1e-6, 1.0)) == "Softmax"
    assert found((softmax + 1e-8).view(8, 3)) == "Softmax"
    assert found(softmax * 3) == "", "no probabilities, so no softmax is meant"


def test_tensors_that_cannot_be_read_give_no_fact() -> None:
    for scores in (torch.zeros(0, 3), torch.zeros(4, 3, device="meta")):
        inputs = LossInputs("cross_entropy", scores, torch.zeros(4).long(), "mean")
        assert loss_computed(inputs, lambda _: None, step=0, place=None, call=0, grad=True) is None


# -- parameters --


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
        self.other = nn.ModuleList([nn.Linear(2, 2), nn.LayerNorm(2)])


def test_an_expert_that_was_not_chosen() -> None:
    model = Experts()
    assert is_idle_expert(model, "experts.1.weight", {"experts.0.weight"})
    assert not is_idle_expert(model, "experts.1.weight", set())
    assert not is_idle_expert(model, "other.1.weight", {"other.0.weight"}), "a different class"


def test_a_fingerprint_changes_with_every_write() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    before = fingerprint(parameter)
    assert fingerprint(parameter) == before
    parameter.data.add_(1.0)
    assert fingerprint(parameter) != before
    assert fingerprint(nn.Parameter(torch.zeros(4, device="meta"))).total == 0.0


def test_parameters_that_are_excused() -> None:
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in ("used", "written", "robbed", "kept", "bare")})
    optimizer = torch.optim.SGD(
        [p for name, part in model.items() if name != "kept" for p in part.parameters()], lr=0.1
    )
    gradients, runs, held = Gradients(), ModuleRuns(()), held_ids(optimizer)
    model["kept"].eval()
    (model["used"](torch.ones(1, 2)) + model["kept"](torch.ones(1, 2))).sum().backward()
    gradients.look(model, held)
    gradients.reached.update({"robbed.weight", "robbed.bias"})
    with torch.no_grad():
        for parameter in model["written"].parameters():
            parameter.add_(1.0)
    model.training = True
    accounts, complete = gradients.accounts(model, held, runs, lambda _: True)
    # `bare` is excused too: a sibling of the same class in the ModuleDict has had gradients.
    assert (accounts, complete) == ((), 10)
    gradients.had.clear()
    accounts, _ = gradients.accounts(model, held, runs, lambda _: True)
    assert {account.name for account in accounts} >= {"bare.weight", "bare.bias"}


def test_no_tensor_is_kept() -> None:
    model = nn.Linear(2, 2)
    gradients, runs = Gradients(), ModuleRuns(())
    output = model(torch.ones(1, 2))
    runs.saw(model, output)
    runs.cut(Place("train.py", 1, ""), "detach", output)
    gradients.walk(output)
    assert gradients.connected == set(map(id, model.parameters()))
    assert runs.cuts_behind({id(model.weight)}) == (Place("train.py", 1, ""),)
    ref = weakref.ref(output)
    del output
    gc.collect()
    assert ref() is None


# -- units --


def looks(model: nn.Module, weight: Tensor, *gradients: Tensor) -> list[str]:
    """What each look at a weight says, under these gradients."""
    weight.grad = gradients[0]
    (found,) = equal_units(model, {id(weight)})
    said: list[str] = []
    for number, gradient in zip(LOOKS[1:], gradients[1:], strict=False):
        weight.grad = gradient
        said.append(found.look(number))
    return said


def test_the_looks_at_equal_units() -> None:
    layer = nn.Linear(3, 4)
    nn.init.constant_(layer.weight, 0.2)
    zero, same, other = torch.zeros(4, 3), torch.full((4, 3), 0.5), torch.arange(12.0).reshape(4, 3)
    assert looks(layer, layer.weight, same, same) == ["report"]
    assert looks(layer, layer.weight, same, other) == ["drop"]
    assert looks(layer, layer.weight, zero, zero, zero) == ["keep", "keep"]
    assert looks(layer, layer.weight, zero, zero, same) == ["keep", "drop"], "it has only just begun to move"
    assert looks(layer, layer.weight, same, zero) == ["drop"]
    layer.weight.grad = other
    assert not list(equal_units(layer, {id(layer.weight)}))


def test_units_of_a_transposed_convolution_are_its_second_dimension() -> None:
    layer = nn.ConvTranspose2d(3, 5, 2)
    nn.init.constant_(layer.weight, 0.2)
    layer.weight.grad = torch.ones_like(layer.weight)
    (found,) = equal_units(layer, {id(layer.weight)})
    assert found.dim == 1
    event = found.compared(layer, layer.weight, step=2, place=None, number=0, look=2, built=None)
    assert (event.units, event.steps) == (5, 3)
    assert event.value == pytest.approx(0.2)


def test_layers_that_receive_only_zeros() -> None:
    assert is_fed((torch.zeros(2),)) is False
    assert is_fed((torch.ones(2),)) is True
    assert is_fed(()) is None
