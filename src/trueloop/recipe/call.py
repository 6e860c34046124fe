"""Functions of the user that a recipe holds, called with what they are given."""

import inspect
from collections.abc import Callable
from typing import Any, Final

from trueloop.errors import BadRecipe

__all__ = ["call_own", "required_parameters", "takes_nothing"]

NOT_IN_GRAPH: Final = "appears to not have been used in the graph"  # torch's words


def call_own(field: str, form: str, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Its result. A function with a different signature is a mistake of the recipe, not of what it computes."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except ValueError:
        pass  # built in: it has no signature to look at
    except TypeError as error:
        said = f"The recipe's {field} cannot be called: {error}"
        raise BadRecipe(f"{said}. Nothing was run: write it as `{form}`.") from None
    try:
        return function(*arguments, **options)
    except RuntimeError as error:
        if field == "loss" and NOT_IN_GRAPH in str(error):
            raise BadRecipe(
                "The recipe's loss differentiates with respect to the inputs, which do not require a gradient when the "
                "model is called. Nothing was run: write a step of your own, in which you call the model after "
                "`inputs.requires_grad_()` (docs/training/your-own-step.md)."
            ) from None
        raise


def takes_nothing(function: Any) -> bool:
    """Has it no parameters at all?"""
    try:
        return not inspect.signature(function).parameters
    except ValueError:
        return False  # built in: it has no signature to look at


def required_parameters(function: Any) -> int:
    """Positional parameters without a default; of a module, those of its forward. `*args` counts as two."""
    function = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 2  # built in: it has no signature to look at
    several = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = sum(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)
    return max(required, 2) if several else required
