"""A label is outside of 0 to classes - 1."""

import re
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene
from trueloop.event.operation_names import LABEL_LOSSES
from trueloop.results.check import counted

__all__ = ["explain"]

_SIGN: Final = re.compile(r"Target -?\d+ is out of bounds|Class values must be (smaller than num_classes|non-negative)")
_VOID: Final = 255  # How segmentation masks mark pixels without a class


def explain(scene: Scene) -> Explanation | None:
    if _SIGN.search(scene.message) is None:
        return None
    step = next((step for step in scene.beyond if step.function in LABEL_LOSSES), None)
    if step is not None:
        scores, labels = step.locals.get("input"), step.locals.get("target")
        ignored = step.locals.get("ignore_index", -100)
        classes = scores.shape[0 if scores.ndim == 1 else 1] if isinstance(scores, Tensor) else None
        argument, limit = scene.argument(1), f"the predictions are {described(scores)}, so {classes} classes"
    else:  # one_hot(labels, num_classes)
        argument, ignored = scene.argument(0), None
        labels, classes = scene.crash.value(argument), scene.crash.value(scene.argument(1))
        limit = f"num_classes={classes}"
    if not isinstance(labels, Tensor) or not isinstance(classes, int) or labels.is_meta or not labels.numel():
        return None
    bad = (labels < 0) | (labels >= classes)
    bad = bad if ignored is None else bad & (labels != ignored)
    count = int(bad.sum())
    if not count:
        return None
    name, low, high = scene.named(argument, "the labels"), int(labels.min()), int(labels.max())
    rows = bad.nonzero().flatten().tolist() if bad.ndim == 1 else []
    where = f" (row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:6]))}{', …' if len(rows) > 6 else ''})"
    outside = f"{counted(count, 'label')} of {labels.numel()} {'is' if count == 1 else 'are'} out of range"
    detail = f"The labels of this batch go from {low} to {high}; {outside}{where if rows else ''}."
    wrong = labels[bad].flatten()
    owner = "the last layer" if step is not None else "one_hot"
    message = f"{name} contains label {int(wrong[0])}, but {limit}: labels must be 0 to {classes - 1}."
    fix = _fix(low, high, classes, sorted(set(wrong.tolist())), name.strip("`"), owner)
    return scene.explanation(message, (detail, *origins(scene, argument)), fix)


def _fix(low: int, high: int, classes: int, values: list[int], name: str, owner: str) -> str:
    if low >= 1 and high == classes:
        return f"The labels seem to start at 1: use {name if name.isidentifier() else 'labels'} - 1."
    if values in ([_VOID], [-1]):
        return f"If {values[0]} marks entries to skip, set ignore_index={values[0]}. Otherwise correct those labels."
    if low >= 0:
        return f"Give {owner} at least {high + 1} classes, or correct the labels."
    return f"Correct the labels below 0, or skip them with ignore_index={values[0]}."
