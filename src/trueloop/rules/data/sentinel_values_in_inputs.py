"""DAT113 sentinel-values-in-inputs: a code for a missing value, such as -999, is fed to the model as a number.

What it sees
------------
In a feature of the model's inputs, many rows have exactly the same smallest or largest value, and it lies far away
from all other values of that feature.

Why it hurts
------------
The model takes the code for a measurement. A few such rows dominate the mean and the spread used for normalization,
so the real values are squeezed into a narrow range, and the gradients of those rows dominate.

Evidence
--------
The feature, the value, the share of rows that have it, and its distance to the other values in units of their range.

Use instead
-----------
    missing = column == -999
    column[missing] = column[~missing].median()          # before computing mean and standard deviation

When it is fine
---------------
Not reported: zeros and ends of a range that lie near other values, categories, clipped columns, single outliers (also
when an epoch repeats them), the 1 of shares, zeros that pad sequences, and numbers such as -1e9 that mask attention.
"""

from typing import Final

from trueloop.event import InputsSummarized, Repeated
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SentinelValuesInInputs"]

GAP: Final = 5.0  # ranges of the other values, 10th to 90th percentile
OF_RANGE: Final = 1.5  # whole ranges of the other values
SMALL_SHARES: Final = 20.0  # ranges of the other values: 9999 becomes 1 when a column is scaled to 0 ... 1
MASK: Final = 1e8  # larger numbers switch off positions of attention


class SentinelValuesInInputs(Rule, code="DAT113", severity=Severity.WARNING):
    not_applicable = "no model was given numbers"

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def on_inputs_summarized(self, event: InputsSummarized) -> Findings:
        if event.kind != "features" or (event.model, event.position) in self._seen:
            return
        flat = len(event.shape) == 2
        found = [
            (i, c.repeated)
            for i, c in enumerate(event.columns)
            if c.repeated and _is_code(c.repeated, flat) and not (c.smallest >= 0 and _is_whole(c.repeated))
        ]
        if not found:
            return
        self._seen.add((event.model, event.position))
        index, repeated = max(found, key=lambda item: item[1].gap)
        others = f" ({len(found)} features are affected)" if len(found) > 1 else ""
        yield self.finding(
            event,
            f"Feature {index} is exactly {repeated.value:.6g} in {repeated.share:.1%} of the rows, "
            f"{repeated.gap:.0f} times the range of its other values away from them{others}: probably a code for "
            "missing values.",
            fix="Replace the code before normalizing: impute the median of the other rows, and add a column that "
            "marks missing values.",
            evidence={"feature": index, "value": repeated.value, "share": round(repeated.share, 4),
                      "gap_in_ranges": round(repeated.gap, 1), "features": [i for i, _ in found][:16]},
        )  # fmt: skip


def _is_code(repeated: Repeated, flat: bool) -> bool:
    far = repeated.gap >= GAP and repeated.of_range >= OF_RANGE
    return far and abs(repeated.value) < MASK and (flat or repeated.value != 0)


def _is_whole(repeated: Repeated) -> bool:
    """The 1 of shares and probabilities is an end of their range, and may be far from all other values."""
    return repeated.value == 1 and repeated.of_range < SMALL_SHARES
