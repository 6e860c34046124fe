"""Functions of the user that a recipe holds, called with what they are given."""

import inspect
from collections.abc import Callable
from typing import Any

from trueloop.errors import BadRecipe

__all__ = ["call_own"]


def call_own(field: str, form: str, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Its result. A function with a different signature is a mistake of the recipe, not of what it computes."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except ValueError:
        pass  # built in: it has no signature to look at
    except TypeError as error:
        said = f"The recipe's {field} cannot be called: {error}"
        raise BadRecipe(f"{said}. Nothing was run: write it as `{form}`.") from None
    return function(*arguments, **options)
