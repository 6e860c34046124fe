"""An image became smaller than the next kernel or pooling window."""

from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.origin import built, layer_input, origin
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGNS: Final = (
    "Kernel size can't be greater than actual input size",
    "Output size is too small",
    "kernel size should be smaller than",
)
"""Messages of torch, over its versions."""


def explain(scene: Scene) -> Explanation | None:
    if not any(sign in scene.message for sign in _SIGNS):
        return None
    layer, argument = scene.layer, scene.argument()
    if layer is not None:
        name, came_from = layer_input(scene, layer)
        given, who, where = layer.given, f"`{layer.name}` ({type(layer.module).__name__})", built(scene, layer)
        window = getattr(layer.module, "kernel_size", None)
    else:
        name, came_from = scene.named(argument, "the input"), origin(scene, scene.crash, argument)
        given, who, where, window = scene.crash.value(argument), spot(scene.place), None, None
    if not isinstance(given, Tensor):
        return None
    needs = "needs a larger input" if window is None else f"slides a window of {window} over it"
    return scene.explanation(
        f"{name} has shrunk to {described(given)} and {who} {needs}: the output would be empty.",
        (*came_from.lines, *(() if where is None else (where.line,))),
        "Use larger images, remove a pooling layer or a stride before it, or add padding.",
    )
