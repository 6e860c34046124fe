"""An embedding was asked for a row that it does not have, or a tensor for an index beyond its size."""

from __future__ import annotations

import re
from typing import Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.origin import built, came, origin
from trueloop.crash.scene import Layer, Scene
from trueloop.results.check import counted

__all__ = ["explain"]

_ROW: Final = "index out of range in self"
"""How an embedding says it."""
_SIZE: Final = re.compile(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)")
"""How torch says it, with the numbers."""


def explain(scene: Scene) -> Explanation | None:
    layer = scene.layer
    if _ROW in scene.message and layer is not None and isinstance(layer.module, (nn.Embedding, nn.EmbeddingBag)):
        return _embedding(scene, layer, layer.module)
    found = _SIZE.search(scene.message)
    return _indexed(scene, found) if found is not None and not scene.beyond else None


def _embedding(scene: Scene, layer: Layer, module: nn.Embedding | nn.EmbeddingBag) -> Explanation | None:
    given, rows = layer.given, module.num_embeddings
    if not isinstance(given, Tensor) or not given.numel():
        return None
    bad = int(((given < 0) | (given >= rows)).sum())
    if not bad:
        return None
    low, high = int(given.min()), int(given.max())
    name, came_from = came(scene, layer)
    where = built(scene, layer)
    at = f" at {spot(where.place)}" if where is not None else ""
    return Explanation(
        "index-range",
        f"`{layer.name}` has {rows} rows (0 to {rows - 1}), but {name} asks for row {high if high >= rows else low}.",
        (
            f"{name} is {described(given)} with values from {low} to {high}; {counted(bad, 'value')} of {given.numel()} out of range.",
            *came_from.lines,
            *((f"`{layer.name}` is built{at}: {where.text}",) if where is not None else ()),
        ),
        f"Build it with num_embeddings of at least {high + 1}{at}, or keep the values below {rows}."
        if low >= 0
        else f"Negative values are no rows: correct them, or map them to a padding row below {rows}.",
        scene.place,
    )


def _indexed(scene: Scene, found: re.Match[str]) -> Explanation | None:
    index, dimension, extent = found.groups()
    operands = [(node, value) for node, value in scene.operands() if isinstance(value, Tensor)]
    if not operands:
        return None
    node, value = operands[0]
    return Explanation(
        "index-range",
        f"`{scene.crash.text(node)}` is {described(value)}: there is no index {index} in dimension {dimension} of size {extent}.",
        tuple(line for node, _ in operands for line in origin(scene, scene.crash, node).lines),
        f"Keep indices between 0 and {int(extent) - 1}."
        if int(extent)
        else "The dimension is empty: nothing can be picked from it.",
        scene.place,
    )
