"""A run by its name, in every verb. A word that could be two things is one of them by a fixed rule, and the verb says
which: a path first, then a bundled recipe, then the name of a run in runs/."""

import argparse
import sys
from pathlib import Path
from typing import Any

from trueloop.cli.recipe_options import chosen_recipe, settings_of
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import bundled
from trueloop.recipes.origin import origin_of, recipe_of

__all__ = ["is_run", "named_run", "origin_of_run", "path_of_run", "recipe_or_run"]


def named_run(word: str, runs: Path = Path("runs")) -> Path | None:
    """For verbs that take a recipe or a run. None: the word is not a run."""
    if Path(word).is_dir():
        return Path(word)
    found = runs / word
    if Path(word).exists() or not (found / "run.json").is_file():
        return None
    if word in bundled():
        print(f"note: {word} is a bundled recipe, and it is used. For the run of that name: {found}", file=sys.stderr)
        return None
    print(f"note: {word} is the run {found}", file=sys.stderr)
    return found


def path_of_run(path: Path, runs: Path = Path("runs")) -> Path:
    """For verbs that take a run only: the path itself, or a run of that name."""
    return runs / path if not path.exists() and (runs / path / "run.json").is_file() else path


def is_run(word: str, runs: Path = Path("runs")) -> bool:
    return any((path / "run.json").is_file() for path in (Path(word), runs / word))


def recipe_or_run(options: argparse.Namespace, words: list[str], advice: str) -> tuple[Recipe, Path | None]:
    """What `words` name, with --set applied, and the folder with its data."""
    run = named_run(words[0])
    if run is None:
        return chosen_recipe(options, words), options.data
    origin, data = origin_of_run(run, advice)
    recipe = recipe_of({**origin, "settings": {**origin["settings"], **settings_of(options.set)}})
    return recipe, options.data or data


def origin_of_run(run: Path, advice: str) -> tuple[dict[str, Any], Path | None]:
    """The words for the recipe of a run, and the folder with its data."""
    from trueloop.session.folder import read_about

    about = read_about(run)
    return origin_of(run, about, advice), Path(about["data"]) if about.get("data") else None
