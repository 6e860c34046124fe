"""Predictions and targets reached a loss in shapes that do not belong together."""

from __future__ import annotations

import ast
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, written
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene, Step
from trueloop.taps.loss import LOSSES

__all__ = ["explain"]

_SIGNS: Final = (
    "to match target batch_size",
    "multi-target not supported",
    "Expected target size",
    "only batches of spatial targets supported",
    "size mismatch (got input",
    "must be the same as input size",
    "that is different to the input size",
    "must match the size of tensor b",
    "input and target batch or spatial sizes don't match",
)
"""How torch says it, over its versions."""
_BY_CLASS: Final = ("cross_entropy", "nll_loss")
"""Losses whose target holds class numbers."""


def explain(scene: Scene) -> Explanation | None:
    step = next((step for step in scene.beyond if step.function in LOSSES), None)
    if step is None or not any(sign in scene.message for sign in _SIGNS):
        return None
    scores, target = step.locals.get("input"), step.locals.get("target")
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        return None
    names = [_named(scene, index, fallback) for index, fallback in enumerate(("the predictions", "the target"))]
    wants, fix = (
        _by_class(scores, target, *names) if step.function in _BY_CLASS else _elementwise(scores, target, *names)
    )
    return Explanation(
        "loss-shape",
        f"{step.function} got {names[0]}, {described(scores)}, and {names[1]}, {described(target)}, but {wants}.",
        _origins(scene, step),
        fix,
        scene.place,
    )


def _named(scene: Scene, index: int, fallback: str) -> str:
    argument = scene.argument(index)
    return f"`{scene.crash.text(argument)}`" if argument is not None else fallback


def _origins(scene: Scene, step: Step) -> tuple[str, ...]:
    arguments: list[ast.expr | None] = [scene.argument(0), scene.argument(1)]
    return tuple(line for argument in arguments for line in origin(scene, scene.crash, argument).lines)


def _by_class(scores: Tensor, target: Tensor, name: str, labels: str) -> tuple[str, str]:
    """What a loss over classes wants, and what to write."""
    wanted = [*scores.shape[:1], *scores.shape[2:]]
    order = f"samples, classes{', positions' if scores.ndim > 2 else ''}"
    wants = f"for predictions of {written(scores.shape)} ({order}) the target must be {written(wanted)}"
    plain = labels.strip("`") if labels.startswith("`") else "target"
    logits = name.strip("`") if name.startswith("`") else "output"
    if target.ndim == len(wanted) + 1 and target.shape[1] == 1 and list(target.squeeze(1).shape) == wanted:
        return wants, f"Drop the extra dimension: {plain}.squeeze(1)."
    if target.ndim == 2 and target.shape == scores.shape:
        return (
            wants,
            f"The target is one-hot: give class numbers, {plain}.argmax(1), or probabilities as {plain}.float().",
        )
    if scores.ndim == 3 and list(target.shape) == list(scores.shape[:2]):
        return (
            wants,
            f"The classes stand last: write {logits}.transpose(1, 2), or flatten both with {logits}.flatten(0, 1) and {plain}.flatten().",
        )
    if scores.shape[:1] != target.shape[:1]:
        return wants, _rows(scores.shape[0], target.shape[0])
    return wants, f"Bring the predictions to the target's size, {written(target.shape[1:])}, or the target to theirs."


def _rows(predictions: int, labels: int) -> str:
    if predictions % labels == 0 or labels % predictions == 0:
        return f"{predictions} rows of predictions stand against {labels} labels: flatten both in the same way, keeping one row per label."
    return (
        f"{predictions} rows of predictions stand against {labels} labels: look for a view(-1, n) in the model that folds "
        "features into the batch dimension, and keep it with flatten(1)."
    )


def _elementwise(scores: Tensor, target: Tensor, name: str, labels: str) -> tuple[str, str]:
    plain = labels.strip("`") if labels.startswith("`") else "target"
    logits = name.strip("`") if name.startswith("`") else "output"
    wants = "both must have the same shape"
    if tuple(scores.shape) == (*target.shape, 1):
        return wants, f"Write {plain}.unsqueeze(-1), or {logits}.squeeze(-1)."
    if (*scores.shape, 1) == tuple(target.shape):
        return wants, f"Write {plain}.squeeze(-1), or {logits}.unsqueeze(-1)."
    if scores.numel() == target.numel():
        return (
            wants,
            f"Both have {scores.numel()} elements: write {plain}.view_as({logits}), if they are in the same order.",
        )
    return wants, f"Make the model give {written(target.shape)}, or the target {written(scores.shape)}."
