"""LOS106 wrong-target-format: the targets are not what the loss function takes them for, and it does not say so.

What it sees
------------
Binary cross entropy with targets far outside [0, 1] (class numbers, -1 and +1, pixels up to 255, standardised images);
`cross_entropy` with floating targets of the shape of the scores, which it reads as probabilities, that are whole
numbers and do not sum to one (several labels per sample, one score per sample, a batch of scores taken for one sample);
`cross_entropy` whose targets are all `ignore_index`.

Why it hurts
------------
Each of these is computed without a word. A binary target of 3 has no lowest loss: it rewards ever larger scores. One
score per sample makes the softmax one and the loss zero whatever the model says. A batch taken for one sample makes the
samples compete with each other.

Evidence
--------
The loss function, the shapes and types of input and target, and the targets' range.

Use instead
-----------
    F.cross_entropy(scores, y)                                  # scores [B, C], y whole numbers [B]
    F.binary_cross_entropy_with_logits(scores, y.float())       # any number of yes/no labels, each 0 or 1

When it is fine
---------------
Soft labels, label smoothing, mixup, weighted one-hot rows, rows of zeros for padding, yes/no labels with binary cross
entropy, noisy real/fake labels a little above one.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple, final

from trueloop.event import LossComputed, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["WrongTargetFormat"]

CALLS: Final = 2
"""Calls that must show it: one odd batch is another matter."""
BEYOND: Final = 0.5
"""How far outside [0, 1] targets that are not whole numbers may lie: noisy labels of GANs reach 1.2 or 1.3."""

_BINARY: Final = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


class Wrong(NamedTuple):
    what: str
    fix: str
    severity: Severity = Severity.ERROR


@final
class WrongTargetFormat(Rule):
    code = "LOS106"
    name = "wrong-target-format"
    severity = Severity.ERROR
    not_applicable = "no loss on labels was called"

    def __init__(self) -> None:
        self._calls: dict[tuple[str, Place | None], int] = {}
        self._clean: set[tuple[str, Place | None]] = set()

    def on_loss_computed(self, event: LossComputed) -> Findings:
        key = (event.function, event.place)
        wrong = (
            _binary(event)
            if event.function in _BINARY
            else _classes(event)
            if event.function == "cross_entropy"
            else None
        )
        if wrong is None or (wrong.what.startswith("every") and key in self._clean):
            self._clean.add(key)
            return
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] < CALLS:
            return
        yield self.finding(
            event,
            f"{event.function} on {list(event.input_shape)}: {wrong.what}.",
            fix=wrong.fix,
            evidence={
                "function": event.function,
                "input_shape": list(event.input_shape),
                "target_shape": list(event.target_shape),
                "target_dtype": event.target_dtype,
                "target_range": event.target_range,
                "target_whole_numbers": event.target_integral,
                "calls": self._calls[key],
            },
            severity=wrong.severity,
        )


def _binary(event: LossComputed) -> Wrong | None:
    if event.target_range is None:
        return None
    low, high = event.target_range
    if (event.target_integral and low >= 0 and high <= 1) or (
        not event.target_integral and low >= -BEYOND and high <= 1 + BEYOND
    ):
        return None
    if event.target_integral and (low, high, event.target_distinct) == (-1, 1, 2):
        return Wrong(
            "the targets are -1 and +1, but a yes/no target is 1 or 0", "Map the targets to 0 and 1: (y + 1) / 2."
        )
    if event.target_integral and high < 1 + prod(event.input_shape[1:]):
        fix = "Use cross_entropy for one class out of several; for several yes/no labels give each 0 or 1."
        return Wrong(f"the targets are class numbers from {low:g} to {high:g}, but a yes/no target lies in [0, 1]", fix)
    return Wrong(
        f"the targets lie in [{low:.4g}, {high:.4g}], but they must lie in [0, 1]",
        "Scale the targets into [0, 1], or use mse_loss for amounts.",
    )


def _classes(event: LossComputed) -> Wrong | None:
    if not event.target_dtype.startswith(("float", "bfloat")):
        if event.target_range is None and event.ignore_index is not None:
            what = f"every target is ignore_index ({event.ignore_index}), so there is nothing to learn from"
            return Wrong(what, "Check how the targets are masked; leave ignore_index for padding only.")
        return None
    if event.input_shape != event.target_shape or event.target_range is None:
        return None
    if len(event.input_shape) > 1 and event.input_shape[1] == 1:
        what = "there is one score per sample, whose softmax is always 1, so the loss is 0 whatever the model says"
        return Wrong(
            what, "Use binary_cross_entropy_with_logits for one yes/no score, or give the model one output per class."
        )
    if not event.target_integral or event.target_rows_sum_to_one or event.target_range[0] < 0:
        return None
    if len(event.input_shape) == 1:
        what = "a vector is taken for the class scores of one sample, so the softmax runs over the batch"
        return Wrong(what, "Use binary_cross_entropy_with_logits for one yes/no score per sample.")
    if len(event.input_shape) == 2 and event.input_shape[0] == event.input_shape[1]:
        return None  # each sample against each: positives of a contrastive loss
    if event.target_range[1] > 1:
        return None  # counts: the likelihood of a bag of words
    what = "several targets of a row are 1, but a row is read as the probabilities of classes that exclude each other"
    fix = "Use binary_cross_entropy_with_logits for several labels per sample, or divide each row by its sum."
    return Wrong(what, fix, Severity.WARNING)
