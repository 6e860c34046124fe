"""The optimizer of a recipe: which class, which options, which parameters decay, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tests.engine.small import SMALL, plain
from trueloop.engine.optimizer import build_optimizer, optimizer_class, optimizer_problems, parameter_groups
from trueloop.errors import BadRecipe

CPU = torch.device("cpu")


def built(model: nn.Module | None = None, **values: Any) -> torch.optim.Optimizer:
    return build_optimizer(replace(SMALL, **values), model or plain(), CPU)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("momentum", torch.optim.SGD),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("AdamW", torch.optim.AdamW),
        ("rmsprop", torch.optim.RMSprop),
        ("RMSprop", torch.optim.RMSprop),
        ("Adagrad", torch.optim.Adagrad),
        ("nadam", torch.optim.NAdam),
        ("adafactor", torch.optim.Adafactor),
    ],
)
def test_any_class_of_torch_is_found_by_its_name_and_steps(name: str, kind: type) -> None:
    model = plain()
    optimizer = built(model, optimizer=name)
    assert type(optimizer) is kind
    before = [weight.detach().clone() for weight in model.parameters()]
    model(torch.randn(4, 6)).square().mean().backward()
    optimizer.step()
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_momentum_is_for_momentum_and_betas_are_for_adam() -> None:
    assert built(optimizer="momentum", momentum=0.7).defaults["momentum"] == 0.7
    assert built(optimizer="sgd", momentum=0.7).defaults["momentum"] == 0
    assert built(optimizer="adamw", betas=(0.5, 0.6)).defaults["betas"] == (0.5, 0.6)


def test_options_reach_the_class() -> None:
    optimizer = built(optimizer="momentum", optimizer_options={"nesterov": True})
    assert optimizer.defaults["nesterov"] is True


def test_it_is_fused_unless_asked_otherwise() -> None:
    assert built(optimizer="adamw").defaults["fused"] is True
    assert built(optimizer="adamw", optimizer_options={"fused": False}).defaults["fused"] is False
    assert not built(optimizer="adamw", optimizer_options={"foreach": True}).defaults["fused"]


def test_a_callable_gets_groups_rate_and_options() -> None:
    optimizer = built(optimizer=torch.optim.SGD, lr=0.5, weight_decay=0.1, optimizer_options={"momentum": 0.3})
    assert type(optimizer) is torch.optim.SGD
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]
    assert optimizer.defaults["momentum"] == 0.3


# -- weight decay --


def test_matrices_decay_and_vectors_do_not() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 2), nn.LayerNorm(2))
    decaying, resting = parameter_groups(model, 0.1)
    assert (decaying["weight_decay"], resting["weight_decay"]) == (0.1, 0.0)
    assert all(weight.dim() >= 2 for weight in decaying["params"])
    assert all(weight.dim() < 2 for weight in resting["params"])
    assert len(decaying["params"]) + len(resting["params"]) == len(list(model.parameters()))


def test_no_weight_decay_means_none_also_where_torchs_default_has_some() -> None:
    assert torch.optim.AdamW([nn.Parameter(torch.ones(1))]).defaults["weight_decay"] > 0
    assert [group["weight_decay"] for group in built(optimizer="adamw", weight_decay=0.0).param_groups] == [0.0]


def test_frozen_parameters_are_left_out_and_shared_ones_counted_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].weight.requires_grad_(False)
    model[1].bias = model[0].bias
    assert sum(len(group["params"]) for group in parameter_groups(model, 0.1)) == 2


# -- refusals --


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"optimizer": "adamm"}, "there is no optimizer 'adamm'. Did you mean adam?"),
        ({"optimizer": "Optimizer"}, "there is no optimizer 'Optimizer'"),
        ({"optimizer": "lbfgs"}, "optimizer LBFGS cannot be used: it computes the loss several times"),
        ({"optimizer": "SparseAdam"}, "it takes sparse gradients only"),
        (
            {"optimizer_options": {"nestrov": True}, "optimizer": "sgd"},
            "SGD takes no 'nestrov'. Did you mean nesterov?",
        ),
        (
            {"optimizer_options": {"lr": 1.0}},
            "lr is a field of the recipe, not an option of its optimizer: give lr=1.0 there",
        ),
        ({"optimizer_options": {"weight_decay": 1.0}}, "weight_decay is a field of the recipe"),
        ({"optimizer_options": {"betas": (0.1, 0.2)}}, "betas is a field of the recipe"),
        ({"optimizer": "rprop", "weight_decay": 0.1}, "Rprop has no weight decay: give weight_decay=0"),
    ],
)
def test_what_torch_would_not_take_is_told_without_a_model(values: dict[str, Any], said: str) -> None:
    (mistake,) = optimizer_problems(replace(SMALL, **values))
    assert said in mistake
    with pytest.raises(BadRecipe, match="Nothing was run"):
        built(**values)


def test_several_mistakes_are_told_at_once() -> None:
    assert len(optimizer_problems(replace(SMALL, optimizer="sgd", optimizer_options={"a": 1, "b": 2, "lr": 3}))) == 3


def test_a_good_optimizer_has_no_mistakes() -> None:
    assert optimizer_problems(SMALL) == []
    assert optimizer_problems(replace(SMALL, optimizer=torch.optim.SGD)) == []


def test_the_names_that_are_offered_can_all_be_used() -> None:
    with pytest.raises(BadRecipe) as raised:
        optimizer_class("nothing-like-it")
    for name in str(raised.value).partition("There are: ")[2].split(", "):
        assert issubclass(optimizer_class(name), torch.optim.Optimizer)


def test_values_that_the_class_refuses_are_told_in_its_words() -> None:
    with pytest.raises(BadRecipe, match="Adam refuses these parameters or options: Invalid epsilon value: -1"):
        built(optimizer="adam", optimizer_options={"eps": -1})


def test_a_model_with_nothing_to_learn_is_refused() -> None:
    with pytest.raises(BadRecipe, match="Sequential has no trainable parameter"):
        built(plain().requires_grad_(False))


def test_a_lazy_layer_is_refused() -> None:
    with pytest.raises(BadRecipe, match=r"0\.weight of Sequential has no shape yet"):
        built(nn.Sequential(nn.LazyLinear(3)))


def test_a_callable_that_makes_no_optimizer_is_refused() -> None:
    with pytest.raises(BadRecipe, match="returned a list, not an Optimizer"):
        built(optimizer=lambda *_, **__: [])
