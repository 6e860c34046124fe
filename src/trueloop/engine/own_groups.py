"""Parameter groups of the user's own: layer-wise learning rates, lists without weight decay.

    groups=lambda model: [
        {"params": model.backbone.parameters(), "lr_scale": 0.1, "name": "backbone"},
        {"params": model.head.parameters()},
    ]

A typo in a group would be silent in torch: an optimizer accepts any key, and never learns of a parameter that no group
holds. Here every parameter is accounted for, by name.
"""

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["LABEL", "keep_options", "own_groups", "rates_by_name"]

LABEL: Final = "name"  # The key that names a group in rows of metrics
OURS: Final = ("params", "lr_scale", "weight_decay", LABEL)
MOST: Final = 4  # parameters that a message names


def own_groups(recipe: Recipe, model: nn.Module, kind: type[Optimizer] | None) -> list[dict[str, Any]]:
    """`kind`: the optimizer's class; None: the user builds it, and knows its options. Raises BadRecipe."""
    assert recipe.groups is not None
    given = call_own("groups", "def groups(model)", recipe.groups, model)
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, Mapping) for each in given):
        raise _refusal('it returned no list of dicts: write [{"params": ..., "lr_scale": 0.1}, ...]')
    groups = [_group(number, each, recipe, kind) for number, each in enumerate(given)]
    _account(groups, model)
    if recipe.program != "eager":  # its steps are recorded with the parameters that learn from the beginning
        for group in groups:
            group["params"] = [each for each in group["params"] if each.requires_grad]
    return [part for group in groups for part in _by_decay(group, recipe.weight_decay) if part["params"]]


def _group(number: int, given: Mapping[str, Any], recipe: Recipe, kind: type[Optimizer] | None) -> dict[str, Any]:
    which = f"group {given.get(LABEL, number)}"
    if "params" not in given:
        raise _refusal(f'{which} has no "params"')
    if "lr" in given:
        scale = f'"lr_scale": {given["lr"] / recipe.lr:g}' if _is_number(given["lr"]) else '"lr_scale"'
        raise _refusal(f"{which} has an lr, but a group's learning rate is a share of the recipe's: write {scale}")
    known = [*OURS, *(inspect.signature(kind).parameters if kind else given)]
    for key in given:
        if key not in known:
            raise _refusal(f"{which} has an unknown option {key!r}.{did_you_mean(str(key), known)}")
    for key in ("lr_scale", "weight_decay"):
        if key in given and not (_is_number(given[key]) and given[key] >= 0):
            raise _refusal(f"{which} has {key}={given[key]!r}: it is a number that is 0 or more")
    return {LABEL: str(number), **given, "params": list(_parameters(given["params"], which))}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _parameters(given: Any, which: str) -> Iterator[Tensor]:
    """A parameter, several, or pairs as `named_parameters()` gives them."""
    if isinstance(given, nn.Module):
        raise _refusal(f'{which} has a {type(given).__name__} as its params: write "params": MODULE.parameters()')
    if isinstance(given, Tensor) or not isinstance(given, Iterable):
        given = [given]
    for each in given:
        tensor = each[1] if isinstance(each, tuple) and len(each) == 2 else each
        if not isinstance(tensor, Tensor):
            raise _refusal(f"{which} holds a {type(tensor).__name__} among its params, not a parameter")
        yield tensor


def _account(groups: list[dict[str, Any]], model: nn.Module) -> None:
    """Every parameter that learns is in one group."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    holders: dict[int, list[str]] = {}
    for group in groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                shape = list(parameter.shape)
                raise _refusal(
                    f"group {group[LABEL]} holds a tensor of shape {shape} that is no parameter of the model"
                )
            holders.setdefault(id(parameter), []).append(group[LABEL])
    twice = [f"{names[key]} (groups {' and '.join(held)})" for key, held in holders.items() if len(held) > 1]
    if twice:
        raise _refusal(f"{_listed(twice)} {'is' if len(twice) == 1 else 'are'} in two groups: list each parameter once")
    learning = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    held = {names[key] for key in holders}
    missing = [name for name in learning if name not in held]
    if missing:
        freeze = "add them to a group, or freeze them with requires_grad_(False) in `model`"
        raise _refusal(f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} in no group: {freeze}")


def _by_decay(group: dict[str, Any], weight_decay: float) -> Iterator[dict[str, Any]]:
    """A group that says nothing about weight decay has the recipe's: on parameters of two and more dimensions."""
    if "weight_decay" in group or not weight_decay:
        yield {"weight_decay": 0.0, **group}
        return
    for wide, decay in ((True, weight_decay), (False, 0.0)):
        yield {
            **group,
            "params": [each for each in group["params"] if (each.dim() >= 2) is wide],
            "weight_decay": decay,
        }


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{', '.join(names[:MOST])}{more}"


def _refusal(said: str) -> BadRecipe:
    return BadRecipe(f"The recipe's groups cannot be used: {said}{'' if said.endswith('?') else '.'} Nothing was run.")


def rates_by_name(optimizer: Optimizer) -> dict[str, float]:
    """`lr`, and `lr/NAME` of groups that differ from it. `lr`: of a group without an lr_scale, if there is one."""
    groups = optimizer.param_groups
    main = next((group for group in groups if group.get("lr_scale", 1.0) == 1.0), groups[0])
    rate = float(main["lr"])
    others = {f"lr/{group[LABEL]}": float(group["lr"]) for group in groups if LABEL in group}
    return {"lr": rate, **{name: other for name, other in others.items() if other != rate}}


def keep_options(optimizer: Optimizer, recipe: Recipe) -> list[dict[str, Any]]:
    """What the recipe sets in each group. A loaded state would bring back what the checkpoint was written with."""
    if recipe.step is not None:
        return [{} for _ in optimizer.param_groups]  # the user's optimizers, whose schedulers may change any option
    names = ("lr_scale", "weight_decay", "momentum", "betas", LABEL, *recipe.optimizer_options)
    return [{name: group[name] for name in names if name in group} for group in optimizer.param_groups]
