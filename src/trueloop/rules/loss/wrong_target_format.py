"""LOS106 wrong-target-format: the targets do not have the format that the loss function expects.

What it sees
------------
Binary cross entropy with targets far outside [0, 1] (class indices, -1 and +1, pixels up to 255, standardized images).
`cross_entropy` with float targets of the shape of the logits, which it reads as probabilities, that are integers and do
not sum to 1 (several labels per sample, one output per sample, a batch of outputs read as one sample). `cross_entropy`
whose targets are all `ignore_index`. Losses that want -1 and +1 (`cosine_embedding_loss`, `margin_ranking_loss`,
`hinge_embedding_loss`, `soft_margin_loss`) with targets 0 and 1.

Why it hurts
------------
PyTorch computes each of these without an error. A binary target of 3 has no minimal loss: it rewards ever larger
logits. With one output per sample the softmax is always 1 and the loss 0, whatever the model predicts. A batch read as
one sample makes the samples compete with each other. With -1 coded as 0, the negative pairs have no gradient: nothing
keeps the embeddings apart.

Evidence
--------
The loss function, the shapes and dtypes of input and target, and the range of the targets.

Use instead
-----------
    F.cross_entropy(logits, y)                                  # logits [B, C], integer class indices y [B]
    F.binary_cross_entropy_with_logits(logits, y.float())       # any number of binary labels, each 0 or 1

When it is fine
---------------
Not reported: soft labels, label smoothing, mixup, weighted one-hot rows, rows of zeros for padding, several binary
labels with binary cross entropy, noisy real/fake labels slightly above 1.
"""

from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from trueloop.event import LossComputed, Place, StepProgram
from trueloop.event.operation_names import BINARY_LOSSES
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["WrongTargetFormat"]

CALLS: Final = 2  # Calls that must show it: a single odd batch is a different problem
BEYOND: Final = 0.5  # How far outside [0, 1] non-integer targets may be: noisy labels of GANs reach 1.2 or 1.3

_SIGNS: Final = ("cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss")


class Wrong(NamedTuple):
    what: str
    fix: str
    severity: Severity = Severity.ERROR


class WrongTargetFormat(Rule, code="LOS106", severity=Severity.ERROR):
    not_applicable = "no loss on labels was called"

    def __init__(self) -> None:
        self._correct: set[tuple[str, Place | None]] = set()

    def on_loss_computed(self, event: LossComputed) -> Findings:
        key = (event.function, event.place)
        check = _binary if event.function in BINARY_LOSSES else _classes if event.function == "cross_entropy" else None
        wrong = None if check is None else check(event)
        if wrong is None or (wrong.what.startswith("every") and key in self._correct):
            self._correct.add(key)
            return
        calls = self.count(key)
        if calls < CALLS:
            return
        yield self.finding(
            event,
            f"`{event.function}` on outputs {list(event.input_shape)}: {wrong.what}.",
            fix=wrong.fix,
            evidence=facts(
                event,
                "function input_shape target_shape target_dtype target_range target_integers=target_integral",
                calls=calls,
            ),
            severity=wrong.severity,
        )

    def on_step_program(self, event: StepProgram) -> Findings:
        for operation in event.operations:
            if operation.name not in _SIGNS or event.phase != "training" or not operation.inputs:
                continue
            target = event.values[operation.inputs[-1]]
            if target.grad or target.smallest != 0 or target.largest not in (0, 1):
                continue
            if self.count((operation.name, operation.place)) == CALLS:
                yield self.finding(
                    replace(event, place=operation.place),
                    f"`{operation.name}`: targets are 0 and 1, but must be -1 or +1: target 0 has no gradient.",
                    fix="Map the targets to -1 and +1: `2 * y - 1`.",
                    evidence={"function": operation.name, "target_shape": list(target.shape),
                              "target_range": [target.smallest, target.largest]},
                )  # fmt: skip


def _binary(event: LossComputed) -> Wrong | None:
    if event.target_range is None:
        return None
    low, high = event.target_range
    beyond = 0 if event.target_integral else BEYOND
    if low >= -beyond and high <= 1 + beyond:
        return None
    if event.target_integral and (low, high, event.target_distinct) == (-1, 1, 2):
        return Wrong("targets are -1 and +1, but must be 0 or 1", "Map the targets to 0 and 1: `(y + 1) / 2`.")
    if event.target_integral and high < 1 + prod(event.input_shape[1:]):
        fix = "Use `cross_entropy` for one class out of several. For several binary labels, make each 0 or 1."
        return Wrong(f"targets are class indices from {low:g} to {high:g}, but must be in [0, 1]", fix)
    fix = "Scale the targets to [0, 1], or use `mse_loss` for amounts."
    return Wrong(f"targets are in [{low:.4g}, {high:.4g}], but must be in [0, 1]", fix)


def _classes(event: LossComputed) -> Wrong | None:
    if not event.target_dtype.startswith(("float", "bfloat")):
        if event.target_range is None and event.ignore_index is not None:
            what = f"every target is ignore_index ({event.ignore_index}), so the batch has no loss"
            return Wrong(what, "Check how the targets are masked; use `ignore_index` for padding only.")
        return None
    if event.input_shape != event.target_shape or event.target_range is None:
        return None
    if len(event.input_shape) > 1 and event.input_shape[1] == 1:
        what = "one output per sample has a softmax of 1, so the loss is always 0"
        fix = "Use `binary_cross_entropy_with_logits` for one binary output, or give the model one output per class."
        return Wrong(what, fix)
    if not event.target_integral or event.target_rows_sum_to_one or event.target_range[0] < 0:
        return None
    if len(event.input_shape) == 1:
        what = "a vector is read as the logits of one sample, so the softmax runs over the batch"
        return Wrong(what, "Use `binary_cross_entropy_with_logits` for one binary output per sample.")
    if len(event.input_shape) == 2 and event.input_shape[0] == event.input_shape[1]:
        return None  # every pair of samples: positives of a contrastive loss
    if event.target_range[1] > 1:
        return None  # counts: the likelihood of a bag of words
    what = "several targets in a row are 1, but a row is read as the probabilities of mutually exclusive classes"
    fix = "Use `binary_cross_entropy_with_logits` for several labels per sample, or divide each row by its sum."
    return Wrong(what, fix, Severity.WARNING)
