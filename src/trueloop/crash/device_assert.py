"""A kernel on the GPU found a number out of range and stopped: nearly always a label or an index."""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGN: Final = "device-side assert triggered"
"""How torch says it."""


def explain(scene: Scene) -> Explanation | None:
    """After such an assert no tensor on the device can be read any more, but shapes can, and what still lies on the
    CPU."""
    if _SIGN not in scene.message:
        return None
    return Explanation(
        "device-assert",
        "A GPU kernel found a number out of range: nearly always a label outside the classes, or an index outside an embedding. "
        "The line shown may come later than the one at fault, because kernels run on while Python does.",
        tuple(_ranges(scene)),
        "Run once on the CPU, or with the environment variable CUDA_LAUNCH_BLOCKING=1: either stops at the line at fault.",
        scene.place,
    )


def _ranges(scene: Scene) -> list[str]:
    lines = []
    for step in scene.users:
        for name, value in list(step.locals.items()):
            if (
                isinstance(value, Tensor)
                and value.device.type == "cpu"
                and value.numel()
                and not value.is_floating_point()
                and not value.is_complex()
            ):
                lines.append(
                    f"`{name}`, {described(value)}, holds values from {int(value.min())} to {int(value.max())}."
                )
    for _, model in scene.modules():
        for path, module in model.named_modules():
            if isinstance(module, nn.Embedding):
                lines.append(f"`{path or type(model).__name__}` is an embedding of {module.num_embeddings} rows.")
    for step in scene.beyond:
        scores = step.locals.get("input")
        if step.function in ("cross_entropy", "nll_loss") and isinstance(scores, Tensor) and scores.ndim > 1:
            lines.append(f"The predictions are {described(scores)}: labels must be 0 to {scores.shape[1] - 1}.")
    return list(dict.fromkeys(lines))[:6]
