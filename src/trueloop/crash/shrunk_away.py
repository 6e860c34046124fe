"""An image became smaller than the kernel or the pooling window that came next."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.origin import built, came, origin
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGNS: Final = (
    "Kernel size can't be greater than actual input size",
    "Output size is too small",
    "kernel size should be smaller than",
)
"""How torch says it, over its versions."""


def explain(scene: Scene) -> Explanation | None:
    if not any(sign in scene.message for sign in _SIGNS):
        return None
    layer, argument = scene.layer, scene.argument()
    if layer is not None:
        name, where_from = came(scene, layer)
        given, who, place = layer.given, f"`{layer.name}` ({type(layer.module).__name__})", built(scene, layer)
    else:
        given, who, place = scene.crash.value(argument), f"{spot(scene.place)}", None
        name = f"`{scene.crash.text(argument)}`" if argument is not None else "the input"
        where_from = origin(scene, scene.crash, argument)
    if not isinstance(given, Tensor):
        return None
    window = getattr(layer.module, "kernel_size", None) if layer is not None else None
    needs = f" slides a window of {window} over it" if window is not None else " needs more"
    return Explanation(
        kind="shrunk-away",
        message=f"{name} has shrunk to {described(given)} and {who}{needs}: nothing would be left.",
        details=(
            *where_from.lines,
            *((f"`{layer.name}` is built at {spot(place.place)}: {place.text}",) if layer and place else ()),
        ),
        fix="Feed larger images, take out a pooling or a stride before it, or pad.",
        place=scene.place,
    )
