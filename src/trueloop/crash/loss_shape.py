"""Predictions and targets have shapes that a loss cannot combine."""

from typing import Final

import torch
from torch import Tensor

from trueloop.crash.explanation import Explanation, described, written
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene
from trueloop.event.operation_names import CLASS_LOSSES, DISTANCE_LOSSES
from trueloop.taps.loss import LOSS_FUNCTIONS

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
)  # Messages of torch, over its versions


def explain(scene: Scene) -> Explanation | None:
    step = next((step for step in scene.beyond if step.function in LOSS_FUNCTIONS), None)
    if step is None or not any(sign in scene.message for sign in _SIGNS):
        return None
    scores, target = step.locals.get("input"), step.locals.get("target")
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        return None
    first, second = scene.argument(0), scene.argument(1)
    logits, labels = scene.named(first, "output").strip("`"), scene.named(second, "target").strip("`")
    describe = _by_class if step.function in CLASS_LOSSES else _elementwise
    if step.function in DISTANCE_LOSSES and _are_classes(scores, target):
        describe = _distance_to_classes
    wants, fix = describe(scores, target, logits, labels)
    predictions = f"{scene.named(first, 'the predictions')}, {described(scores)}"
    shapes = f"{predictions}, and {scene.named(second, 'the target')}, {described(target)}"
    return scene.explanation(f"{step.function} got {shapes}, but {wants}.", origins(scene, first, second), fix)


def _by_class(scores: Tensor, target: Tensor, logits: str, labels: str) -> tuple[str, str]:
    """The shape that a loss over classes needs, and the fix."""
    wanted = [*scores.shape[:1], *scores.shape[2:]]
    order = f"samples, classes{', positions' if scores.ndim > 2 else ''}"
    wants = f"for predictions of {written(scores.shape)} ({order}) the target must be {written(wanted)}"
    if target.ndim == len(wanted) + 1 and target.shape[1] == 1 and list(target.squeeze(1).shape) == wanted:
        fix = f"Drop the extra dimension: {labels}.squeeze(1)."
    elif target.ndim == 2 and target.shape == scores.shape:
        fix = f"The target is one-hot: pass class indices, {labels}.argmax(1), or probabilities, {labels}.float()."
    elif scores.ndim == 3 and list(target.shape) == list(scores.shape[:2]):
        flat = f"flatten both with {logits}.flatten(0, 1) and {labels}.flatten()"
        fix = f"The classes are in the last dimension: write {logits}.transpose(1, 2), or {flat}."
    elif scores.shape[:1] != target.shape[:1]:
        fix = _batch_fix(scores.shape[0], target.shape[0])
    else:
        fix = f"Resize the predictions to the target's {written(target.shape[1:])}, or the target to theirs."
    return wants, fix


def _batch_fix(predictions: int, labels: int) -> str:
    counts = f"There are {predictions} rows of predictions and {labels} labels"
    if predictions % labels == 0 or labels % predictions == 0:
        return f"{counts}: flatten both in the same way, so that each label has one row."
    return f"{counts}: look for a view(-1, n) that mixes features into the batch dimension, and use flatten(1)."


def _are_classes(scores: Tensor, target: Tensor) -> bool:
    """[N, C] predictions against N whole numbers below C, more than one of them different."""
    if scores.ndim != 2 or scores.shape[1] < 2 or target.numel() != scores.shape[0] or not target.numel():
        return False
    low, high = float(target.min()), float(target.max())
    return 0 <= low < high < scores.shape[1] and bool((target == target.round()).all())


def _distance_to_classes(scores: Tensor, target: Tensor, logits: str, labels: str) -> tuple[str, str]:
    flat = labels if target.ndim == 1 else f"{labels}.view(-1)"
    indices = flat if target.dtype == torch.int64 else f"{flat}.long()"
    wants = (
        f"the target holds class numbers {int(target.min())} to {int(target.max())}, one per sample, and the model has "
        f"{scores.shape[1]} outputs, one per class: a distance between them means nothing"
    )
    return wants, f"Use a loss for classes: nn.functional.cross_entropy({logits}, {indices})."


def _elementwise(scores: Tensor, target: Tensor, logits: str, labels: str) -> tuple[str, str]:
    if tuple(scores.shape) == (*target.shape, 1):
        fix = f"Write {labels}.unsqueeze(-1), or {logits}.squeeze(-1)."
    elif (*scores.shape, 1) == tuple(target.shape):
        fix = f"Write {labels}.squeeze(-1), or {logits}.unsqueeze(-1)."
    elif scores.numel() == target.numel():
        fix = f"Both have {scores.numel()} elements: write {labels}.view_as({logits}) if the order is the same."
    else:
        fix = f"Make the model return {written(target.shape)}, or the target {written(scores.shape)}."
    return "both must have the same shape", fix
