"""Requirements on targets and outputs. An error names the place, the value and the fix."""

from typing import Any

import torch
from torch import Tensor

from trueloop.errors import BadData

__all__ = [
    "describe_tensor",
    "require_class_numbers",
    "require_finite",
    "require_known_classes",
    "require_same_shape",
    "require_tensors",
    "require_zero_or_one",
    "type_name",
]


def require_tensors(output: Any, targets: Any, at: str, task: str) -> None:
    if not isinstance(output, Tensor) and isinstance(getattr(output, "logits", None), Tensor):
        raise BadData(
            f"{at}: the model returns {type_name(output)} without a loss. Nothing was trained: name the targets of the "
            "batch 'labels', so that the model computes its loss, or give the recipe a loss of your own: loss=lambda "
            "output, targets: F.cross_entropy(output.logits, targets, reduction='none')."
        )
    if not isinstance(output, Tensor):
        raise BadData(
            f"{at}: the model returns {type_name(output)}, and task={task} needs one tensor. Nothing was trained: "
            "return only the scores, or give the recipe a loss of your own."
        )
    if not isinstance(targets, Tensor):
        raise BadData(f"{at}: task={task} needs targets as one tensor, not {type_name(targets)}. Nothing was trained.")


def type_name(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def describe_tensor(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}"


def require_finite(targets: Tensor, at: str) -> None:
    if not targets.is_floating_point() or bool(torch.isfinite(targets).all()):
        return
    bad = (~torch.isfinite(targets)).nonzero()
    first = tuple(bad[0].tolist())
    raise BadData(
        f"{at}: target {_place(first)} is {targets[first].item()}, and {len(bad):,} of {targets.numel():,} are NaN or "
        "Inf. Nothing was trained: remove or fill those rows."
    )


def _place(index: tuple[int, ...]) -> str:
    return f"{index[0]:,}" if len(index) == 1 else str(list(index))


def require_class_numbers(output: Tensor, targets: Tensor, at: str, task: str) -> None:
    """Class numbers, one per output; the usual mistakes have their own message."""
    one_hot = task == "multiclass" and targets.shape == output.shape and bool(((targets == 0) | (targets == 1)).all())
    if one_hot and bool((targets.sum(1) == 1).all()):
        raise BadData(
            f"{at}: the targets are one-hot ({describe_tensor(targets)}), but {task} needs class numbers. "
            "Nothing was trained: use targets.argmax(1)."
        )
    if targets.dtype == torch.int64:
        return
    if targets.shape == output.shape and targets.is_floating_point() and bool((targets >= 0).all()):
        raise BadData(
            f"{at}: the targets are a number for each class ({describe_tensor(targets)}), as soft labels are, but "
            f"{task} needs class numbers. Nothing was trained: give the recipe a loss of its own: loss=lambda output, "
            "targets: F.cross_entropy(output, targets, reduction='none')."
        )
    instead = ""
    if targets.is_floating_point():
        instead = ", or task='regression' if they are quantities"
    elif targets.dtype == torch.bool:
        instead = ", or task='binary' for yes and no"
    raise BadData(
        f"{at}: {task} needs class numbers (int64), and these are {describe_tensor(targets)}. "
        f"Nothing was trained: use targets.long(){instead}."
    )


def require_known_classes(targets: Tensor, classes: int, ignore: int, at: str) -> None:
    counted = targets[targets != ignore]
    if not len(counted):
        return
    low, high = int(counted.min()), int(counted.max())
    if low >= 0 and high < classes:
        return
    wrong = low if low < 0 else high
    where = tuple((targets == wrong).nonzero()[0].tolist())
    if low == 1 and high == classes:
        cure = "the classes seem to be numbered from 1: use targets - 1"
    elif low == -1:
        cure = "if -1 marks targets to ignore, set Facts(ignore=-1); if classes are -1 and 1, use (targets + 1) // 2"
    elif low < 0:
        cure = f"number the classes from 0; if {low} marks targets to ignore, set Facts(ignore={low})"
    else:
        cure = f"give the model {high + 1} outputs, or number the classes from 0"
    raise BadData(
        f"{at}: target {_place(where)} is {wrong}, but the model has {classes} outputs, so classes go from 0 to "
        f"{classes - 1}. Nothing was trained: {cure}."
    )


def require_zero_or_one(targets: Tensor, at: str, task: str) -> None:
    require_finite(targets, at)
    odd = ((targets != 0) & (targets != 1)).nonzero()
    if not len(odd):
        return
    first = tuple(odd[0].tolist())
    value = targets[first].item()
    cure = "more than two classes are task='multiclass'"
    if value == -1:
        cure = "targets -1 and 1 become 0 and 1 by (targets + 1) / 2"
    elif not float(value).is_integer():
        cure = "probabilities need a loss of your own; quantities are task='regression'"
    wrong = f"target {_place(first)} is {value:g}"
    raise BadData(f"{at}: {task} needs targets 0 or 1; {wrong}. Nothing was trained: {cure}.")


def require_same_shape(output: Tensor, targets: Tensor, at: str, task: str) -> None:
    if output.shape != targets.shape:
        raise BadData(
            f"{at}: {task} compares outputs {list(output.shape)} with targets {list(targets.shape)} elementwise, and "
            "these shapes would be broadcast silently, or not fit at all. Nothing was trained: bring both to one shape."
        )
