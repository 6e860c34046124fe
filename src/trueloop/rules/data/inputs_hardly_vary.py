"""DAT121 inputs-hardly-vary: the inputs are a constant with a little noise on top.

What it sees
------------
For most features (or channels) of a model's training inputs, the mean is at least 20 times the standard deviation,
and its first layer with weights receives them on that scale.

Why it hurts
------------
The differences between samples, which are all that a model can learn from, are tiny beside a common offset. Usual
cause: normalization with the statistics of a different data set or scale (mean 123, for pixels in 0 to 1), or none at
all for readings such as pressures or years.

Evidence
--------
Mean and standard deviation of some of those features.

Use instead
-----------
    mean, std = train.mean(0), train.std(0)
    x = (x - mean) / std

When it is fine
---------------
Not reported: constant features, a minority of such features, models that normalize their inputs themselves (by a layer
or by arithmetic in `forward`), a first layer that a normalization layer follows (unless the standard deviations are
below 0.02, near the epsilon of that layer), and integer ids.
"""

from typing import Final

from trueloop.event import Column, FirstLayerInput, InputsSummarized, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["InputsHardlyVary"]

OFFSET: Final = 20.0
MOST: Final = 0.5
VANISHING: Final = 0.02  # deviations below this are no match for the epsilon of a normalization layer
LEAST_ROWS: Final = 64


class InputsHardlyVary(Rule, code="DAT121", severity=Severity.WARNING):
    not_applicable = "no model was given numbers"

    def __init__(self) -> None:
        self._events: list[InputsSummarized] = []
        self._first: dict[int, FirstLayerInput] = {}

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.phase == "training" and event.position == 0 and event.kind != "tokens" and event.rows >= LEAST_ROWS:
            self._events.append(event)

    def on_first_layer_input(self, event: FirstLayerInput) -> None:
        self._first[event.model] = event

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._events:
            columns = [(i, c) for i, c in enumerate(event.columns) if c.distinct > 4]
            flat = [(i, c) for i, c in columns if _is_flat(c)]
            first = self._first.get(event.model)
            if not flat or len(flat) < MOST * len(columns) or first is None or not _arrives(event, first):
                continue
            if first.normalized_next and max(column.deviation for _, column in flat) > VANISHING:
                continue
            index, column = flat[0]
            noun = "channels" if event.kind == "channels" else "features"
            yield self.finding(
                event,
                f"{len(flat)} of {len(event.columns)} {noun} of the inputs of `{event.name}` hardly vary: {index} "
                f"is {column.mean:.4g} ± {column.deviation:.2g}.",
                fix="Normalize with the mean and standard deviation of this training data, on the same scale.",
                evidence={f"{noun[:-1]} {i}": f"{c.mean:.4g} ± {c.deviation:.2g}" for i, c in flat[:4]},
            )


def _is_flat(column: Column) -> bool:
    return column.deviation > 0 and abs(column.mean) > OFFSET * column.deviation


def _arrives(event: InputsSummarized, first: FirstLayerInput) -> bool:
    """The first layer with weights receives the inputs as they are: its values lie in their range."""
    low, high = min(c.smallest for c in event.columns), max(c.largest for c in event.columns)
    slack = 0.05 * (high - low)
    inside = low - slack <= first.smallest and first.largest <= high + slack
    return inside and first.largest - first.smallest > 0.3 * (high - low)
