"""The folder is the registry: `trueloop train digits` is digits.py; a path that ends in .py is the user's own file."""

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.recipe import Recipe, field_docs

__all__ = ["bundled", "find_recipe", "load_file", "summaries"]

OPTIONS: Final = {"table": "TABLE", "target": "--target"}  # Parameter of a recipe's function -> its command-line name
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


def find_recipe(word: str, arguments: Mapping[str, str]) -> Recipe:
    """By name or path. `arguments` go to a recipe that is a function with parameters. Errors of the user's own code
    pass through."""
    found = getattr(_module(word), "recipe", None)
    if isinstance(found, Recipe):
        _refuse(word, arguments)
        return found
    if found is None or not callable(found):
        what = "has no `recipe`" if found is None else f"has a `recipe` of type {type(found).__name__}"
        raise BadRecipe(
            f"{word} {what}. Nothing was run: end the file with `recipe = Recipe(name=..., model=..., data=..., "
            "epochs=10)`, or with a function `recipe()` that returns one."
        )
    _check_arguments(word, found, arguments)
    built: Any = found(**arguments)
    if not isinstance(built, Recipe):
        raise BadRecipe(f"{word}: recipe() returned a {type(built).__name__}, not a Recipe. Nothing was run.")
    return built


def _check_arguments(word: str, function: Callable[..., Any], arguments: Mapping[str, str]) -> None:
    """Does the function take all arguments, and need no others?"""
    parameters = inspect.signature(function).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        names = {each.name for each in parameters}
        _refuse(word, {name: value for name, value in arguments.items() if name not in names})
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    missing = [each.name for each in named if each.default is each.empty and each.name not in arguments]
    if missing and set(missing) <= set(OPTIONS):
        needs = " and ".join(OPTIONS[name] for name in missing)
        typed = f"type `trueloop train {word} data.csv --target COLUMN`"
        raise BadRecipe(f"The recipe {word} needs {needs}. Nothing was run: {typed}.")
    if missing:
        advice = "give them defaults"
        raise BadRecipe(
            f"{word}: recipe() has parameters without a value: {', '.join(missing)}. Nothing was run: {advice}."
        )


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
    except Exception as error:
        del sys.modules[path.stem]
        unknown = re.search(r"Recipe\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
        if unknown:
            said = f"{path}: a recipe has no field {unknown[1]!r}.{did_you_mean(unknown[1], field_docs())}"
            raise BadRecipe(f"{said} Nothing was run: `trueloop train {path} --show` lists the fields.") from None
        raise BadRecipe(f"{path} cannot be loaded: {type(error).__name__}: {error}. Nothing was run.") from error
    return module
