"""The model, compiled if the recipe asks for it. Compile errors of torch become one sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from trueloop.engine.recompute import blocks_of
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe

__all__ = ["compile_blocks", "compile_errors", "compile_model"]


def compile_model(recipe: Recipe, model: Callable[..., Any], blocks: bool = False) -> Any:
    """What the training calls. The model itself stays as it is, so that names in checkpoints do not depend on it.
    `blocks`: they have been compiled by themselves, in place."""
    if recipe.compile == "off" or blocks:
        return model
    mode = None if recipe.compile == "default" else recipe.compile
    return torch.compile(model, mode=mode, dynamic=recipe.compile_dynamic, fullgraph=recipe.compile_fullgraph)


def compile_blocks(recipe: Recipe, model: nn.Module) -> list[nn.Module]:
    """The blocks of a model, with compiled forwards if the recipe has `compile`; FSDP gathers weights outside them."""
    blocks = blocks_of(model)
    if recipe.compile != "off" and not blocks:
        raise BadRecipe(
            f"compile={recipe.compile} with parallel={recipe.parallel} compiles the blocks of a model (modules with "
            f"layers in a ModuleList or a Sequential), and {type(model).__name__} has none. Nothing was run: set "
            "compile=off."
        )
    for block in blocks if recipe.compile != "off" else ():
        block.forward = compile_model(recipe, block.forward)
    return blocks


@contextmanager
def compile_errors(recipe: Recipe) -> Iterator[None]:
    """torch compiles when the model is first called: its message is pages long, and this is its first sentence."""
    try:
        yield
    except Exception as error:
        if recipe.compile == "off":
            raise
        from trueloop.torch_private.compiler import is_compiler_error  # lazy: it loads dynamo

        if not is_compiler_error(error):
            raise
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        pieces, off = "compile_fullgraph=false allows it to be compiled in pieces", "compile=off runs it as it is"
        cure = pieces if recipe.compile_fullgraph else off
        raise BadRecipe(f"torch cannot compile this model: {said} No step was taken since: --set {cure}.") from error
