"""DAT108 labels-misaligned-with-inputs: inputs and labels have come apart, so that there is nothing to learn.

What it sees
------------
Two things that hold by themselves. Equal inputs with different labels: over the first pass of a training loader,
samples whose inputs are equal bit for bit have the same label no more often than two samples drawn at random. And
halves that were shuffled apart: the model's input is the batch of one loader, the target of its loss is the batch of
another one, and each of the two shuffles in an order of its own.

Labels that were shuffled once, before they met their inputs in one dataset, cannot be told from labels that are hard to
predict unless some inputs repeat: a small probe model that learns nothing proves nothing about the labels. That case is
not seen here; a loss that stays at chance is what shows it.

Why it hurts
------------
The model can only learn how often each label occurs. The loss falls a little and stops there, and the search for the
reason goes to the learning rate and the architecture, where it is not.

Evidence
--------
How many inputs repeated, how many of them had their label again, and how many would have by chance; or the two loaders.

Use instead
-----------
    loader = DataLoader(TensorDataset(inputs, labels), shuffle=True)      # one dataset of pairs: one order for both
    inputs.repeat_interleave(4, 0), labels.repeat_interleave(4)           # repeat both in the same way

When it is fine
---------------
Noisy labels agree far more often than chance, and a few contradictions are the nature of data. Short or discrete inputs
(fewer than 16 numbers that are not zero, or ids) repeat with different labels for good reasons. Samplers of one's own
(episodes of few-shot learning give one image a new label in each), sequences, and batches of more than inputs and
labels are left alone; so are two loaders whose generators have the same seed, and so the same order.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, final

from trueloop.event import LabelsCompared, LoadersOutOfSync
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LabelsMisalignedWithInputs"]

REPEATED: Final = 20
"""Repeated inputs that it takes to tell chance from habit."""
MOST_AGREEMENT: Final = 0.3
"""Agreement beyond chance, as a share of what is possible, that must be ruled out. Labels of which one in five is wrong
reach 0.36 with two classes, 0.6 with ten."""


@final
class LabelsMisalignedWithInputs(Rule):
    code = "DAT108"
    name = "labels-misaligned-with-inputs"
    severity = Severity.WARNING
    not_applicable = "no loader gave inputs with class labels"

    def __init__(self) -> None:
        self._repeated = 0
        self._judged = False

    def why_not_checked(self) -> str:
        return "" if self._judged else f"{self._repeated} inputs came twice, too few to compare their labels"

    def on_labels_compared(self, event: LabelsCompared) -> Findings:
        self._repeated += event.repeated
        if event.repeated < REPEATED or event.classes < 2:
            return
        self._judged = True
        share = event.agreed / event.repeated
        doubt = 2 * sqrt(max(share, event.expected) * (1 - max(share, event.expected)) / event.repeated)
        if (share + doubt - event.expected) / (1 - event.expected) > MOST_AGREEMENT:
            return
        yield self.finding(
            event,
            f"Of {event.repeated:,} samples whose input had come before, {event.agreed:,} have the same label again ({share:.0%}); "
            f"chance alone gives {event.expected:.0%}.",
            fix="Look at where inputs and labels are joined (a sort, repeat for one of them, two shuffles): they must move together.",
            evidence={
                "samples": event.samples,
                "repeated_inputs": event.repeated,
                "same_label_again": event.agreed,
                "expected_by_chance": round(event.expected * event.repeated, 1),
                "classes": event.classes,
            },
        )

    def on_loaders_out_of_sync(self, event: LoadersOutOfSync) -> Findings:
        self._judged = True
        yield self.finding(
            event,
            "The input of the model comes from one loader and the target of the loss from another, and each shuffles its "
            f"{event.samples:,} samples in an order of its own: inputs meet the labels of other samples.",
            fix="Put both into one dataset of pairs (TensorDataset(inputs, labels)) and shuffle that.",
            evidence={
                "input_loader": event.inputs,
                "target_loader": event.targets,
                "samples_in_each": event.samples,
                "batches_seen": event.batches,
                "inputs_drawn_at": f"{event.inputs_place.path}:{event.inputs_place.line}" if event.inputs_place else "",
            },
        )
