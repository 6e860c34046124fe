"""Batch normalisation was given a single value per channel while training: there is no variance to compute."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import came
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGN: Final = "Expected more than 1 value per channel when training"
"""How torch says it."""


def explain(scene: Scene) -> Explanation | None:
    layer = scene.layer
    if _SIGN not in scene.message or layer is None or not isinstance(layer.given, Tensor):
        return None
    came_from = came(scene, layer)[1]
    kind = type(layer.module).__name__
    message = f"`{layer.name}` ({kind}) is in training mode and got {described(layer.given)}: one value per channel has no variance."
    short = _last_batch(scene) if layer.given.shape[0] == 1 else None
    if short is not None:
        variable, samples, batch = short
        detail = f"`{variable}` has {samples} samples in batches of {batch}: the last batch holds a single one."
        return Explanation(
            "lone-sample",
            message,
            (detail,),
            f"Build `{variable}` with drop_last=True, or take another batch size.",
            scene.place,
        )
    fix = "Train on batches of at least 2 samples; to use the model on a single one, call model.eval() first."
    return Explanation("lone-sample", message, came_from.lines, fix, scene.place)


def _last_batch(scene: Scene) -> tuple[str, int, int] | None:
    """The loader whose last batch holds one sample."""
    for step in scene.users:
        for name, value in list(step.locals.items()):
            if isinstance(value, DataLoader) and value.batch_size and not value.drop_last and value.batch_size > 1:
                try:
                    samples = len(value.sampler)  # type: ignore[arg-type]
                except TypeError:  # a stream has no length
                    continue
                if samples % value.batch_size == 1:
                    return name, samples, value.batch_size
    return None
