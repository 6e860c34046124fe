"""DAT105 inputs-not-normalized: raw inputs of large or very different scale reach the first layer.

What it sees
------------
The tensor that enters the first layer with weights of a trained model, in its first steps, after the script's and the
model's own preprocessing. Two cases are reported: pixels that still range from 0 to 255, and a table with columns of
very different spread (a factor of 1,000 between the 10th and 90th percentiles). A third case needs no raw values:
series whose training rows were standardized over the wrong axes. They have exactly mean 0 and deviation 1 at each time
step, over samples and channels, and the channels still differ by a factor of 1,000.

Why it hurts
------------
The gradient of a weight is proportional to its input. With one column in the ten thousands and one below 1, no learning
rate fits both: the model ignores the small column or diverges. Weights are initialized for inputs around 1; with pixels
up to 255 the first outputs are a hundred times too large, and units saturate or die in the first steps.

Evidence
--------
The layer, the shape and range of its input, and for a table the two columns and their spreads.

Use instead
-----------
    x = x / 255                                  # or torchvision's ToTensor(), Normalize(mean, std)
    x = (x - mean) / std                         # per column, with the mean and std of the training data
    mean = x.mean((0, 1), keepdim=True)          # of [samples, time, channels]: one for each channel

When it is fine
---------------
Not reported: a normalization as the first or second layer, or arithmetic in forward(); indices for an embedding,
one-hot and sparse counts, columns that are all large, and the scale of the targets. Only Linear and convolution layers
are checked, and tables need 16 rows per batch.
"""

from typing import Final

from trueloop.event import ChannelsPooled, FirstLayerInput
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["InputsNotNormalized"]

BRIGHT: Final = 50  # Integers up to this may be counts, grades or palette colors; real images exceed it in any batch
BYTE: Final = 255  # The largest value of a byte
WHOLE: Final = 0.99  # The share of integers among raw pixels; resizing creates fractions, but the maximum is still 255
TYPICAL: Final = 16  # The median of non-black pixels is far above this; that of word counts is 1 or 2
APART: Final = 1e3  # Column spreads that differ by more than this need learning rates that differ by a million
COLUMNS: Final = 64  # Minimum columns of a flattened image: 8 by 8. Tables have fewer integer columns up to 255.
LARGE: Final = 100.0  # The wide column must be large itself: a tiny one next to normalized ones is only ignored


class InputsNotNormalized(Rule, code="DAT105", severity=Severity.WARNING):
    not_applicable = "no data entered a Linear or convolution layer directly"

    def on_first_layer_input(self, event: FirstLayerInput) -> Findings:
        if event.normalized_next:
            return
        if _is_raw_pixels(event) and (event.image or _is_flat_image(event)):
            yield self.finding(
                event,
                f"{event.layer} of {event.name} gets raw pixels from {event.smallest:g} to {event.largest:g}; "
                "its weights are initialized for inputs around 1.",
                fix="Divide the images by 255 (torchvision: `ToTensor()`, or `ToDtype(torch.float32, scale=True)`) and "
                "normalize them.",
                evidence={
                    "layer": event.layer,
                    "shape": list(event.shape),
                    "range": [event.smallest, event.largest],
                    "integer_share": round(event.integer_share, 3),
                },
            )
        elif event.narrowest is not None and event.widest is not None:
            (wide, large), (narrow, small) = event.widest, event.narrowest
            if large < max(LARGE, APART * small):
                return
            yield self.finding(
                event,
                f"The inputs of {event.layer} of {event.name} have very different scales: column {wide} has "
                f"{large / small:,.0f} times the spread of column {narrow} ({large:.4g} and {small:.4g}).",
                fix="Standardize every column with the mean and std of the training data: `x = (x - mean) / std`.",
                evidence={
                    "layer": event.layer,
                    "shape": list(event.shape),
                    "widest_column": {"column": wide, "spread": large},
                    "narrowest_column": {"column": narrow, "spread": small},
                    "ratio": round(large / small, 1),
                },
            )

    def on_channels_pooled(self, event: ChannelsPooled) -> Findings:
        (narrow, small), (wide, large) = event.narrowest, event.widest
        if large < APART * small:
            return
        yield self.finding(
            event,
            f"The inputs of {event.name} were standardized over the wrong axes: each of the {event.positions} time "
            f"steps has mean 0 and deviation 1 over samples and channels, but channel {wide} has {large / small:,.0f} "
            f"times the deviation of channel {narrow} ({large:.4g} and {small:.4g}).",
            fix="Take one mean and one standard deviation for each channel, over samples and time: "
            "`x.mean((0, 1), keepdim=True)` for [samples, time, channels].",
            evidence={
                "rows": event.rows,
                "time_steps": event.positions,
                "channels": event.channels,
                "widest_channel": {"channel": wide, "deviation": large},
                "narrowest_channel": {"channel": narrow, "deviation": small},
            },
        )


def _is_raw_pixels(event: FirstLayerInput) -> bool:
    byte = event.smallest >= 0 and BRIGHT < event.largest <= BYTE
    return byte and event.typical > TYPICAL and (event.integer_share >= WHOLE or event.largest == BYTE)


def _is_flat_image(event: FirstLayerInput) -> bool:
    """Rows of bytes with columns of equal range."""
    wide = len(event.shape) == 2 and event.shape[1] >= COLUMNS
    return wide and event.integer_share >= WHOLE and event.largest >= BYTE - 5
