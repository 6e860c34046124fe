"""Layers that are split: what a plan says, what is refused, and that the split model is the same function, on a mesh of
one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate

from tests.parallel.one import world_of_one
from trueloop.errors import BadRecipe
from trueloop.parallel.tensor import (
    SINGLE_NUMBERS,
    TensorPlan,
    _divide_heads,
    _OwnHeads,
    _PartOfDropout,
    plan_tensors,
    split_layers,
)


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    with world_of_one():
        yield


class Block(nn.Module):
    """Not torch's own chain: nobody knows in which order it calls what."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.down(self.up(inputs).relu())
        return answer


# -- as found --


@given(st.lists(st.sampled_from(["linear", "act", "norm"]), min_size=1, max_size=10))
def test_between_the_two_layers_of_every_pair_that_is_found_there_are_only_functions_of_single_numbers(
    words: list[str],
) -> None:
    model = nn.Sequential(
        *({"linear": nn.Linear(4, 4), "act": nn.GELU(), "norm": nn.LayerNorm(4)}[word] for word in words)
    )
    try:
        plan = plan_tensors(model, 2, {})
    except BadRecipe:
        kept = [word for word in words if word != "act"]
        assert ["linear", "linear"] not in [kept[at : at + 2] for at in range(len(kept))]
        return
    places = sorted(map(int, plan.styles))
    assert [plan.styles[str(place)] for place in places] == ["column", "row"] * (len(places) // 2)
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert all(type(model[place]) in SINGLE_NUMBERS for place in range(first + 1, second))
    assert {*plan.styles, *plan.left} == {str(place) for place, word in enumerate(words) if word == "linear"}


def test_a_function_of_several_numbers_that_is_used_twice_parts_a_pair_each_time() -> None:
    """torch names a layer that stands in two places only once."""
    once_more = nn.Softmax(-1)
    model = nn.Sequential(once_more, nn.Linear(4, 8), nn.ReLU(), once_more, nn.Linear(8, 4))
    with pytest.raises(BadRecipe, match="has no pair that 2 processes can share"):
        plan_tensors(model, 2, {})


def test_an_activation_that_is_used_twice_parts_none() -> None:
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(4, 8), relu, nn.Linear(8, 4), relu, nn.Linear(4, 8), relu, nn.Linear(8, 2))
    assert plan_tensors(model, 2, {}).styles == {"0": "column", "2": "row", "4": "column", "6": "row"}


def test_a_dropout_that_is_also_used_where_numbers_are_whole_is_never_between() -> None:
    """It would draw for a part of the numbers in both places."""
    dropout = nn.Dropout(0.5)
    model = nn.Sequential(
        dropout, nn.Linear(4, 8), nn.ReLU(), dropout, nn.Linear(8, 4), nn.Linear(4, 8), nn.Linear(8, 4)
    )
    plan = plan_tensors(model, 2, {})
    assert plan.styles == {"4": "column", "5": "row"}, "the next pair begins after it"
    assert plan.between == []


def test_a_layer_that_stands_twice_in_a_chain_is_left_alone() -> None:
    twice = nn.Linear(8, 8)
    model = nn.Sequential(twice, nn.ReLU(), twice, nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    assert plan_tensors(model, 2, {}).styles == {"4": "column", "6": "row"}


def test_chains_inside_of_chains_have_pairs_of_their_own() -> None:
    inner = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    model = nn.Sequential(nn.Linear(4, 4), inner, nn.Linear(4, 4))
    plan = plan_tensors(model, 2, {})
    assert plan.styles == {"1.0": "column", "1.2": "row"}
    assert list(plan.left) == ["0", "2"]


def test_a_forward_of_its_own_makes_a_layer_a_stranger() -> None:
    relu = nn.ReLU()
    relu.forward = torch.cumsum  # type: ignore[assignment]
    with pytest.raises(BadRecipe):
        plan_tensors(nn.Sequential(nn.Linear(4, 8), relu, nn.Linear(8, 4)), 2, {})
    chain = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
    chain.forward = torch.cumsum  # type: ignore[assignment]
    with pytest.raises(BadRecipe):
        plan_tensors(chain, 2, {})


def test_after_a_width_that_cannot_be_shared_the_next_pair_is_looked_for() -> None:
    model = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 4))
    assert plan_tensors(model, 2, {}).styles == {"2": "column", "4": "row"}
    with pytest.raises(BadRecipe, match=r"\(0 gives 9 numbers, which 4 processes cannot share evenly\)"):
        plan_tensors(model, 4, {})


def test_where_nothing_can_be_split_the_words_to_write_are_given() -> None:
    with pytest.raises(
        BadRecipe,
        match=r"Block has no pair that 2 processes can share\. Nothing was run: .*tensor_plan=.*parallel=fsdp",
    ):
        plan_tensors(Block(), 2, {})


# -- as asked --


def test_a_pattern_names_every_layer_that_fits_it() -> None:
    model = nn.ModuleList([Block(), Block()])
    plan = plan_tensors(model, 2, {"*.up": "column", "*.down": "row"})
    assert plan.styles == {"0.up": "column", "1.up": "column", "0.down": "row", "1.down": "row"}
    assert list(plan.left) == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"middle": "column"},
            r"tensor_plan: no layer is called 'middle'\. Nothing was run: there are up, down\.",
        ),
        ({"": "column"}, "not an nn.Linear"),
        (
            {"up": "column", "down": "row"},
            "splits up by column, and that is 9 numbers, which 2 processes cannot share evenly",
        ),
        ({"down": "row"}, "splits down by row, and that is 9 numbers"),
    ],
)
def test_what_cannot_be_split_is_named(asked: dict[str, str], said: str) -> None:
    with pytest.raises(BadRecipe, match=said):
        plan_tensors(Block(9), 2, asked)


def test_a_fused_projection_has_three_equal_parts() -> None:
    with pytest.raises(BadRecipe, match="its 8 outputs are not three equal parts: queries, keys and values"):
        plan_tensors(nn.ModuleList([nn.Linear(4, 8)]), 2, {"0": "qkv"})
    with pytest.raises(BadRecipe, match="splits 0 by qkv, and that is 3 numbers, which 2 processes cannot share"):
        plan_tensors(nn.ModuleList([nn.Linear(4, 9)]), 2, {"0": "qkv"})
    assert plan_tensors(nn.ModuleList([nn.Linear(4, 12)]), 2, {"0": "qkv"}).styles == {"0": "qkv"}


class Attends(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.n_head, self.qkv = heads, nn.Linear(4, 12)


def test_the_heads_of_a_module_are_divided_or_the_refusal_says_so() -> None:
    model = nn.ModuleList([Attends(4)])
    _divide_heads(model, "0.qkv", 2)
    assert model[0].n_head == 2
    with pytest.raises(BadRecipe, match="2 processes cannot share 3 heads evenly"):
        _divide_heads(nn.ModuleList([Attends(3)]), "0.qkv", 2)


def test_the_parts_of_all_processes_are_the_heads_of_one() -> None:
    """Queries 0..3, keys 4..7, values 8..11: of two processes the second has the last two of each."""
    whole = DTensor.from_local(torch.arange(12.0)[None], init_device_mesh("cpu", (1,)), [Replicate()])
    parts = [_OwnHeads(rank, 2)(nn.Identity(), (), whole) for rank in range(2)]
    assert parts[1].tolist() == [[2.0, 3.0, 6.0, 7.0, 10.0, 11.0]]
    assert sorted(torch.cat(parts, -1)[0].tolist()) == list(range(12))


def test_of_many_layers_three_are_named() -> None:
    model = nn.ModuleList(nn.Linear(2, 2) for _ in range(5))
    with pytest.raises(BadRecipe, match="there are 0, 1, 2 and 2 more"):
        plan_tensors(model, 2, {"nobody": "row"})


def test_only_the_side_that_is_split_must_be_even() -> None:
    assert plan_tensors(nn.ModuleList([nn.Linear(3, 4)]), 2, {"0": "column"}).styles == {"0": "column"}
    assert plan_tensors(nn.ModuleList([nn.Linear(4, 3)]), 2, {"0": "row"}).styles == {"0": "row"}


def test_dropouts_are_between_only_after_columns_and_before_rows() -> None:
    model = nn.Sequential(
        nn.Dropout(), nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout()
    )
    plan = plan_tensors(model, 2, {"1": "column", "3": "row"})
    assert list(plan.between) == ["2"]
    assert list(plan.left) == ["5"]


# -- in words --


@pytest.mark.parametrize(
    ("styles", "left", "said"),
    [
        (["a", "b"], [], "2 of 2 linear layers split over 4 (a, b)"),
        (["a", "b"], ["head"], "2 of 3 linear layers split over 4 (a, b); replicated: head"),
        (
            ["a", "b", "c", "d"],
            ["1", "2", "3", "4", "5"],
            "4 of 9 linear layers split over 4 (a, b, c and 1 more); replicated: 1, 2, 3",
        ),
    ],
)
def test_a_plan_says_what_it_splits(styles: list[str], left: list[str], said: str) -> None:
    assert TensorPlan(dict.fromkeys(styles, "column"), [], left).account(4).startswith(said)


# -- done --


@pytest.mark.parametrize("apart", [False, True])
def test_a_split_model_is_the_same_function_with_the_same_gradients(apart: bool) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(5, 4)
    plain, split = Block(), Block()
    split.load_state_dict(plain.state_dict())
    split_layers(
        split, plan_tensors(split, 1, {"up": "column", "down": "row"}), init_device_mesh("cpu", (1,)), apart=apart
    )
    assert isinstance(split.up.weight, DTensor)
    answers = plain(inputs), split(inputs)
    assert torch.equal(*answers)
    for answer in answers:
        answer.square().sum().backward()
    assert plain.up.weight.grad is not None
    assert isinstance(split.up.weight.grad, DTensor)
    assert torch.allclose(split.up.weight.grad.full_tensor(), plain.up.weight.grad)


def test_answers_that_are_changed_in_place_are_of_their_own_memory_where_that_is_asked_for() -> None:
    handed: list[Tensor] = []
    model = Block()
    split_layers(
        model, plan_tensors(model, 1, {"up": "column", "down": "row"}), init_device_mesh("cpu", (1,)), apart=True
    )
    model.down.register_forward_hook(lambda _, __, answer: handed.append(answer))
    answer = model(torch.ones(2, 4))
    assert handed[0] is answer
    assert answer._base is None
    assert len(model.up._forward_hooks) == len(Block().up._forward_hooks) + 1, (
        "only what parallelize_module itself needs"
    )


@given(ranks=st.integers(1, 5), width=st.integers(1, 6), rows=st.integers(1, 4), share=st.floats(0.05, 0.95))
@settings(max_examples=60)
def test_the_parts_of_a_dropout_are_together_what_one_process_would_draw(
    ranks: int, width: int, rows: int, share: float
) -> None:
    dropout = nn.Dropout(share)
    inputs = torch.ones(rows, width * ranks)
    torch.manual_seed(7)
    expected = dropout(inputs)
    parts = []
    for rank, part in enumerate(inputs.chunk(ranks, -1)):
        torch.manual_seed(7)
        parts.append(_PartOfDropout(dropout, rank, ranks)(part))
    assert torch.equal(torch.cat(parts, -1), expected)


def test_a_dropout_that_drops_nothing_draws_nothing() -> None:
    inputs = torch.ones(3, 4)
    before = torch.get_rng_state()
    assert _PartOfDropout(nn.Dropout(0.0), 0, 2)(inputs) is inputs
    assert _PartOfDropout(nn.Dropout(0.5).eval(), 0, 2)(inputs) is inputs
    assert torch.equal(torch.get_rng_state(), before)


def test_a_dropout_between_is_told_its_place_and_ends_with_its_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
    split_layers(model, plan_tensors(model, 1, {}), init_device_mesh("cpu", (1,)))
    part = model[1].forward
    assert isinstance(part, _PartOfDropout)
    assert (part.rank, part.ranks) == (0, 1)
    model.eval()
    assert torch.equal(model(torch.ones(1, 4)), model(torch.ones(1, 4)))
