"""Activation checkpointing: the repeated blocks of a model are computed again in the backward, and what they hold in
between is not kept.

Less memory for about a third more time, and the same numbers: dropout draws the same numbers again (torch's, numpy's
and Python's), and running statistics are not counted twice. Names in the state-dict stay as they are.
"""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trueloop.engine.buffers import BufferSnapshot
from trueloop.errors import BadRecipe

__all__ = ["blocks_of", "recompute_blocks"]


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Outermost members of a ModuleList or Sequential that are made of layers and have weights; no single layers."""
    repeats = isinstance(model, (nn.ModuleList, nn.Sequential))
    inside = ([child] if repeats and _is_block(child) else blocks_of(child) for child in model.children())
    return list(dict.fromkeys(block for blocks in inside for block in blocks))


def _is_block(module: nn.Module) -> bool:
    layer_of_torch = type(module).__module__.startswith("torch.nn") and not list(module.children())
    return not layer_of_torch and any(True for _ in module.parameters())


def recompute_blocks(model: nn.Module) -> None:
    """In place. Raises BadRecipe if there is no block."""
    blocks = blocks_of(model)
    if not blocks:
        raise BadRecipe(
            "activation_checkpointing recomputes repeated blocks (modules with layers in a ModuleList or a "
            f"Sequential), and {type(model).__name__} has none. Nothing was run: build it from blocks, or leave it out."
        )
    for block in blocks:
        block.forward = _Recomputed(block)


@final
class _Recomputed:
    """In place of a block's forward. A class, not a closure: a copy of the model must own a copy of this."""

    def __init__(self, block: nn.Module) -> None:
        self.block, self.inner = block, block.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        if torch.compiler.is_compiling():
            return checkpoint(self.inner, *args, use_reentrant=False, **kwargs)
        return checkpoint(self.inner, *args, use_reentrant=False, context_fn=self._contexts, **kwargs)

    def _contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """Around the forward, and around the second one."""
        return nullcontext(), self._again(random.getstate(), np.random.get_state())

    @contextmanager
    def _again(self, python: Any, numpy: Any) -> Iterator[None]:
        """With the random states of the first time; torch sees to its own. Afterwards all is as it was found."""
        statistics, after = BufferSnapshot(self.block), (random.getstate(), np.random.get_state())
        random.setstate(python)
        np.random.set_state(numpy)
        try:
            yield
        finally:
            random.setstate(after[0])
            np.random.set_state(after[1])
            statistics.restore()
