"""Which recipe, with which fields and data: the options of every verb that takes one."""

import argparse
import ast
from collections.abc import Iterable
from pathlib import Path

from trueloop.errors import Misuse, did_you_mean
from trueloop.recipe.overrides import apply_overrides
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import bundled, find_recipe

__all__ = ["add_recipe_options", "chosen_recipe", "is_recipe", "recipe_arguments", "settings_of", "unknown_recipe"]


def add_recipe_options(parser: argparse.ArgumentParser, *, positional: bool = True) -> None:
    """--set, --target, --data, --download; `positional`: RECIPE and TABLE too."""
    if positional:
        parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a bundled recipe, or your own file.py")
        parser.add_argument("table", nargs="?", metavar="TABLE", help="tabular: the CSV or Parquet file")
    group = parser.add_argument_group("recipe")
    group.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="change a field of the recipe; repeatable"
    )
    group.add_argument("--target", metavar="COLUMN", help="tabular: the column to predict")
    group.add_argument("--data", type=_folder, metavar="DIR", help="the folder with the data")
    group.add_argument("--download", action="store_true", help="download the data if they are missing")


def _folder(text: str) -> Path:
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: there is no such folder")
    return Path(text).absolute()


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """The values of --set, by name."""
    settings: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise Misuse(f"--set cannot be {text!r}: expected NAME=VALUE, as in --set lr=3e-4. Nothing was run.")
        if name in settings:
            raise Misuse(
                f"--set sets {name} twice: {settings[name]} and {value.strip()}. Nothing was run: set it once."
            )
        settings[name] = value.strip()
    return settings


def recipe_arguments(table: str | None, target: str | None) -> dict[str, str]:
    """For a recipe that is a function with parameters. The path is absolute: a resume may start elsewhere."""
    arguments = {}
    if table is not None:
        if "=" in table and not Path(table).exists():
            raise Misuse(
                f"{table!r} is not a table. Nothing was run: to set a field of the recipe, type --set {table}."
            )
        arguments["table"] = str(Path(table).absolute())
    return arguments | ({"target": target} if target else {})


def chosen_recipe(options: argparse.Namespace, words: list[str]) -> Recipe:
    """`words`: RECIPE, or tabular TABLE. Errors in the user's own file are the user's."""
    arguments = recipe_arguments(words[1] if len(words) > 1 else None, options.target)
    return apply_overrides(find_recipe(words[0], arguments), settings_of(options.set))


def unknown_recipe(word: str, what: str) -> Misuse:
    """`what`: everything that the word could have been."""
    hint = did_you_mean(word, bundled())
    return Misuse(f"{word!r} is not {what}.{hint} Nothing was run. Bundled recipes: {', '.join(bundled())}.")


def is_recipe(file: Path) -> bool:
    """Does a file of the user's define a `recipe`? It is parsed, not run."""
    if not file.is_file():
        raise Misuse(f"There is no file {file}. Nothing was run.")
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False  # Python itself reports it when the file is run
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if "recipe" in names or (isinstance(node, ast.FunctionDef) and node.name == "recipe"):
            return True
    return False
