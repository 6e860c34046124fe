"""The folder is the registry: `trueloop train digits` is digits.py; a path that ends in .py is the user's own file."""

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.overrides import apply_overrides
from trueloop.recipe.own_parameters import own_values
from trueloop.recipe.recipe import ARGUMENTS, Recipe

__all__ = ["bundled", "find_recipe", "load_file", "recipe_and_settings", "summaries"]

OPTIONS: Final = dict(zip(ARGUMENTS, ("TABLE", "--target"), strict=True))  # With their names on the command line
_HERE: Final = Path(__file__).parent
_NOT_RECIPES: Final = ("__init__", "catalogue", "origin")


def bundled() -> list[str]:
    """Names of the recipes that come with trueloop."""
    return sorted(file.stem.replace("_", "-") for file in _HERE.glob("*.py") if file.stem not in _NOT_RECIPES)


def summaries() -> dict[str, str]:
    """Each bundled recipe in one line: the first of its docstring. Nothing is imported."""
    texts = {name: (_HERE / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8") for name in bundled()}
    lines = {name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0] for name, text in texts.items()}
    return {name: line.removeprefix(f"{name}: ") for name, line in lines.items()}


def find_recipe(word: str, arguments: Mapping[str, str], settings: Mapping[str, str] | None = None) -> Recipe:
    """By name or path, with the values of --set. `arguments` go to a recipe that is a function with these parameters.
    Errors of the user's own code pass through."""
    return apply_overrides(*recipe_and_settings(word, arguments, settings or {}))


def recipe_and_settings(
    word: str, arguments: Mapping[str, str], settings: Mapping[str, str]
) -> tuple[Recipe, dict[str, str]]:
    """The recipe as its file makes it, with own hyperparameters as set; and the settings that are left for fields."""
    found = getattr(_module(word), "recipe", None)
    if isinstance(found, Recipe):
        _refuse(word, arguments)
        return found, dict(settings)
    if found is None or not callable(found):
        what = "has no `recipe`" if found is None else f"has a `recipe` of type {type(found).__name__}"
        raise BadRecipe(
            f"{word} {what}. Nothing was run: end the file with `recipe = Recipe(name=..., model=..., data=..., "
            "epochs=10)`, or with a function `recipe()` that returns one."
        )
    _check_arguments(word, found, arguments)
    own = own_values(found, settings, dict.fromkeys([*OPTIONS, *arguments]))
    built: Any = found(**arguments, **own)
    if not isinstance(built, Recipe):
        raise BadRecipe(f"{word}: recipe() returned a {type(built).__name__}, not a Recipe. Nothing was run.")
    return replace(built, hyperparameters=own), {name: text for name, text in settings.items() if name not in own}


def _check_arguments(word: str, function: Callable[..., Any], arguments: Mapping[str, str]) -> None:
    """Does the function take all arguments, and need no others?"""
    parameters = inspect.signature(function).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        names = {each.name for each in parameters}
        _refuse(word, {name: value for name, value in arguments.items() if name not in names})
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    missing = [each.name for each in named if each.default is each.empty and each.name not in arguments]
    missing = [name for name in missing if name in OPTIONS]
    if missing:
        needs = " and ".join(OPTIONS[name] for name in missing)
        typed = f"type `trueloop train {word} data.csv --target COLUMN`"
        raise BadRecipe(f"The recipe {word} needs {needs}. Nothing was run: {typed}.")


def _refuse(word: str, arguments: Mapping[str, str]) -> None:
    if arguments:
        given = " and no ".join(f"{OPTIONS[name]} ({value})" for name, value in arguments.items())
        raise BadRecipe(f"The recipe {word} takes no {given}. Nothing was run.")


def _module(word: str) -> ModuleType:
    if word.endswith(".py"):
        return load_file(Path(word))
    if word not in bundled():
        hint = f" Did you mean {word}.py?" if Path(f"{word}.py").is_file() else did_you_mean(word, bundled())
        known = f"Bundled: {', '.join(bundled())}; or your own file.py"
        raise BadRecipe(f"There is no recipe {word!r}.{hint} Nothing was run. {known}.")
    return import_module(f"trueloop.recipes.{word.replace('-', '_')}")


def load_file(path: Path) -> ModuleType:
    """A file of the user's, run as a module. Raises BadRecipe."""
    if not path.is_file():
        files = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise BadRecipe(f"There is no file {path}.{did_you_mean(path.name, files)} Nothing was run.")
    taken = sys.modules.get(path.stem)
    if taken is not None and Path(getattr(taken, "__file__", None) or "").absolute() != path.absolute():
        raise BadRecipe(f"{path} has the name of a module in use, {path.stem!r}. Nothing was run: rename the file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that workers and dataclasses find it
    if str(path.parent.absolute()) not in sys.path:
        sys.path.insert(0, str(path.parent.absolute()))
    try:
        # Not by the loader of `spec`: importlib's frames would appear in the user's traceback.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except BadRecipe as error:
        del sys.modules[path.stem]
        raise BadRecipe(f"{path}: {error}") from None
    except SystemExit as error:  # a script, say, that parses its own arguments: else trueloop would end without a word
        del sys.modules[path.stem]
        raise BadRecipe(
            f"{path} ended while it was loaded (sys.exit, code {error.code}). Nothing was run: put what is for the "
            'command line under `if __name__ == "__main__":`.'
        ) from None
    except Exception as error:
        del sys.modules[path.stem]
        raise BadRecipe(f"{path} cannot be loaded: {type(error).__name__}: {error}. Nothing was run.") from error
    return module
