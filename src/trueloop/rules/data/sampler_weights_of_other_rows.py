"""DAT172 sampler-weights-of-other-rows: a weighted sampler has weights that belong to other rows than it draws.

What it sees
------------
A loader reads a subset of a dataset with a `WeightedRandomSampler`. The weights were made from the labels of the first
rows of the whole dataset: there every label has one weight. Row 5 of the subset is a different row of the dataset, and
its weight is that of a different class in many cases.

Why it hurts
------------
The batches stay as imbalanced as the data, and some rows, drawn by chance, are seen many times as often as others.
The classes that the sampler should help are learned no better than without it.

Evidence
--------
The rows, the stored column that the weights follow, and the rows with the weight of a different class.

Use instead
-----------
    labels = dataset.labels[train_subset.indices]            # in the order of the rows that are drawn
    weights = (1 / torch.bincount(labels))[labels]
    sampler = WeightedRandomSampler(weights, len(train_subset))

When it is fine
---------------
Not reported: weights that follow any stored column of the rows that are drawn (labels, groups, years), weights that
follow none, subsets that are the first rows of the dataset, fewer than 100 rows, and fewer than 2% wrong weights.
"""

from typing import Final

from trueloop.event import SamplerWeightsCompared
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["SamplerWeightsOfOtherRows"]

LEAST: Final = 0.02  # of the rows: a few labels that were corrected later are no different order


class SamplerWeightsOfOtherRows(Rule, code="DAT172", severity=Severity.WARNING):
    not_applicable = "no loader draws rows of a subset by weights of its classes"

    def on_sampler_weights_compared(self, event: SamplerWeightsCompared) -> Findings:
        if event.wrong < LEAST * event.rows or self.count(event.place) > 1:
            return
        yield self.finding(
            event,
            f"The sampler's weights belong to rows 0 to {event.rows - 1} of `{event.dataset}` (by `{event.column}`), "
            f"but the loader reads a subset in a different order: {event.wrong:,} of {event.rows:,} rows have the "
            "weight of a different class.",
            fix="Make the weights from the labels of the rows that are drawn: `labels = labels[subset.indices]`.",
            evidence=facts(event, "dataset column rows stored_rows=stored classes wrong_weights=wrong"),
        )
