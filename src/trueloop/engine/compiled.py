"""The model, compiled if the recipe asks for it; what torch cannot compile is told in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from trueloop.errors import BadRecipe
from trueloop.recipe import Recipe

__all__ = ["compile_errors", "compiled"]


def compiled(recipe: Recipe, model: Callable[..., Any]) -> Any:
    """What the training calls. The model itself stays as it is, so that names in checkpoints do not depend on it."""
    if recipe.compile == "off":
        return model
    mode = None if recipe.compile == "default" else recipe.compile
    return torch.compile(model, mode=mode, dynamic=recipe.compile_dynamic, fullgraph=recipe.compile_fullgraph)


@contextmanager
def compile_errors(recipe: Recipe) -> Iterator[None]:
    """torch compiles when the model is first called: what it says then is pages long, and this is its first sentence."""
    try:
        yield
    except Exception as error:
        dynamo = sys.modules.get("torch._dynamo.exc")
        if recipe.compile == "off" or dynamo is None or not isinstance(error, dynamo.TorchDynamoException):
            raise
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        cure = "compile_fullgraph=false allows it to be compiled in pieces" if recipe.compile_fullgraph else "compile=off runs it as it is"
        raise BadRecipe(f"torch cannot compile this model: {said} No step was taken after that: --set {cure}.") from error
