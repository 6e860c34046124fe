"""A recipe's model is called in one way everywhere: `model(inputs)`; or `model(**inputs)`, where the inputs are a dict
whose keys are parameters of `forward`, as models of Hugging Face take them. Labels in it are passed only to a forward
that has a parameter of that name."""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from torch import nn

__all__ = ["call_model", "inputs_by_name", "takes_names"]


def call_model(model: Any, inputs: Any, like: nn.Module | None = None) -> Any:
    """`like`: the recipe's model, where `model` is a compiled or wrapped form of it."""
    named = inputs_by_name(model if like is None else like, inputs)
    return model(inputs) if named is None else model(**named)


def inputs_by_name(model: nn.Module, inputs: Any) -> dict[str, Any] | None:
    """What to pass by name; None: the inputs are one argument."""
    names = _names(model, inputs) if isinstance(inputs, Mapping) else []
    return {name: inputs[name] for name in names} if names else None


def takes_names(model: Any, inputs: Mapping[str, Any]) -> bool:
    """Does `forward` take these by name?"""
    return bool(_names(model, inputs))


def _names(model: Any, inputs: Mapping[str, Any]) -> list[str]:
    """The inputs to pass by name: all of them, or all but the labels. With `**kwargs`, one known name is enough."""
    names, others = _taken_by(model)
    if not names and others and hasattr(model, "get_base_model"):  # of peft: forward(*args, **kwargs) around a model
        names, others = _taken_by(model.get_base_model())
    wanted = [key for key in inputs if key in names or key not in ("labels", "label")]
    known = [key in names for key in wanted]
    return wanted if known and (all(known) or (others and (any(known) or not names))) else []


def _taken_by(model: Any) -> tuple[frozenset[str], bool]:
    forward = getattr(model, "forward", model)
    return _parameters(getattr(forward, "__func__", forward))


@lru_cache(maxsize=256)
def _parameters(function: Any) -> tuple[frozenset[str], bool]:
    """Names of the parameters, without self; whether there are `**kwargs`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return frozenset(), False
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = frozenset(each.name for each in parameters if each.kind in kinds and each.name != "self")
    return named, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
