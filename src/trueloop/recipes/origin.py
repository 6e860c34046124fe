"""The recipe of a run, built again from the words in its run.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueloop.errors import Misuse, NotARun
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.trust.recipes import MADE_HERE, check_recipe

__all__ = ["origin_of", "recipe_of"]


def origin_of(run: Path, about: Mapping[str, Any], otherwise: str, instead: str = "") -> dict[str, Any]:
    """Recipe, arguments and settings of a run. `about`: run.json; `otherwise`: advice for a run started from Python.
    `instead`: the file that the user names. Raises Misuse if the recipe is a stranger's file."""
    if about.get("session"):
        said = f"{run} is a run of trueloop.session, which has no recipe"
        raise Misuse(f"{said}. Nothing was run: start its script again to continue it; in Python, trueloop.load(...).")
    origin = about.get("origin")
    if origin is None:
        raise Misuse(f"{run} was started from Python. Nothing was run: {otherwise}")
    named = isinstance(origin, dict) and isinstance(origin.get("recipe"), str)
    if not named or not all(isinstance(origin.get(part), dict) for part in ("arguments", "settings")):
        raise NotARun(f"{run}/run.json is damaged: it names no recipe. Nothing was run; the checkpoints are untouched.")
    if instead:
        return {**origin, "recipe": instead}
    check_recipe(run, origin, about.get(MADE_HERE))
    return dict(origin)


def recipe_of(origin: Mapping[str, Any]) -> Recipe:
    """Errors of the user's own recipe file pass through."""
    return find_recipe(origin["recipe"], origin["arguments"], origin["settings"])
