"""The model of a recipe."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

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
    built: nn.Module = recipe.model(facts) if required else recipe.model()
    return built
