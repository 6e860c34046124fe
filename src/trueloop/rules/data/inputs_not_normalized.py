"""DAT105 inputs-not-normalized: raw numbers of very different, or very large, size go straight into the first layer.

What it sees
------------
The tensor that really enters the first layer with weights of a model that is trained, in its first steps: what the data
and the model's own arithmetic have made of it, before any parameter had a part in it. Two things are told: pixels that
still run from 0 to 255, and a table whose columns are spread so differently (a thousandfold, from the tenth to the
ninetieth percentile) that one of them drowns the others.

Why it hurts
------------
A weight's gradient is proportional to its input. With one column in the ten thousands and one below one, no learning
rate suits both: a rate that is safe for the first leaves the second unused, and the model learns from the wrong column
or blows up. Initial weights are drawn for inputs around one; with pixels up to 255 the first outputs are a hundred
times too large, and units saturate or die at the first steps.

Evidence
--------
The layer, the shape and range of what went in, and for a table the two columns and their spreads.

Use instead
-----------
    x = x / 255                                  # or torchvision's ToTensor(), Normalize(mean, std)
    x = (x - mean) / std                         # per column, with the mean and std of the training rows

When it is fine
---------------
A normalisation as the first or second layer does the same work, and so does arithmetic in forward(): what is looked at
is what reaches the layer. Ids that go into an embedding, one-hot and sparse counts, columns that are large alike, and
the scale of the targets are not its concern. Only Linear and convolution layers are looked at, and tables need 16 rows
in a batch before their columns are compared.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import FirstLayerInput
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["InputsNotNormalized"]

BRIGHT: Final = 50
"""Integers up to this may be counts, grades or colours of a palette; pixels of real images reach further in
any batch."""
BYTE: Final = 255
"""The largest number of a byte."""
WHOLE: Final = 0.99
"""The share of whole numbers among raw pixels; resizing makes fractions of them, but then the brightest is still
255."""
TYPICAL: Final = 16
"""The median of the pixels that are not black lies far above this; that of word counts lies at one or two."""
APART: Final = 1e3
"""Spreads of columns that differ by more than this need learning rates that differ by a million."""
COLUMNS: Final = 64
"""Columns of a picture laid flat, at least: 8 by 8. Tables have fewer that are all whole numbers up to 255."""
LARGE: Final = 100.0
"""The wide column must be large in itself: a column of tiny numbers beside normalised ones is only ignored, and may
well be meant so."""


@final
class InputsNotNormalized(Rule):
    code = "DAT105"
    name = "inputs-not-normalized"
    severity = Severity.WARNING
    not_applicable = "no data was seen to enter a Linear or convolution layer directly"

    def on_first_layer_input(self, event: FirstLayerInput) -> Findings:
        if event.normalized_next:
            return
        if _is_raw_pixels(event) and (event.image or _is_flat_picture(event)):
            yield self.finding(
                event,
                f"Pixels from {event.smallest:g} to {event.largest:g} go straight into {event.layer} of {event.name}, "
                "whose weights are made for inputs around one.",
                fix="Divide by 255 (torchvision: ToTensor, or ToDtype with scale=True), and subtract the mean, before the model sees them.",
                evidence={
                    "layer": event.layer,
                    "shape": list(event.shape),
                    "range": [event.smallest, event.largest],
                    "share_of_whole_numbers": round(event.integer_share, 3),
                },
            )
        elif (
            event.narrowest is not None
            and event.widest is not None
            and event.widest[1] >= max(LARGE, APART * event.narrowest[1])
        ):
            ratio = event.widest[1] / event.narrowest[1]
            yield self.finding(
                event,
                f"Column {event.widest[0]} of what goes into {event.layer} of {event.name} is spread {ratio:,.0f} times as wide as column "
                f"{event.narrowest[0]} ({event.widest[1]:.4g} against {event.narrowest[1]:.4g}).",
                fix="Bring every column to mean 0 and spread 1, with the mean and std of the training rows, before the model sees them.",
                evidence={
                    "layer": event.layer,
                    "shape": list(event.shape),
                    "widest_column": {"column": event.widest[0], "spread": event.widest[1]},
                    "narrowest_column": {"column": event.narrowest[0], "spread": event.narrowest[1]},
                    "ratio": round(ratio, 1),
                },
            )


def _is_raw_pixels(event: FirstLayerInput) -> bool:
    byte = event.smallest >= 0 and BRIGHT < event.largest <= BYTE
    return byte and event.typical > TYPICAL and (event.integer_share >= WHOLE or event.largest == BYTE)


def _is_flat_picture(event: FirstLayerInput) -> bool:
    """Rows of bytes, each column as far as the other."""
    return (
        len(event.shape) == 2
        and event.shape[1] >= COLUMNS
        and event.integer_share >= WHOLE
        and event.largest >= BYTE - 5
    )
