"""An index is outside of an embedding or of a tensor's dimension."""

import re
from typing import Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described, spot
from trueloop.crash.origin import built, layer_input, origins
from trueloop.crash.scene import Layer, Scene
from trueloop.results.check import counted

__all__ = ["explain"]

_EMBEDDING: Final = "index out of range in self"
_SIZE: Final = re.compile(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)")


def explain(scene: Scene) -> Explanation | None:
    layer = scene.layer
    if _EMBEDDING in scene.message and layer is not None and isinstance(layer.module, (nn.Embedding, nn.EmbeddingBag)):
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
    name, came_from = layer_input(scene, layer)
    where = built(scene, layer)
    at = f" at {spot(where.place)}" if where is not None else ""
    values = f"{name} is {described(given)} with values from {low} to {high}"
    worst = high if high >= rows else low
    message = f"`{layer.name}` has {rows} rows (0 to {rows - 1}), but {name} contains index {worst}."
    detail = f"{values}; {counted(bad, 'value')} of {given.numel()} out of range."
    fix = f"Build it with num_embeddings of at least {high + 1}{at}, or keep the values below {rows}."
    if low < 0:
        fix = f"Negative values are not valid indices: correct them, or map them to a padding row below {rows}."
    return scene.explanation(message, (detail, *came_from.lines, *(() if where is None else (where.line,))), fix)


def _indexed(scene: Scene, found: re.Match[str]) -> Explanation | None:
    index, dimension, extent = found.groups()
    operands = scene.tensors()
    if not operands:
        return None
    node, value = operands[0]
    tensor = f"dimension {dimension} of `{scene.crash.text(node)}`, {described(value)}"
    message = f"Index {index} is out of range for {tensor}: its size is {extent}."
    empty = "The dimension is empty: no index is valid."
    fix = f"Keep indices between 0 and {int(extent) - 1}." if int(extent) else empty
    return scene.explanation(message, origins(scene, *(node for node, _ in operands)), fix)
