"""Hyperparameters of one's own: the parameters of a recipe file's function.

    def recipe(hidden: int = 64, dropout: float = 0.1) -> Recipe: ...

`--set hidden=128` feeds them, by their annotation or else by the type of their default.
"""

import inspect
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, Final

from trueloop.errors import BadRecipe
from trueloop.recipe.parse import guess_value, read_value
from trueloop.recipe.recipe import field_types
from trueloop.recipe.validate import bullet_list

__all__ = ["own_values"]

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def own_values(function: Callable[..., Any], settings: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every own hyperparameter of a recipe's function with its value. `settings`: the texts of --set, of which those of
    fields are left alone; `given`: parameters that get their value elsewhere. Raises BadRecipe with all mistakes."""
    signature = inspect.signature(function).parameters.values()
    parameters = [each for each in signature if each.kind in _NAMED and each.name not in given]
    mistakes = [
        f"{each.name} is a field of every recipe, so it cannot be a parameter of recipe() too: leave the parameter "
        f"out, `--set {each.name}=VALUE` sets the field; or give it a different name"
        for each in parameters
        if each.name in field_types()
    ]
    values = {each.name: each.default for each in parameters}
    for each in [each for each in parameters if each.name in settings and each.name not in field_types()]:
        try:
            values[each.name] = _read(settings[each.name].strip(), each, function)
        except ValueError as error:
            mistakes.append(f"{each.name}={settings[each.name]} is not valid{error}")
    missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
    if missing:
        cure = f"Type --set {missing[0]}=VALUE, or give defaults"
        mistakes.append(f"recipe() has parameters without a value: {', '.join(missing)}. {cure}")
    if mistakes:
        raise BadRecipe(f"The parameters of recipe() cannot be used:{bullet_list(mistakes)}\nNothing was run.")
    return values


def _read(text: str, parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    kind = parameter.annotation
    if isinstance(kind, str):  # `from __future__ import annotations`
        try:
            kind = eval(kind, getattr(function, "__globals__", {}))
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise ValueError(f": its annotation {kind!r} cannot be read ({error})") from None
    if kind is parameter.empty:
        kind = _kind_of(parameter.default)
    return guess_value(text) if kind is None else read_value(text, kind, parameter.name)


def _kind_of(default: Any) -> Any:
    """The type of a parameter without an annotation; None: its default does not show it."""
    if isinstance(default, (tuple, list)) and default and len({type(item) for item in default}) == 1:
        inside = _kind_of(default[0]) or str
        return GenericAlias(tuple, (inside, ...)) if isinstance(default, tuple) else GenericAlias(list, (inside,))
    return type(default) if isinstance(default, (bool, int, float, str, tuple, list)) else None
