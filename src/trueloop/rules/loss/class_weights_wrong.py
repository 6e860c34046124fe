"""LOS113 class-weights-wrong: class weights grow with the frequency, belong to other classes, or remove a class.

What it sees
------------
The `weight` of a cross entropy beside the classes of its targets. The frequent classes have the large weights and the
rare ones the small weights; or the numbers balance the classes, but are given to other classes; or a class
that occurs has the weight 0, and is neither the first nor the last one.

Why it hurts
------------
Class weights are there to balance: they must grow as a class gets rarer. The other way round they make an imbalance
worse, and the rare classes are never predicted. With the weight 0 a class is not trained at all.

Evidence
--------
Weights and counts of the classes.

Use instead
-----------
    weight = counts.sum() / (len(counts) * counts)         # rare classes weigh more

When it is fine
---------------
Not reported: nearly equal weights or counts, weights without a clear relation to the counts, and the weight 0 for one
class at an end of the list (padding, background, void). Of two classes, only weights in proportion to the counts.
"""

from typing import Final

from trueloop.event import ClassWeights
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ClassWeightsWrong"]

TARGETS: Final = 100
RATIO: Final = 2.0  # of the largest to the smallest, in weights and in counts
FEWEST: Final = 20  # sampled targets of a class: fewer do not show its frequency
CLOSE: Final = 1.5  # of the largest to the smallest product of weight and count, for weights that balance the classes


class ClassWeightsWrong(Rule, code="LOS113", severity=Severity.WARNING):
    not_applicable = "no cross entropy with class weights was called"

    def on_class_weights(self, event: ClassWeights) -> Findings:
        pairs = [(w, c, i) for i, (w, c) in enumerate(zip(event.weights, event.counts, strict=True)) if c]
        if sum(event.counts) < TARGETS or len(pairs) < 2:
            return
        evidence = {"weights": [round(w, 4) for w, _, _ in pairs], "counts": [c for _, c, _ in pairs]}
        removed = [(c, i) for w, c, i in pairs if w == 0]
        if removed and (len(removed) > 1 or 0 < removed[0][1] < len(event.weights) - 1):
            count, index = max(removed)
            yield self.finding(
                event,
                f"Class {index} has the weight 0 and {count} of {sum(event.counts)} sampled targets: it is not "
                "trained.",
                fix="Give every class that occurs a weight above 0.",
                evidence=evidence,
            )
            return
        pairs = [pair for pair in pairs if pair[0] > 0]
        weights, counts = [w for w, _, _ in pairs], [c for _, c, _ in pairs]
        if len(pairs) < 2:
            return
        if event.positive:
            if counts[0] > RATIO * counts[1] and weights[1] < 1 / RATIO:
                yield self.finding(
                    event,
                    f"`pos_weight` is {weights[1]:.3g} and {counts[1]} of {sum(counts)} sampled targets are positive: "
                    "the rare class is weighted down.",
                    fix="Use negatives / positives, not the inverse.",
                    evidence=evidence,
                )
            return
        if max(weights) < RATIO * min(weights) or max(counts) < RATIO * min(counts):
            return
        if _is_reordered(weights, counts):
            rare = min(pairs, key=lambda p: p[1])
            yield self.finding(
                event,
                f"The class weights balance the classes only in another order: class {rare[2]}, the rarest "
                f"({rare[1]} of {sum(counts)} sampled targets), weighs {rare[0]:.3g}, and the largest weight is "
                f"{max(weights):.3g}.",
                fix="Count the classes in the order of their indices: `torch.bincount(labels)`.",
                evidence=evidence,
            )
            return
        if _rank_agreement(weights, counts) < 0.99:
            return
        ratio = (max(weights) / min(weights)) / (max(counts) / min(counts))
        if len(pairs) == 2 and not 1 / RATIO < ratio < RATIO:
            return  # one of two classes may be worth more
        rare, frequent = min(pairs, key=lambda p: p[1]), max(pairs, key=lambda p: p[1])
        yield self.finding(
            event,
            f"The class weights grow with the frequency: class {frequent[2]} ({frequent[1]} targets) weighs "
            f"{frequent[0]:.3g}, class {rare[2]} ({rare[1]} targets) {rare[0]:.3g}.",
            fix="Use the inverse: `counts.sum() / (len(counts) * counts)`.",
            evidence=evidence,
        )


def _is_reordered(weights: list[float], counts: list[int]) -> bool:
    """Sorted, the weights are the inverse of the sorted counts (or of their roots); as they stand, they are not."""
    if len(counts) < 3 or min(counts) < FEWEST:
        return False
    ordered = list(zip(sorted(weights), sorted(counts, reverse=True), strict=True))
    for power in (1.0, 0.5):
        if max(counts) / min(counts) < RATIO ** (1 / power):
            continue
        balanced = [w * c**power for w, c in ordered]
        given = [w * c**power for w, c in zip(weights, counts, strict=True)]
        if max(balanced) < CLOSE * min(balanced) and max(given) > RATIO * CLOSE * min(given):
            return True
    return False


def _rank_agreement(one: list[float], other: list[int]) -> float:
    """Share of pairs in the same order; pairs that are nearly equal do not count."""
    every = [(a, b) for a in range(len(one)) for b in range(a)]
    pairs = [(a, b) for a, b in every if max(other[a], other[b]) > 1.2 * min(other[a], other[b])]
    same = sum((one[a] - one[b]) * (other[a] - other[b]) > 0 for a, b in pairs)
    return same / len(pairs) if pairs else 0.0
