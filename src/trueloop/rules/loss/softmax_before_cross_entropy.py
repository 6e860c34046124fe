"""LOS101 softmax-before-cross-entropy: cross entropy gets probabilities and applies softmax a second time.

What it sees
------------
On repeated calls of `cross_entropy`, every row of the input is non-negative and sums to 1 within the precision of its
dtype: probabilities, not logits. The autograd graph shows the line of the softmax. Log-probabilities are detected too;
they give the correct loss with extra work, so that finding is only advice.

Why it hurts
------------
`cross_entropy` applies `log_softmax` itself. A second softmax squeezes all logits into [0, 1]: the loss cannot get
close to zero however confident the model is, gradients are small, and training is slow and stops early. It still seems
to learn.

Evidence
--------
The line of the loss, the shape and range of its input, the operations that produced it, the number of calls, and the
lowest possible loss.

Use instead
-----------
    logits = model(x)                         # no softmax at the end of the model
    loss = F.cross_entropy(logits, y)
    probabilities = logits.softmax(dim=1)     # only where probabilities are needed

When it is fine
---------------
A softmax for a metric, for sampling or inside attention does not reach the loss. `nll_loss` needs log-probabilities.
Logits that sum to 1 by coincidence do not do so on every row of every call.
"""

from math import e, log
from typing import Final

from trueloop.event import LossComputed, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts
from trueloop.usercode.source import Removal, remove_activation

__all__ = ["SoftmaxBeforeCrossEntropy"]

CALLS: Final = 2  # Calls that must show it: one could be a coincidence, or the first batch of a constant model


class SoftmaxBeforeCrossEntropy(Rule, code="LOS101", severity=Severity.ERROR):
    not_applicable = "cross_entropy was not called"

    def __init__(self) -> None:
        self._softmax: dict[Place | None, Removal] = {}
        self._logits: set[Place | None] = set()  # Lines whose input was not the output of a softmax
        self._reported = False
        self._evaluated: list[tuple[LossComputed, int]] = []

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function != "cross_entropy" or event.rows == "unknown" or event.place in self._logits:
            return
        if not _has_softmax(event):
            self._logits.add(event.place)
            return
        if event.preceding_place is not None and event.place not in self._softmax:
            layer = "Softmax" if event.rows == "probabilities" else "LogSoftmax"
            functions = ("softmax", "log_softmax")
            self._softmax[event.place] = remove_activation(
                event.preceding_place, functions, layer, by_layer=bool(event.preceding_module)
            )
        calls = self.count(event.place)
        if calls < CALLS:
            return
        if event.grad:
            self._reported = True
            yield self._report(event, calls)
        elif calls == CALLS:
            self._evaluated.append((event, calls))

    def on_run_ended(self, event: RunEnded) -> Findings:
        """A validation loss usually shares the softmax of the training loss: reported only if that one was not."""
        for loss, calls in () if self._reported else self._evaluated:
            yield self._report(loss, calls)

    def _report(self, event: LossComputed, calls: int) -> Finding:
        removal = self._softmax.get(event.place)
        place = event.place if removal is None else removal.place
        wrong = event.rows == "probabilities"
        classes = event.input_shape[1 if len(event.input_shape) > 1 else 0]
        floor = log(e + classes - 1) - 1
        shape = list(event.input_shape)
        return self.finding(
            event,
            f"`cross_entropy` gets probabilities (rows of {shape} sum to 1) and applies softmax again: "
            f"with {classes} classes the loss cannot fall below {floor:.2f}."
            if wrong
            else f"`cross_entropy` gets log-probabilities {shape} and applies `log_softmax` again: same loss, twice "
            "the work.",
            fix="Remove the softmax and pass the logits to `cross_entropy`."
            if wrong
            else "Pass the logits to `cross_entropy`, or the log-probabilities to `nll_loss`.",
            evidence=facts(
                event,
                "loss=place input_shape input_range rows produced_by=preceding",
                input_shape=shape,
                calls=calls,
                lowest_possible_loss=round(floor, 4) if wrong else 0.0,
            ),
            place=place,
            diff="" if removal is None else removal.diff,
            severity=Severity.ERROR if wrong else Severity.ADVICE,
        )


def _has_softmax(event: LossComputed) -> bool:
    """Probabilities by value; log-probabilities must come directly from a log_softmax."""
    if event.rows == "log-probabilities":
        return any(name.startswith("LogSoftmax") for name in event.preceding)
    return event.rows == "probabilities"
