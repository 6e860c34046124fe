"""Parts of tensors, seen by one process that holds the only part: nothing is lost on the way there and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from tests.parallel.one import world_of_one
from trueloop.parallel.gradient import norm_of
from trueloop.parallel.parts import (
    PART,
    PLACES,
    clip_parts,
    divided,
    divided_form,
    in_one_form,
    norm_of_parts,
    own,
    part_of,
    where,
    whole,
)

HOST = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    with world_of_one():
        yield


def mesh(*names: str) -> DeviceMesh:
    return init_device_mesh("cpu", (1,) * len(names), mesh_dim_names=names)


def split(tensor: Tensor, over: DeviceMesh | None = None, *placements: Any) -> DTensor:
    return distribute_tensor(tensor, over or mesh("data"), placements or [Shard(0)])


# -- one tensor --


def test_what_is_no_tensor_in_parts_is_held_whole() -> None:
    plain = torch.arange(3.0)
    assert own(plain) is plain
    assert where(plain) == ()
    assert where(nn.Parameter(plain)) == ()


def test_what_a_process_holds_lies_in_the_same_memory() -> None:
    parted = split(torch.zeros(3, 2))
    own(parted).fill_(7.0)
    assert whole(parted).tolist() == [[7.0, 7.0]] * 3


def test_where_names_only_the_dimensions_over_which_it_is_split() -> None:
    both = mesh("data", "tensor")
    full = torch.zeros(4, 2)
    assert where(split(full, both, Shard(0), Replicate())) == (("data", 0),)
    assert where(split(full, both, Replicate(), Shard(1))) == (("tensor", 0),)
    assert where(split(full, both, Shard(0), Shard(1))) == (("data", 0), ("tensor", 0))
    assert where(split(full, both, Replicate(), Replicate())) == ()


def test_a_mesh_without_names_is_told_by_its_numbers() -> None:
    assert where(distribute_tensor(torch.zeros(2), init_device_mesh("cpu", (1,)), [Shard(0)])) == (("0", 0),)


def test_a_whole_is_made_of_parts_however_deep_they_lie_and_the_rest_stays() -> None:
    full = torch.arange(4.0)
    said = whole({"a": [split(full), "word"], "b": (split(full), 3), "c": {"d": None}})
    assert type(said["a"][0]) is Tensor
    assert torch.equal(said["a"][0], full)
    assert torch.equal(said["b"][0], full)
    assert (said["a"][1], said["b"][1], said["c"]) == ("word", 3, {"d": None})
    assert isinstance(said["b"], tuple)
    assert whole(full) is full


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_part_keeps_the_type_of_the_value_and_the_layout_of_the_other(dtype: torch.dtype) -> None:
    like, value = nn.Parameter(split(torch.zeros(5, 3))), torch.arange(15).reshape(5, 3).to(dtype)
    made = part_of(value, like)
    assert isinstance(made, DTensor)
    assert made.placements == (Shard(0),)
    assert made.dtype == dtype
    assert not made.requires_grad
    assert torch.equal(whole(made), value)
    assert made.to_local().data_ptr() != value.data_ptr(), "who trains on must not write into what was read"


@pytest.mark.parametrize("value", [torch.tensor(3.0), torch.zeros(3, 5), 7, "word", None, [1.0]])
def test_what_is_not_of_the_shape_is_everybodys(value: Any) -> None:
    assert part_of(value, split(torch.zeros(5, 3))) is value


def test_of_a_plain_tensor_all_is_the_part() -> None:
    value = torch.ones(2)
    assert part_of(value, torch.zeros(2)) is value
    assert part_of(value, None) is value


# -- gradients --


def graded(*gradients: Tensor | None) -> list[nn.Parameter]:
    parameters = []
    for gradient in gradients:
        like = torch.zeros(2) if gradient is None else torch.zeros_like(gradient)
        parameter = nn.Parameter(like)
        parameter.grad = gradient
        parameters.append(parameter)
    return parameters


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(0, 15),
)
@settings(max_examples=40)
def test_the_length_does_not_depend_on_which_gradients_are_in_parts(rows: list[list[float]], chosen: int) -> None:
    plain = graded(*(torch.tensor(row) for row in rows))
    parts = graded(
        *(split(torch.tensor(row)) if chosen >> place & 1 else torch.tensor(row) for place, row in enumerate(rows))
    )
    found = norm_of_parts(parts, HOST)
    assert float(found) == pytest.approx(float(norm_of(plain)), rel=1e-5, abs=1e-30)
    assert (found.dtype, found.shape) == (torch.float32, ())


def test_where_there_is_no_gradient_the_length_is_nothing() -> None:
    assert float(norm_of_parts([], HOST)) == 0.0
    assert float(norm_of_parts(graded(None, None), HOST)) == 0.0
    clip_parts(graded(None), torch.tensor(0.0), 1.0)


def test_a_length_that_is_no_number_stays_none() -> None:
    assert norm_of_parts(graded(split(torch.tensor([1.0, torch.nan]))), HOST).isnan()
    assert norm_of_parts(graded(split(torch.tensor([1.0, torch.inf]))), HOST).isinf()


def test_squares_that_single_precision_cannot_hold_are_added_up_all_the_same() -> None:
    many = graded(*(split(torch.full((1,), 1e19)) for _ in range(4)), torch.full((1,), 1e19))
    assert float(norm_of_parts(many, HOST)) == pytest.approx(1e19 * 5**0.5, rel=1e-6)


def test_clipping_shortens_the_parts_in_their_own_memory_and_leaves_short_ones() -> None:
    first, second = graded(split(torch.tensor([3.0, 0.0])), torch.tensor([4.0]))
    norm = norm_of_parts([first, second], HOST)
    clip_parts([first, second], norm, 10.0)
    assert own(first.grad).tolist() == [3.0, 0.0]  # type: ignore[arg-type]
    clip_parts([first, second], norm, 1.0)
    assert own(first.grad).tolist() == pytest.approx([0.6, 0.0], rel=1e-5)  # type: ignore[arg-type]
    assert second.grad is not None
    assert second.grad.tolist() == pytest.approx([0.8], rel=1e-5)


# -- an optimizer's groups --

Layout = Sequence[Sequence[int]]
"""For each group, for each of its parameters: 0 whole, 1 or 2 in parts over one of two meshes."""

layouts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=3)


def laid_out(layout: Layout) -> list[dict[str, Any]]:
    meshes = mesh("data"), mesh("tensor")
    full = torch.zeros(2)
    return [
        {
            "params": [nn.Parameter(split(full, meshes[kind - 1]) if kind else full.clone()) for kind in kinds],
            "weight_decay": number / 8,
        }
        for number, kinds in enumerate(layout)
    ]


def stepped(groups: list[dict[str, Any]], parameters: Sequence[nn.Parameter]) -> torch.optim.SGD:
    """With a state for every parameter but the first, which tells whose it is."""
    optimizer = torch.optim.SGD(groups, lr=0.1)
    for number, parameter in list(enumerate(parameters))[1:]:
        optimizer.state[parameter]["momentum_buffer"] = number
    return optimizer


@given(layouts)
@settings(max_examples=60)
def test_a_state_is_saved_as_if_the_groups_had_never_been_divided(layout: Layout) -> None:
    groups = laid_out(layout)
    parameters = [parameter for group in groups for parameter in group["params"]]
    expected = stepped([dict(group) for group in groups], parameters).state_dict()
    split_up = stepped(divided(groups), parameters)
    state = split_up.state_dict()
    assert in_one_form(state) == expected
    assert divided_form(in_one_form(state), state["param_groups"]) == state


@given(layouts)
@settings(max_examples=60)
def test_divided_groups_are_each_of_one_kind_and_hold_every_parameter_once(layout: Layout) -> None:
    groups = laid_out(layout)
    made = divided(groups)
    for group in made:
        assert len({each.device_mesh if isinstance(each, DTensor) else None for each in group["params"]}) == 1
    assert sorted(id(each) for group in made for each in group["params"]) == sorted(
        id(each) for group in groups for each in group["params"]
    )
    assert len(made) == sum(len(set(kinds)) for kinds in layout)
    assert any(PART in group for group in made) == any(len(set(kinds)) > 1 for kinds in layout)


@given(layouts)
@settings(max_examples=30)
def test_a_divided_group_keeps_the_options_of_the_one_it_comes_from(layout: Layout) -> None:
    for group in divided(laid_out(layout)):
        if PART in group:
            assert group["weight_decay"] == group[PART] / 8
            assert len(group[PLACES]) == len(group["params"])


def test_options_that_were_changed_since_come_back_from_the_state_and_the_places_from_the_optimizer() -> None:
    groups = divided(laid_out([[0, 1]]))
    state = stepped(groups, [each for group in groups for each in group["params"]]).state_dict()
    one = in_one_form(state)
    one["param_groups"][0]["lr"] = 0.5
    back = divided_form(one, state["param_groups"])
    assert [group["lr"] for group in back["param_groups"]] == [0.5, 0.5]
    assert [group["params"] for group in back["param_groups"]] == [[0], [1]]


def test_a_state_of_undivided_groups_is_handed_on_as_it_is() -> None:
    state = {"state": {0: {"step": 3}}, "param_groups": [{"params": [0, 1], "lr": 0.1}]}
    assert in_one_form(state) == state
    assert divided_form(state, state["param_groups"]) == state  # type: ignore[arg-type]


def test_a_group_without_parameters_stays_a_group() -> None:
    assert divided([{"params": [], "lr": 1.0}]) == [{"params": [], "lr": 1.0}]


def test_a_state_that_is_no_mapping_of_tensors_is_left_alone() -> None:
    assert whole(5) == 5
    assert whole([]) == []
    assert whole(()) == ()
