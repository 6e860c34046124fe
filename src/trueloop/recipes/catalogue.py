"""The folder is the registry: `trueloop train digits` is digits.py; a path that ends in .py is the user's own file."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trueloop.errors import BadRecipe, did_you_mean
from trueloop.recipe.recipe import Recipe

__all__ = ["bundled", "find_recipe", "load_file", "summaries"]

WORDS: Final = {"table": "TABLE", "target": "--target"}
"""Parameter of a recipe's function -> how it is given on the command line."""


def bundled() -> list[str]:
    """Names of the recipes that come with trueloop."""
    here = Path(__file__).parent
    return sorted(
        file.stem.replace("_", "-")
        for file in here.glob("*.py")
        if file.stem not in ("__init__", "catalogue", "origin")
    )


def summaries() -> dict[str, str]:
    """What each bundled recipe is, in one line: the first of its docstring. Nothing is imported for it."""
    texts = {
        name: Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text(encoding="utf-8") for name in bundled()
    }
    lines = {name: (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0] for name, text in texts.items()}
    return {name: line.removeprefix(f"{name}: ") for name, line in lines.items()}


def find_recipe(word: str, arguments: Mapping[str, str]) -> Recipe:
    """By name or path. `arguments` go to a recipe that is a function with parameters. What the user's own code raises
    there is theirs."""
    made = getattr(_module(word), "recipe", None)
    if isinstance(made, Recipe):
        _refuse(word, arguments)
        return made
    if made is None or not callable(made):
        what = "has no `recipe`" if made is None else f"has a `recipe` of type {type(made).__name__}"
        raise BadRecipe(
            f"{word} {what}. Nothing was run: end the file with `recipe = Recipe(name=..., model=..., data=..., epochs=10)`, "
            "or with a function `recipe()` that returns one."
        )
    built: Any = made(**_bound(word, made, arguments))
    if not isinstance(built, Recipe):
        raise BadRecipe(
            f"{word}: recipe() returned a value of type {type(built).__name__}, not a Recipe. Nothing was run."
        )
    return built


def _bound(word: str, made: Callable[..., Any], arguments: Mapping[str, str]) -> Mapping[str, str]:
    """The arguments, if the function takes them all and misses none."""
    parameters = inspect.signature(made).parameters.values()
    open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters)
    _refuse(
        word,
        {}
        if open_ended
        else {name: given for name, given in arguments.items() if name not in {each.name for each in parameters}},
    )
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    missing = [each.name for each in named if each.default is each.empty and each.name not in arguments]
    if missing and set(missing) <= set(WORDS):
        needs = " and ".join(WORDS[name] for name in missing)
        raise BadRecipe(
            f"The recipe {word} needs {needs}. Nothing was run: type `trueloop train {word} data.csv --target COLUMN`."
        )
    if missing:
        raise BadRecipe(
            f"{word}: recipe() wants {', '.join(missing)}, which nothing can give it. Nothing was run: give it defaults."
        )
    return arguments


def _refuse(word: str, arguments: Mapping[str, str]) -> None:
    if arguments:
        given = " and no ".join(f"{WORDS[name]} ({value})" for name, value in arguments.items())
        raise BadRecipe(f"The recipe {word} takes no {given}. Nothing was run.")


def _module(word: str) -> ModuleType:
    if word.endswith(".py"):
        return load_file(Path(word))
    if word not in bundled():
        known = ", ".join(bundled())
        hint = f" Did you mean {word}.py?" if Path(f"{word}.py").is_file() else did_you_mean(word, bundled())
        raise BadRecipe(
            f"There is no recipe {word!r}.{hint} Nothing was run. There are: {known}; or a file of yours: my_recipe.py."
        )
    return import_module(f"trueloop.recipes.{word.replace('-', '_')}")


def load_file(path: Path) -> ModuleType:
    """A file of the user's, run as a module. Raises BadRecipe."""
    if not path.is_file():
        near = (
            did_you_mean(path.name, (other.name for other in path.parent.glob("*.py"))) if path.parent.is_dir() else ""
        )
        raise BadRecipe(f"There is no file {path}.{near} Nothing was run.")
    taken = sys.modules.get(path.stem)
    if taken is not None and Path(getattr(taken, "__file__", None) or "").absolute() != path.absolute():
        raise BadRecipe(
            f"{path} is called like the module {path.stem!r}, which is in use. Nothing was run: rename the file."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that workers and dataclasses find it
    if str(path.parent.absolute()) not in sys.path:
        sys.path.insert(0, str(path.parent.absolute()))
    try:
        # Not by the loader of `spec`: importlib's frames would stand in the user's traceback.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[path.stem]
        raise BadRecipe(f"{path} cannot be loaded: {type(error).__name__}: {error}. Nothing was run.") from error
    return module
