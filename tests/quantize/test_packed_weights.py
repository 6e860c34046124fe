"""A weight in fewer bits: how far it is from what it was, how many bytes it takes, and that every layer can still read
it."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.quantize.made import Bagged, Tied, bagged, tied
from trueloop.quantize.packed_weights import GROUP, Float8, Int4, Int8, PackedWeight, pack_weights
from trueloop.quantize.scheme import nbytes_of

SHAPES = [(4, 7), (3, 1), (2, 1, 1, 1), (3, 32), (5, 65), (8, 2, 3, 3), (6, 1, 5), (2, 3, 2, 2, 2)]


def _back(stored: PackedWeight, weight: torch.Tensor) -> torch.Tensor:
    back: torch.Tensor = stored(*stored.right_inverse(weight))
    return back


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_off_by_half_a_step_of_its_output_at_most(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    step = weight.flatten(1).abs().amax(1) / 127
    apart = (_back(Int8(weight.shape), weight) - weight).flatten(1).abs().amax(1)
    assert bool((apart <= step * 0.501).all())
    assert bool((apart > 0).any()) or weight[0].numel() == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_int4_is_off_by_half_a_step_of_its_group_at_most(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    back = _back(Int4(weight.shape), weight)
    assert back.shape == weight.shape
    for row, rounded in zip(weight.flatten(1), back.flatten(1), strict=True):
        for part, near in zip(row.split(GROUP), rounded.split(GROUP), strict=True):
            assert float((part - near).abs().max()) <= float(part.abs().max()) / 7 * 0.501


@pytest.mark.parametrize("shape", SHAPES)
def test_float8_is_off_by_a_sixteenth_of_each_number_at_most(shape: tuple[int, ...]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    back = _back(Float8(weight.shape), weight)
    smallest = weight.flatten(1).abs().amax(1).max() / 448 * 2**-6
    assert bool(((back - weight).abs() <= weight.abs() / 16 + smallest).all())


@pytest.mark.parametrize("way", [Int8, Int4, Float8])
def test_weights_that_are_all_zero_stay_zero(way: type[PackedWeight]) -> None:
    weight = torch.zeros(3, 40)
    assert torch.equal(_back(way(weight.shape), weight), weight)


def test_int4_takes_half_a_byte_and_a_scale_for_each_group() -> None:
    values, scale = Int4(torch.Size((8, 64))).right_inverse(torch.randn(8, 64))
    assert (values.dtype, tuple(values.shape), tuple(scale.shape)) == (torch.uint8, (8, 32), (8, 2))


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 5), row=st.integers(1, 70), seed=st.integers(0, 1000))
def test_int4_packs_and_unpacks_what_it_rounded(rows: int, row: int, seed: int) -> None:
    """Packed once more, a weight that is made of steps already is the same."""
    weight = torch.randn(rows, row, generator=torch.Generator().manual_seed(seed))
    stored = Int4(weight.shape)
    once = _back(stored, weight)
    assert torch.allclose(_back(stored, once), once, atol=1e-6)


# -- in a model --


def test_the_model_that_is_quantized_stays_as_it_is() -> None:
    model = Tied().eval()
    before = copy.deepcopy(model.state_dict())
    pack_weights(model, ["mix", "tokens"], Int8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_tied_layers_keep_one_weight_between_them() -> None:
    model = Tied().eval()
    made = pack_weights(model, ["tokens", "scores"], Int8)
    once = pack_weights(model, ["tokens"], Int8)
    tokens = torch.arange(10).reshape(1, 10)
    assert torch.equal(made.tokens(tokens), once.tokens(tokens))  # type: ignore[operator]
    saved = nbytes_of(model) - nbytes_of(made)
    assert saved == 200 * 32 * 4 - (200 * 32 + 200 * 4), "the vectors of 200 tokens, kept once"


def test_ties_outlive_a_copy() -> None:
    made = pack_weights(Tied().eval(), ["tokens", "scores"], Int8)
    assert nbytes_of(copy.deepcopy(made)) == nbytes_of(made)


def test_a_weight_that_is_read_without_a_call_is_found() -> None:
    model = Tied().eval()
    made = pack_weights(model, ["places", "tokens"], Int8)
    tokens = tied().fetch(torch.arange(5)).inputs
    with torch.no_grad():
        ours, theirs = model(tokens), made(tokens)
    assert 0 < float((theirs - ours).norm() / ours.norm()) < 0.02


@pytest.mark.parametrize("way", [Int8, Int4, Float8])
def test_rows_of_a_table_are_those_of_the_whole_weight(way: type[PackedWeight]) -> None:
    made = pack_weights(Tied().eval(), ["tokens"], way)
    numbers = torch.tensor([[3, 199, 0]])
    table = made.get_submodule("tokens")
    assert torch.equal(table(numbers), table.weight[numbers])  # type: ignore[index]


@pytest.mark.parametrize("way", [Int8, Float8])
def test_a_bag_adds_up_the_rows_that_it_is_given_by_their_shares(way: type[PackedWeight]) -> None:
    model = Bagged().eval()
    made = pack_weights(model, ["vectors"], way)
    tokens = bagged().fetch(torch.arange(9)).inputs
    with torch.no_grad():
        assert torch.allclose(made(tokens), model(tokens), atol=0.3)


def test_a_bag_of_one_long_row_with_offsets_is_taken_too() -> None:
    bag = nn.EmbeddingBag(20, 4, mode="mean")
    made = pack_weights(nn.Sequential(bag), ["0"], Int8)
    numbers, offsets = torch.tensor([1, 2, 3, 4]), torch.tensor([0, 1])
    with torch.no_grad():
        assert torch.allclose(made[0](numbers, offsets), bag(numbers, offsets), atol=0.1)  # type: ignore[index]


def test_a_quantized_weight_cannot_be_trained_by_mistake() -> None:
    made = pack_weights(nn.Sequential(nn.Linear(4, 4)), ["0"], Int8)
    assert not any(parameter.requires_grad for parameter in made.parameters())
