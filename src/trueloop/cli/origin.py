"""From a run's folder back to the recipe that it was trained by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueloop.errors import Misuse, NotARun
from trueloop.recipe.overrides import amended
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.session.folder import read_about

__all__ = ["origin_of", "recipe_of"]


def origin_of(run: Path, otherwise: str) -> dict[str, Any]:
    """The words that the recipe was named by. `otherwise`: what to do about a run that was started from Python."""
    origin = read_about(run).get("origin")
    if origin is None:
        raise Misuse(f"{run} was started from Python. Nothing was run: {otherwise}")
    named = isinstance(origin, dict) and isinstance(origin.get("recipe"), str)
    if not named or not all(isinstance(origin.get(part), dict) for part in ("arguments", "settings")):
        raise NotARun(
            f"{run}/run.json is damaged: its origin does not name a recipe. Nothing was run; the checkpoints are untouched."
        )
    return dict(origin)


def recipe_of(origin: dict[str, Any]) -> Recipe:
    """What the user's own code raises there is theirs."""
    return amended(find_recipe(origin["recipe"], origin["arguments"]), origin["settings"])
