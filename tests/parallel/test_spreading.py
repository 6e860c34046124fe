"""The pieces of spreading a run, each alone: which layers are split, what a state looks like in parts, when copies have
drifted apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from tests.engine.small import SMALL, ran
from tests.parallel.ranks import on_ranks
from trueloop.engine.schedule import lr_note, peak_lr
from trueloop.errors import BadRecipe
from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.parallel.choose import choose
from trueloop.parallel.digest import Drift, drift
from trueloop.parallel.gradient import norm_of
from trueloop.parallel.parts import (
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
from trueloop.parallel.peers import Alone, Group
from trueloop.parallel.sharded import Sharded
from trueloop.parallel.strategy import Single
from trueloop.parallel.tensor import plan_tensors
from trueloop.recipe.validate import find_problems, unused_fields

HOST = torch.device("cpu")


# -- which layers are split --


def mlp(*between: nn.Module, wide: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, wide), *between, nn.Linear(wide, 4))


def styles(model: nn.Module, ranks: int = 2) -> Mapping[str, str]:
    return plan_tensors(model, ranks, {}).styles


def test_a_pair_with_functions_of_single_numbers_between_is_split_by_columns_and_then_by_rows() -> None:
    assert styles(mlp(nn.GELU(), nn.Dropout(0.1))) == {"0": "column", "3": "row"}
    assert styles(mlp()) == {"0": "column", "1": "row"}


def test_pairs_are_made_from_the_first_layer_on_and_one_that_is_left_is_whole() -> None:
    three = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    plan = plan_tensors(three, 2, {})
    assert plan.styles == {"0": "column", "2": "row"}
    assert plan.left == ["4"]
    assert plan.account(2) == "2 of 3 linear layers split over 2 (0, 2); replicated: 4"


@pytest.mark.parametrize("between", [nn.LayerNorm(8), nn.Softmax(-1), nn.BatchNorm1d(8), nn.RReLU()])
def test_what_looks_at_several_numbers_or_draws_for_itself_parts_a_pair(between: nn.Module) -> None:
    with pytest.raises(BadRecipe, match="has no pair that 2 processes can share"):
        plan_tensors(mlp(between), 2, {})


def test_a_width_that_cannot_be_shared_evenly_is_told() -> None:
    with pytest.raises(BadRecipe, match="0 gives 8 numbers, which 3 processes cannot share evenly"):
        plan_tensors(mlp(nn.ReLU()), 3, {})


def test_a_weight_that_is_used_twice_is_left_alone() -> None:
    one, other = mlp(nn.ReLU(), wide=4), mlp(nn.Tanh(), wide=4)
    other[0].weight = one[2].weight
    model = nn.Sequential(one, other)
    with pytest.raises(BadRecipe):
        plan_tensors(model, 2, {})


def test_a_layer_that_somebody_listens_to_is_left_alone() -> None:
    model = mlp(nn.ReLU())
    model[0].register_forward_hook(print)
    with pytest.raises(BadRecipe):
        plan_tensors(model, 2, {})


class Own(nn.Sequential):
    """Calls its layers in an order of its own: nothing can be told of it."""


def test_only_torchs_own_sequential_is_known_to_call_its_layers_in_turn() -> None:
    with pytest.raises(BadRecipe):
        plan_tensors(Own(*mlp(nn.ReLU())), 2, {})


def test_dropouts_between_the_two_layers_of_a_pair_see_a_part_and_those_after_it_do_not() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 4), nn.Dropout(0.1))
    assert plan_tensors(model, 2, {}).between == ["1"]
    assert plan_tensors(model, 2, {"0": "column", "2": "row"}).between == ["1"]


# -- states in parts --


def on_a_mesh(rank: int) -> Any:
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("data",))
    full = torch.randn(5, 3)
    part = distribute_tensor(full, mesh, [Shard(0)])
    back = part_of(full, part)
    assert isinstance(back, DTensor)
    assert part_of("a word", part) == "a word"
    assert part_of(torch.zeros(()), part).shape == (), "a counter is everybody's"
    return (
        where(part),
        own(part).shape,
        bool(torch.equal(own(back), own(part))),
        bool(torch.equal(whole({"a": [part]})["a"][0], full)),
    )


def test_a_part_is_cut_out_of_the_whole_and_the_whole_put_together_from_parts() -> None:
    first, second = on_ranks(on_a_mesh)
    assert first == ((("data", 0),), (3, 3), True, True)
    assert second == ((("data", 1),), (2, 3), True, True)


def lengths(rank: int) -> Any:
    """A weight in parts, one that every process has whole, and one without a gradient."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("data",))
    gradients = [torch.randn(5, 3), torch.randn(4)]
    plain = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    split = [
        nn.Parameter(distribute_tensor(torch.zeros(5, 3), mesh, [Shard(0)])),
        nn.Parameter(torch.zeros(4)),
        nn.Parameter(torch.zeros(2)),
    ]
    for parameter, gradient in zip(plain, gradients, strict=True):
        parameter.grad = gradient
    split[0].grad, split[1].grad = distribute_tensor(gradients[0], mesh, [Shard(0)]), gradients[1].clone()
    before = float(norm_of_parts(split, HOST))
    clip_parts(split, torch.tensor(before), 0.5)
    return float(norm_of(plain)), before, float(norm_of_parts(split, HOST))


def test_the_length_of_a_gradient_in_parts_is_that_of_the_whole_and_each_part_counts_once() -> None:
    first, second = on_ranks(lengths)
    assert first == second, "the same bits on all, or they would not decide alike"
    assert first[1] == pytest.approx(first[0], rel=1e-6)
    assert first[2] == pytest.approx(0.5, rel=1e-5)


def groups_in_parts(rank: int) -> Any:
    """Two groups, the first of them of both kinds."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tensor",))
    split = [nn.Parameter(distribute_tensor(torch.full((4, 2), float(each)), mesh, [Shard(0)])) for each in range(2)]
    kept = [nn.Parameter(torch.full((2, 2), 5.0)), nn.Parameter(torch.full((3,), 7.0))]
    made = divided(
        [{"params": [split[0], kept[0], split[1]], "weight_decay": 0.1}, {"params": [kept[1]], "weight_decay": 0.0}]
    )
    optimizer = torch.optim.AdamW(made)
    for parameter in (*split, *kept):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = whole(optimizer.state_dict())
    one = in_one_form(state)
    shapes = {number: tuple(entry["exp_avg"].shape) for number, entry in sorted(one["state"].items())}
    back = divided_form(one, optimizer.state_dict()["param_groups"])
    same = all(torch.equal(back["state"][key]["exp_avg"], state["state"][key]["exp_avg"]) for key in state["state"])
    return (
        len(made),
        [group["params"] for group in one["param_groups"]],
        shapes,
        same,
        back["param_groups"] == state["param_groups"],
    )


def test_groups_are_divided_for_kernels_and_saved_as_if_they_were_not() -> None:
    count, numbers, shapes, same, groups = on_ranks(groups_in_parts)[0]
    assert count == 3
    assert numbers == [[0, 1, 2], [3]]
    assert shapes == {0: (4, 2), 1: (2, 2), 2: (4, 2), 3: (3,)}
    assert same
    assert groups


def test_groups_of_one_kind_stay_as_they_are() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(2))], "weight_decay": 0.1}]
    assert divided(groups) == groups
    assert in_one_form({"state": {}, "param_groups": [{"params": [0]}]}) == {
        "state": {},
        "param_groups": [{"params": [0]}],
    }


# -- the seam --


def test_alone_a_strategy_gives_back_what_it_is_given() -> None:
    single, model = Single(), nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    assert isinstance(choose(SMALL, HOST), Single)
    assert isinstance(single.peers, Alone)
    assert single.micros((1, 2), 3) == (1, 2)
    assert single.entrance(model, model) is model
    assert single.kind(model) is nn.Linear
    assert float(single.add_up([torch.tensor(1.0), torch.tensor(2.0)], [])) == 3.0
    single.load_model(model, {name: torch.ones_like(value) for name, value in single.model_state(model).items()})
    single.load_optimizer(optimizer, single.optimizer_state(optimizer))
    assert model.weight.sum().item() == 4.0
    assert (single.in_parts, single.copies, single.in_step, single.where(model.weight)) == (False, False, False, ())


def seats(rank: int) -> Any:
    """Who shares a batch with whom, of four processes of which two share a layer."""
    strategy = Sharded(Group(HOST), HOST, tensor_ranks=2)
    return (
        strategy.name,
        strategy.sharers.rank,
        strategy.sharers.world,
        strategy.sharers.sum(10**rank).item(),
        strategy.in_step,
        strategy.copies,
    )


def test_processes_that_share_a_layer_stand_for_one_where_a_batch_is_split() -> None:
    said = on_ranks(seats, 4)
    assert [each[1] for each in said] == [0, 0, 1, 1]
    assert {each[0] for each in said} == {"fsdp+tp"}
    assert [each[3] for each in said] == [101, 1010, 101, 1010]
    assert said[0][2:] == (2, 101, True, True)


# -- drifting apart --


def pushed(by: float, rank: int) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(100, 10)
    state = torch.get_rng_state()
    with torch.no_grad():
        model.weight.mul_(1 + by * (rank == 2))
    found = drift(model, choose(SMALL, HOST))
    assert torch.equal(torch.get_rng_state(), state), "it draws from nobody's state"
    return found


@pytest.mark.parametrize(("by", "apart"), [(0.0, False), (PARAMETER_DRIFT / 3, False), (PARAMETER_DRIFT * 3, True)])
def test_copies_that_differ_by_more_than_rounding_have_drifted_apart(by: float, apart: bool) -> None:
    found = on_ranks(lambda rank: pushed(by, rank), 3)
    assert found[0] == found[1] == found[2]
    if not apart:
        assert found[0] is None
        return
    assert found[0].parameter == "weight"
    assert found[0].ranks == ((0, 1), (2,))
    assert found[0].distance == pytest.approx(by, rel=0.6)


def test_a_drift_is_told_with_parameter_ranks_and_size() -> None:
    said = Drift("head.weight", ((0, 1, 3), (2,)), 0.012, others=4).sentence(1200)
    assert said.startswith(
        "PAR103 parameters-differ-across-ranks: after 1,200 steps, head.weight differs by 0.012 of its norm between "
        "ranks 0, 1, 3"
    )
    assert "and rank 2 (and 4 more do), though they exchange gradients" in said


# -- the learning rate of a larger batch --


@pytest.mark.parametrize(("rule", "times"), [("none", 1.0), ("linear", 4.0), ("sqrt", 2.0)])
def test_lr_follows_the_batch_as_asked(rule: Any, times: float) -> None:
    recipe = replace(SMALL, lr=0.01, batch=16, reference_batch=4, lr_scaling=rule, epochs=None, steps=2)
    assert peak_lr(recipe) == pytest.approx(0.01 * times)
    assert ran(recipe).kept.values("lr") == pytest.approx([0.01 * times] * 2)


def test_what_was_done_to_lr_is_said() -> None:
    recipe = replace(SMALL, lr=0.01, batch=16, reference_batch=4, lr_scaling="sqrt")
    assert lr_note(recipe) == "lr: 0.01 for a batch of 4 is 0.02 for 16 (lr_scaling=sqrt)"
    assert lr_note(SMALL) == ""


# -- what a recipe may ask --


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"parallel": "zero3"}, "Did you mean fsdp?"),
        (
            {"parallel": "fsdp", "program": "compiled_step"},
            "program=compiled_step cannot compile a model that parallel=fsdp splits",
        ),
        ({"parallel": "fsdp", "program": "cuda_graphs", "device": "cuda"}, "program=cuda_graphs trains in one process"),
        ({"parallel": "tp", "compile": "default"}, "set compile=off, or parallel=fsdp"),
        ({"parallel": "fsdp", "precision": "fp16", "device": "cuda"}, "set precision=bf16"),
        ({"parallel": "fsdp+tp", "tensor_ranks": 1}, "a layer is shared by at least 2"),
        ({"parallel": "hsdp", "shard_ranks": 1}, "a copy is held by at least 2"),
        ({"parallel": "hsdp", "precision": "fp16", "device": "cuda"}, "set precision=bf16"),
        ({"parallel": "ddp", "offload": True}, "offload=True is for parallel=fsdp and hsdp, not ddp"),
        (
            {"parallel": "tp", "tensor_plan": {"up": "columns"}},
            "set 'column' (its outputs), 'row' (its inputs) or 'qkv'",
        ),
        ({"lr_scaling": "linear"}, "needs the batch size that lr=0.01 is for: set reference_batch"),
        ({"lr_scaling": "linear", "reference_batch": 0}, "reference_batch is 0: it is at least 1"),
        ({"digest_every": -1}, "digest_every is -1"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_nonsense_is_refused_before_anything_runs(options: dict[str, Any], said: str) -> None:
    found = find_problems(replace(SMALL, **options))
    assert any(said in each for each in found), found


def test_every_way_is_accepted_and_what_does_nothing_is_said() -> None:
    for way in ("auto", "none", "ddp", "fsdp", "hsdp", "tp", "fsdp+tp"):
        assert not find_problems(replace(SMALL, parallel=way))
    said = unused_fields(
        replace(SMALL, tensor_ranks=4, reference_batch=8, tensor_plan={"up": "column"}, parallel="fsdp")
    )
    assert len(said) == 3
    assert not unused_fields(replace(SMALL, tensor_ranks=4, parallel="fsdp+tp"))
