"""The model of a recipe."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from trueloop.engine.carry import attach_carry
from trueloop.errors import BadRecipe
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["build_model", "frozen_note"]


def build_model(recipe: Recipe, facts: Any) -> nn.Module:
    """`recipe.model` is called with the facts of the data if it has a required parameter, else without."""
    required = [
        each
        for each in inspect.signature(recipe.model).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    built: nn.Module = call_own("model", "def model()", recipe.model, *([facts] if required else []))
    if isinstance(built, Mapping) and not hasattr(built, "state_dict"):
        return _named(recipe, built)
    if not hasattr(built, "state_dict"):
        said = f"The recipe's model returned a {type(built).__name__}, not an nn.Module"
        raise BadRecipe(f"{said}. Nothing was run: return the module that `model` builds.")
    attach_carry(recipe, built)
    return built


def _named(recipe: Recipe, built: Mapping[str, Any]) -> nn.Module:
    if recipe.step is None:
        raise BadRecipe(
            f"The recipe's model returned {len(built)} models by name, and only a step of your own can train them. "
            "Nothing was run: give the recipe `step=`, or return one nn.Module."
        )
    wrong = next((f"{name} is a {type(each).__name__}" for name, each in built.items() if not _is_module(each)), "")
    if wrong or not built:
        raise BadRecipe(f"The recipe's model returned {wrong or 'no model'}, not an nn.Module. Nothing was run.")
    return nn.ModuleDict(built)


def _is_module(value: Any) -> bool:
    return isinstance(value, nn.Module)


def frozen_note(model: nn.Module) -> str:
    """For the start of a run that trains a part of its model, as with LoRA; empty: all of it is trained."""
    sizes = [(each.requires_grad, each.numel()) for each in model.parameters()]
    trained, total = sum(size for learns, size in sizes if learns), sum(size for _, size in sizes)
    if trained == total:
        return ""
    return f"model: {trained:,} parameters are trained, {total - trained:,} are frozen"
