"""The model of a recipe."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from trueloop.errors import BadRecipe
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

__all__ = ["build_model"]


def build_model(recipe: Recipe, facts: Any) -> nn.Module:
    """`recipe.model` is called with the facts of the data if it has a required parameter, else without."""
    required = [
        each
        for each in inspect.signature(recipe.model).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    built: nn.Module = call_own("model", "def model()", recipe.model, *([facts] if required else []))
    if not hasattr(built, "state_dict"):
        said = f"The recipe's model returned a {type(built).__name__}, not an nn.Module"
        raise BadRecipe(f"{said}. Nothing was run: return the module that `model` builds.")
    return built
