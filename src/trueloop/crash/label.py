"""A label is no class of the model: outside 0 … classes - 1."""

from __future__ import annotations

import re
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene
from trueloop.results.check import counted

__all__ = ["explain"]

_SIGN: Final = re.compile(
    r"Target (-?\d+) is out of bounds|Class values must be (smaller than num_classes|non-negative)"
)
"""How torch says it."""
_LOSSES: Final = ("cross_entropy", "nll_loss", "multi_margin_loss")
"""Losses whose target holds class numbers."""
_VOID: Final = 255
"""How segmentation masks mark pixels that belong to no class."""


def explain(scene: Scene) -> Explanation | None:
    if _SIGN.search(scene.message) is None:
        return None
    step = next((step for step in scene.beyond if step.function in _LOSSES), None)
    if step is not None:
        scores, labels, ignored = (
            step.locals.get("input"),
            step.locals.get("target"),
            step.locals.get("ignore_index", -100),
        )
        classes = scores.shape[0 if scores.ndim == 1 else 1] if isinstance(scores, Tensor) else None
        argument, has = scene.argument(1), f"{described(scores)}, so {classes} classes"
    else:
        argument, ignored = scene.argument(0), None
        labels, classes = scene.crash.value(argument), scene.crash.value(scene.argument(1))
        has = f"num_classes={classes}"
    if (
        not isinstance(labels, Tensor)
        or not isinstance(classes, int)
        or labels.device.type == "meta"
        or not labels.numel()
    ):
        return None
    bad = ((labels < 0) | (labels >= classes)) & (labels != ignored)
    count = int(bad.sum())
    if not count:
        return None
    name = f"`{scene.crash.text(argument)}`" if argument is not None else "the labels"
    low, high = int(labels.min()), int(labels.max())
    wrong = int(labels[bad].flatten()[0])
    return Explanation(
        "label",
        f"{name} holds the label {wrong}, but the predictions are {has}: labels must be 0 to {classes - 1}."
        if step is not None
        else f"{name} holds the label {wrong}, but {has}: labels must be 0 to {classes - 1}.",
        (
            f"The labels of this batch go from {low} to {high}; {counted(count, 'label')} of {labels.numel()} "
            f"{'is' if count == 1 else 'are'} out of range{_rows(bad)}.",
            *origin(scene, scene.crash, argument).lines,
        ),
        _fix(
            low,
            high,
            classes,
            sorted(set(labels[bad].tolist())),
            name.strip("`"),
            "the last layer" if step is not None else "one_hot",
        ),
        scene.place,
    )


def _rows(bad: Tensor) -> str:
    if bad.ndim != 1:
        return ""
    rows = bad.nonzero().flatten().tolist()
    return f" (row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:6]))}{', …' if len(rows) > 6 else ''})"


def _fix(low: int, high: int, classes: int, values: list[int], name: str, who: str) -> str:
    plain = name if name.isidentifier() else "labels"
    if low >= 1 and high == classes:
        return f"The labels seem to start at 1: use {plain} - 1."
    if values in ([_VOID], [-1]):
        return f"If {values[0]} marks what is to be left out, say so: ignore_index={values[0]}. Otherwise correct those labels."
    if low >= 0:
        return f"Give {who} at least {high + 1} classes, or correct the labels."
    return f"Correct the labels below 0, or mark what is to be left out with ignore_index={values[0]}."
