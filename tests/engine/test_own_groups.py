"""Parameter groups of the user's own: every parameter accounted for, rates and decay where they were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tests.engine.small import SMALL, ran
from trueloop.engine.optimizer import build_optimizer
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe

CPU = torch.device("cpu")


def net() -> nn.ModuleDict:
    return nn.ModuleDict({"body": nn.Linear(4, 3), "head": nn.Linear(3, 2)})


def built(groups: Any, model: nn.Module | None = None, **fields: Any) -> list[dict[str, Any]]:
    recipe = Recipe("x", model=net, data=str, groups=groups, epochs=1, **fields)
    return build_optimizer(recipe, model or net(), CPU).param_groups


def shapes(group: dict[str, Any]) -> list[list[int]]:
    return [list(each.shape) for each in group["params"]]


def test_decay_is_the_recipes_on_matrices_unless_a_group_says_otherwise() -> None:
    made = built(
        lambda model: [
            {"params": model["body"].parameters(), "lr_scale": 0.1, "name": "body"},
            {"params": model["head"].named_parameters(), "weight_decay": 0.5},
        ],
        weight_decay=0.01,
    )
    assert [(shapes(group), group["weight_decay"], group.get("lr_scale"), group["name"]) for group in made] == [
        ([[3, 4]], 0.01, 0.1, "body"),
        ([[3]], 0.0, 0.1, "body"),
        ([[2, 3], [2]], 0.5, None, "1"),
    ]


def test_options_of_the_optimizer_may_stand_in_a_group() -> None:
    made = built(lambda model: [{"params": model.parameters(), "betas": (0.5, 0.6)}])
    assert made[0]["betas"] == (0.5, 0.6)
    assert made[0]["weight_decay"] == 0.0


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (lambda model: [{"params": model["body"].parameters()}], "head.weight, head.bias are in no group"),
        (
            lambda model: [{"params": model.parameters()}, {"params": [model["head"].bias], "name": "b"}],
            "head.bias (groups 0 and b) is in two groups",
        ),
        (lambda model: [{"params": model.parameters(), "lr": 1e-4}], 'write "lr_scale": 0.1.'),
        (lambda model: [{"params": model.parameters(), "lr_scal": 1}], "'lr_scal'. Did you mean lr_scale?"),
        (lambda model: [{"params": model.parameters(), "lr_scale": -1}], "lr_scale=-1: it is a number that is 0 or"),
        (lambda model: [{"params": model}], "has a ModuleDict as its params: write"),
        (lambda _: [{"params": [3]}], "holds a int among its params"),
        (lambda _: [{"lr_scale": 3}], 'group 0 has no "params"'),
        (lambda _: [{"params": [torch.zeros(3)]}], "a tensor of shape [3] that is no parameter of the model"),
        (lambda model: model.parameters(), "it returned no list of dicts"),
        (lambda: [{}], "cannot be called: too many positional arguments"),
    ],
)
def test_mistakes_are_refused_by_name(groups: Any, said: str) -> None:
    with pytest.raises(BadRecipe) as raised:
        built(groups)
    assert said in str(raised.value)
    assert "Nothing was run" in str(raised.value)


def test_a_frozen_parameter_may_be_left_out_or_be_kept_for_later() -> None:
    model = net()
    model["body"].requires_grad_(False)
    assert len(built(lambda model: [{"params": model["head"].parameters()}], model)[0]["params"]) == 2
    assert len(built(lambda model: [{"params": model.parameters()}], model)[0]["params"]) == 4


def test_rates_follow_schedule_and_warm_up_and_are_logged_where_they_differ() -> None:
    def groups(model: nn.Module) -> list[dict[str, Any]]:
        first, *rest = model.parameters()
        return [{"params": [first], "lr_scale": 0.5, "name": "first"}, {"params": rest}]

    done = ran(replace(SMALL, groups=groups, schedule="linear", warmup=2, steps=6, epochs=None, lr=0.1))
    rows = [row.values for row in done.kept.rows if row.kind == "train"]
    assert [row["lr"] for row in rows] == pytest.approx([0.05, 0.1, 0.1, 0.075, 0.05, 0.025])
    assert [row["lr/first"] for row in rows] == [row["lr"] * 0.5 for row in rows]
    assert not any(name.startswith("lr/") and name != "lr/first" for row in rows for name in row)


def test_the_first_update_of_each_group_is_that_of_torchs_own_groups() -> None:
    """Against the same groups given to torch with rates of their own."""

    def groups(model: nn.Module) -> list[dict[str, Any]]:
        first, *rest = model.parameters()
        return [{"params": [first], "lr_scale": 0.5, "weight_decay": 0.3}, {"params": rest, "weight_decay": 0.0}]

    recipe = replace(SMALL, groups=groups, epochs=1, optimizer="sgd", lr=0.1)

    def theirs(parameters: list[dict[str, Any]], lr: float) -> torch.optim.Optimizer:
        plain = [{"params": group["params"], "weight_decay": group["weight_decay"]} for group in parameters]
        return torch.optim.SGD([{**plain[0], "lr_scale": 0.5}, plain[1]], lr=lr)

    ours, other = (
        ran(recipe),
        ran(replace(recipe, groups=None, optimizer=lambda parameters, lr: theirs(_two(parameters), lr))),
    )
    assert all(torch.equal(value, other.weights[name]) for name, value in ours.weights.items())
    assert not torch.equal(ours.weights["0.weight"], ran(replace(recipe, groups=None)).weights["0.weight"])


def _two(parameters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, *rest = [each for group in parameters for each in group["params"]]
    return [{"params": [first], "weight_decay": 0.3}, {"params": rest, "weight_decay": 0.0}]
