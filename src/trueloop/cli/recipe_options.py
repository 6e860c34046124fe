"""Which recipe, with which fields and data: the options of every verb that takes one, and a recipe on one page."""

import argparse
import ast
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trueloop.errors import Misuse, did_you_mean
from trueloop.recipe.recipe import GROUPS, Recipe, defaults, describe, field_docs, field_types
from trueloop.recipe.validate import find_problems, unused_fields
from trueloop.recipes.catalogue import bundled, find_recipe, summaries

__all__ = ["add_recipe_options", "chosen_recipe", "help_page", "is_recipe", "recipe_arguments", "recipe_as_json"]
__all__ += ["recipe_as_text", "recipe_list", "settings_of", "unknown_recipe"]

OFTEN: Final = ("lr", "epochs", "steps", "batch", "accumulate", "optimizer", "schedule", "precision", "device", "seed")
"""The fields that people set most."""
WIDE: Final = 140  # Columns of --show in a pipe or a file
NARROW: Final = 80  # Columns of help
VALUE: Final = 28  # Columns for a value and its mark; a longer value moves the meaning to the next line


def add_recipe_options(parser: argparse.ArgumentParser, *, positional: bool = True) -> None:
    """--set, --target, --data, --download; `positional`: RECIPE and TABLE too."""
    if positional:
        parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a bundled recipe, or your own file.py")
        parser.add_argument("table", nargs="?", metavar="TABLE", help="tabular: the CSV or Parquet file")
    group = parser.add_argument_group("recipe")
    group.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set a field; repeatable")
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
            raise Misuse(f"--set sets {name} twice: {settings[name]} and {value.strip()}. Nothing was run: set one.")
        settings[name] = value.strip()
    return settings


def recipe_arguments(table: str | None, target: str | None) -> dict[str, str]:
    """For a recipe that is a function with parameters. The path is absolute: a resume may start elsewhere."""
    arguments = {}
    if table is not None:
        if "=" in table and not Path(table).exists():
            raise Misuse(f"{table!r} is not a table. Nothing was run: to set a field of a recipe, type --set {table}.")
        arguments["table"] = str(Path(table).absolute())
    return arguments | ({"target": target} if target else {})


def chosen_recipe(options: argparse.Namespace, words: list[str]) -> Recipe:
    """`words`: RECIPE, or tabular TABLE. Errors in the user's own file are the user's."""
    arguments = recipe_arguments(words[1] if len(words) > 1 else None, options.target)
    return find_recipe(words[0], arguments, settings_of(options.set))


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


def recipe_as_text(recipe: Recipe, settings: Mapping[str, str]) -> str:
    """Grouped; `*` marks fields that differ from the default, `>` fields that --set changed."""
    changed = {name.partition(".")[0] for name in settings}
    values = {name: as_set(value) for name, value in describe(recipe).items()}
    names_wide = max(map(len, values))
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    lines = [f"{recipe.name}: every field, as --set takes it (* differs from the default, > changed by --set)"]
    own = describe(recipe)["hyperparameters"]
    lines += ["", "your own hyperparameters"] if own else []
    lines += [f"{'>' if name in changed else ' '} {name:<{names_wide}}  {as_set(value)}" for name, value in own.items()]
    for group, names in _grouped():
        lines += ["", group]
        for name in names:
            mark = ">" if name in changed else "*" if _differs(recipe, name) else " "
            head = f"{mark} {name:<{names_wide}}  {values[name] or repr('')}"
            lines += _folded(head, field_docs()[name], names_wide + VALUE, columns)
    notes = [f"note: {note}" for note in unused_fields(recipe)]
    notes += ["set: " + ", ".join(f"{name}={value}" for name, value in settings.items())] if settings else []
    return "\n".join([*lines, *([""] if notes else []), *notes])


def recipe_as_json(recipe: Recipe, settings: Mapping[str, str], more: Iterable[str] = ()) -> str:
    values, changed = describe(recipe), {name.partition(".")[0] for name in settings}
    fields = [
        {
            "name": name,
            "group": group,
            "value": values[name],
            "default": _plain_default(name),
            "differs": _differs(recipe, name),
            "set": name in changed,
            "meaning": field_docs()[name],
        }
        for group, names in _grouped()
        for name in names
    ]
    notes, mistakes = unused_fields(recipe), [*find_problems(recipe), *more]
    page = {"recipe": recipe.name, "fields": fields, "settings": dict(settings), "notes": notes, "mistakes": mistakes}
    return json.dumps(page, indent=2)


def recipe_list() -> str:
    """The bundled recipes, one line each."""
    width = max(map(len, bundled()))
    return "\n".join(f"{name:<{width}}  {summary}" for name, summary in summaries().items())


def help_page() -> str:
    """The recipes, and the fields that people set most."""
    own = {"my_recipe.py": "your own file, with a `recipe`: a Recipe, or a function that returns one"}
    column = 4 + max(map(len, (*bundled(), *own)))
    recipes = [line for name, text in (summaries() | own).items() for line in _folded(f"  {name}", text, column)]
    fields = [line for name in OFTEN for line in _folded(f"  {name}", field_docs()[name], column)]
    often = "often set (--set lr=3e-4; `trueloop train RECIPE --show` lists all fields):"
    return "\n".join(["recipes:", *recipes, "", often, *fields])


def as_set(value: Any) -> str:
    """As `--set` takes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={as_set(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        return ",".join(map(as_set, value)) or "none"
    return str(value)


def _grouped() -> Iterator[tuple[str, list[str]]]:
    names = list(field_types())
    starts = [names.index(first) for _, first in GROUPS]
    for (group, _), start, end in zip(GROUPS, starts, [*starts[1:], len(names)], strict=True):
        yield group, names[start:end]


def _differs(recipe: Recipe, name: str) -> bool:
    return name in defaults() and getattr(recipe, name) != defaults()[name]


def _plain_default(name: str) -> Any:
    default = defaults().get(name)
    return list(default) if isinstance(default, tuple) else dict(default) if isinstance(default, Mapping) else default


def _folded(head: str, text: str, column: int, columns: int = NARROW) -> list[str]:
    """The text beside its head, from that column on, folded; below a head that is too long."""
    folded = textwrap.wrap(text, max(columns - column, 40), break_on_hyphens=False)
    indented = [" " * column + line for line in folded]
    return [f"{head:<{column}}{folded[0]}", *indented[1:]] if len(head) < column else [head, *indented]
