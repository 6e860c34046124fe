"""LOS101 softmax-before-cross-entropy: cross entropy is given probabilities, and takes the softmax of them once more.

What it sees
------------
On repeated calls of `cross_entropy` every row of the input is non-negative and sums to one, within the precision of its
type: these are probabilities, not scores. The line of the softmax is found in the graph behind the input.
Log-probabilities are seen too: they give the right loss, by a detour, so that is only advice.

Why it hurts
------------
`cross_entropy` applies `log_softmax` itself. A second softmax squeezes all scores into [0, 1]: the loss cannot come
near zero however sure the model is, gradients are small, and training is slow and ends early, yet it seems to learn.

Evidence
--------
The line of the loss, the shape and range of its input, the operation behind it, how many calls showed it, and the
lowest loss that remains possible.

Use instead
-----------
    logits = model(x)                         # no softmax at the end of the model
    loss = F.cross_entropy(logits, y)
    probabilities = logits.softmax(dim=1)     # where probabilities are wanted

When it is fine
---------------
A softmax for a metric, for sampling or inside attention never reaches the loss. `nll_loss` wants log-probabilities.
Scores that sum to one by chance do so once, not on every row of every call.
"""

from __future__ import annotations

from math import e, log
from typing import Final, final

from trueloop.event import LossComputed, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Removal, shown_path, taking_out

__all__ = ["SoftmaxBeforeCrossEntropy"]

CALLS: Final = 2
"""Calls in a row that must show it: one could be chance, or a first batch of a constant model."""


@final
class SoftmaxBeforeCrossEntropy(Rule):
    code = "LOS101"
    name = "softmax-before-cross-entropy"
    severity = Severity.ERROR
    not_applicable = "cross_entropy was not called"

    def __init__(self) -> None:
        self._calls: dict[Place | None, int] = {}
        self._softmax: dict[Place | None, Removal] = {}
        self._clean: set[Place | None] = set()
        self._spoken = False
        self._evaluated: list[LossComputed] = []

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function != "cross_entropy" or event.rows == "unknown" or event.place in self._clean:
            return
        if not _has_softmax(event):
            self._clean.add(event.place)
            return
        if event.preceding_place is not None:
            layer = "Softmax" if event.rows == "probabilities" else "LogSoftmax"
            functions = ("softmax", "log_softmax")
            self._softmax[event.place] = taking_out(
                event.preceding_place, functions, layer, by_layer=bool(event.preceding_module)
            )
        self._calls[event.place] = self._calls.get(event.place, 0) + 1
        if self._calls[event.place] < CALLS:
            return
        if event.grad:
            self._spoken = True
            yield self._say(event)
        elif self._calls[event.place] == CALLS:
            self._evaluated.append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        """A loss that was only evaluated has the training loss's softmax behind it, if that was found; else it is wrong
        by itself."""
        for loss in () if self._spoken else self._evaluated:
            yield self._say(loss)

    def _say(self, event: LossComputed) -> Finding:
        removal = self._softmax.get(event.place)
        place = event.place if removal is None else removal.place
        wrong = event.rows == "probabilities"
        classes = event.input_shape[1 if len(event.input_shape) > 1 else 0]
        floor = log(e + classes - 1) - 1
        shape = list(event.input_shape)
        return self.finding(
            event,
            f"cross_entropy is given probabilities, each row of {shape} sums to 1, and takes their softmax once more: "
            f"with {classes} classes the loss cannot fall below {floor:.2f}."
            if wrong
            else f"cross_entropy is given log-probabilities {shape} and takes their log_softmax again: the same loss for twice the work.",
            fix="Give cross_entropy the raw scores: remove the softmax before it."
            if wrong
            else "Give cross_entropy the raw scores, or log-probabilities to nll_loss.",
            evidence={
                "loss": _shown(event.place),
                "input_shape": shape,
                "input_range": event.input_range,
                "rows": event.rows,
                "behind": list(event.preceding),
                "calls": self._calls[event.place],
                "lowest_possible_loss": round(floor, 4) if wrong else 0.0,
            },
            place=place,
            diff="" if removal is None else removal.diff,
            severity=Severity.ERROR if wrong else Severity.ADVICE,
        )


def _has_softmax(event: LossComputed) -> bool:
    """By value for probabilities; log-probabilities must come straight from a log_softmax, or there is nothing to take
    out."""
    if event.rows == "log-probabilities":
        return any(name.startswith("LogSoftmax") for name in event.preceding)
    return event.rows == "probabilities"


def _shown(place: Place | None) -> str:
    return "" if place is None else f"{shown_path(place.path)}:{place.line}"
