"""DAT108 labels-misaligned-with-inputs: inputs and labels do not belong together, so the model cannot learn.

What it sees
------------
Two independent cases. Equal inputs with different labels: in the first epoch of a training loader, samples with
bit-identical inputs have the same label no more often than two random samples. And two separate shuffles: the model
input comes from one loader, the target of its loss from another, and each shuffles in its own order.

Labels that were shuffled once, before they were joined with their inputs in one dataset, look the same as labels that
are hard to predict, unless some inputs repeat. That case is not detected here; it shows as `loss-at-chance`.

Why it hurts
------------
The model can only learn the label frequencies. The loss falls a little and stops, and the search for the cause goes to
the learning rate and the architecture, where it is not.

Evidence
--------
The number of repeated inputs, how many of them had the same label, and how many are expected by chance; or the two
loaders.

Use instead
-----------
    loader = DataLoader(TensorDataset(inputs, labels), shuffle=True)      # one dataset of pairs: one order for both
    inputs.repeat_interleave(4, 0), labels.repeat_interleave(4)           # repeat both in the same way

When it is fine
---------------
Not reported: noisy labels, which agree far more often than by chance; short or discrete inputs (fewer than 16 non-zero
values, or indices), which repeat with different labels for good reasons; custom samplers (episodes of few-shot learning
relabel images); sequences; batches of more than inputs and labels; two loaders whose generators have the same seed.
"""

from math import sqrt
from typing import Final

from trueloop.event import LabelsCompared, LoadersOutOfSync
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["LabelsMisalignedWithInputs"]

REPEATED: Final = 20  # Repeated inputs needed to rule out a coincidence
MOST_AGREEMENT: Final = 0.3
"""Agreement beyond chance, as a share of the possible, that must be ruled out. With 20% wrong labels it is 0.36 for two
classes, 0.6 for ten."""


class LabelsMisalignedWithInputs(Rule, code="DAT108", severity=Severity.WARNING):
    not_applicable = "no loader yielded inputs with class labels"

    def __init__(self) -> None:
        self._repeated = 0
        self._checked = False

    def why_not_checked(self) -> str:
        return "" if self._checked else f"only {self._repeated} inputs repeated, too few to compare their labels"

    def on_labels_compared(self, event: LabelsCompared) -> Findings:
        self._repeated += event.repeated
        if event.repeated < REPEATED or event.classes < 2:
            return
        self._checked = True
        share = event.agreed / event.repeated
        doubt = 2 * sqrt(max(share, event.expected) * (1 - max(share, event.expected)) / event.repeated)
        if (share + doubt - event.expected) / (1 - event.expected) > MOST_AGREEMENT:
            return
        yield self.finding(
            event,
            f"Only {event.agreed:,} of {event.repeated:,} repeated inputs have the same label again ({share:.0%}); "
            f"random labels give {event.expected:.0%}.",
            fix="Check where inputs and labels are joined: every sort, repeat or shuffle must apply to both.",
            evidence=facts(
                event,
                "samples repeated_inputs=repeated same_label=agreed expected_by_chance classes",
                expected_by_chance=round(event.expected * event.repeated, 1),
            ),
        )

    def on_loaders_out_of_sync(self, event: LoadersOutOfSync) -> Findings:
        self._checked = True
        yield self.finding(
            event,
            "The model input and the loss target come from two loaders that shuffle separately: "
            f"inputs of {event.samples:,} samples get the labels of other samples.",
            fix="Put both into one dataset, `TensorDataset(inputs, labels)`, and shuffle that.",
            evidence=facts(
                event,
                "input_loader=inputs target_loader=targets samples_in_each=samples",
                "batches inputs_drawn_at=inputs_place",
            ),
        )
