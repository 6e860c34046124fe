"""MOD124 scored-with-other-labels: a printed score compares the outputs with the labels of other samples.

What it sees
------------
A model is evaluated on all batches of a loader, and the outputs are collected. A number that the script prints then is,
digit for digit, a score of these outputs (accuracy, error, correlation, AUC ...) against the labels in a different
order: that of the dataset, although the loader shuffles, or that of another pass over it. The score against the labels
of the same batches is a different number, and is never printed. This happened often enough that chance is excluded.

Why it hurts
------------
The score says nothing about the model: an accuracy is at chance, however good the model is. Early stopping, a search
over settings and the choice of a checkpoint follow noise.

Evidence
--------
The printed number and the same score against the samples' own labels, for the latest pass; how many passes.

Use instead
-----------
    for x, y in loader:                    # take the labels from the batch
        outputs.append(model(x))
        labels.append(y)

    valid_loader = DataLoader(valid_set, batch_size=64, shuffle=False)

When it is fine
---------------
Not reported: a score against the right labels that is printed too (a baseline with permuted labels), outputs that are
put back into the order of the dataset, a loader that does not shuffle, and scores that both orders give.

Not detected: scores that the script does not print, prints with one or two digits, or computes in another unit.
"""

from typing import Final

from trueloop.event import OtherLabelsScored
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["ScoredWithOtherLabels"]

CERTAIN: Final = 4.5  # decimal digits by which chance is excluded, over all passes
FEWEST: Final = 2  # passes: the labels of one may be in a different order on purpose
_ORDERS: Final = {
    "dataset": "the labels in the order of the dataset, although the loader shuffles",
    "pass": "the labels of a different pass over the shuffling loader",
}


class ScoredWithOtherLabels(Rule, code="MOD124", severity=Severity.ERROR):
    not_applicable = "no printed number is a score of collected outputs against labels in a different order"

    def on_other_labels_scored(self, event: OtherLabelsScored) -> Findings:
        if event.own_passes or event.passes < FEWEST or event.digits < CERTAIN:
            return
        latest = event.latest
        yield self.finding(
            event,
            f"The printed {latest.printed:.6g} is the {latest.score} of {event.rows} outputs against "
            f"{_ORDERS[event.labels]}. Against their own labels it is {latest.own:.4g}. "
            f"So it is in {plural(event.passes, 'pass')}.",
            fix="Collect outputs and labels in the same pass over the loader, or set `shuffle=False` in its loader.",
            evidence={"printed": latest.printed, "score": latest.score, "own_labels": round(latest.own, 6),
                      "rows": event.rows, "passes": event.passes, "model": event.model,
                      "evaluated": event.model_place, "order_of_labels": event.labels},
        )  # fmt: skip
