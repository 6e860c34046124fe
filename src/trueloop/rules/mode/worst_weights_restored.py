"""MOD122 worst-weights-restored: the weights that are kept as the best are those of the worst evaluation.

What it sees
------------
The weights that each evaluation saw, and the values of validation or test data that were printed then. After the last
training step the weights of an earlier evaluation are evaluated again (a restored state, a copied model, a file), or a
file with "best" in its name was last written at an earlier evaluation. By every printed value whose name says which
direction is better, these weights are the worst of at least four, and far from the middle.

Why it hurts
------------
The comparison that selects the weights has the wrong direction: `max` of a loss, `min` of an accuracy, an early
stopping object in the wrong mode. The first, hardly trained weights win, and the result of the run is theirs.

Evidence
--------
The metric, its value at the weights that were kept, the best value and its step, and the number of evaluations.

Use instead
-----------
    best = min(checkpoints, key=lambda c: c["mean_rank"])     # less is better
    stopper = EarlyStopping(patience=5, mode="max")           # accuracy, AUC: more is better

When it is fine
---------------
Not reported: training continues after the weights are restored (a rewind), several kept states that are evaluated one
after the other, the untrained weights, fewer than four evaluations, weights that are the best by any printed value or
at an end of a value whose name gives no direction (another criterion), values that hardly differ, and values whose
name does not say which direction is better.
"""

from collections.abc import Iterator
from statistics import median
from typing import Final, NamedTuple

from trueloop.event import WeightsRestored
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.names import better_by_name

__all__ = ["WorstWeightsRestored"]

FEWEST: Final = 4
"""Evaluations. A criterion that is unrelated to the printed values would select the worst of n in one of n runs; that
of a run whose weights get better is the first one, which no other criterion prefers."""
SHOWN: Final = 0.75  # of the evaluations that printed the value
MIDDLE: Final = 0.25  # of the way from the worst to the best value, at least, to the median: not one of many bad ones
APART: Final = 0.03  # the best and the worst value, relative to the larger: less may be noise


class _Metric(NamedTuple):
    name: str
    better: int
    chosen: float
    best: float
    best_step: int
    evaluations: int
    is_worst: bool


class WorstWeightsRestored(Rule, code="MOD122", severity=Severity.WARNING):
    not_applicable = "no weights of an earlier evaluation were restored at the end"

    def on_weights_restored(self, event: WeightsRestored) -> Findings:
        metrics = list(_metrics(event))
        worst = [metric for metric in metrics if metric.is_worst]
        untrained = event.evaluated[event.chosen].step == 0  # shown for comparison
        if not worst or len(worst) < len(metrics) or untrained:
            return
        shown = worst[0]
        step, direction = event.evaluated[event.chosen].step, "higher" if shown.better > 0 else "lower"
        weights = f"the weights of step {step}"
        what = f"The file holds {weights}" if event.file else f"T{weights[1:]} are restored"
        yield self.finding(
            event,
            f"{what}, the worst of {shown.evaluations} evaluations: `{shown.name}` is {shown.chosen:.4g} there and "
            f"{shown.best:.4g} at step {shown.best_step}, and {direction} is better.",
            fix="Turn the comparison that selects the weights around (`min` or `max`, `<` or `>`, `mode=`).",
            evidence={"metric": shown.name, "restored": shown.chosen, "best": shown.best, "restored_step": step,
                      "best_step": shown.best_step, "evaluations": shown.evaluations},
        )  # fmt: skip


def _metrics(event: WeightsRestored) -> Iterator[_Metric]:
    """Printed values that say something: the worst ones, and all that may have been the reason for this choice."""
    chosen = dict(event.evaluated[event.chosen].values)
    for name, value in chosen.items():
        values = [(dict(one.values)[name], one.step) for one in event.evaluated if name in dict(one.values)]
        if len(values) < max(FEWEST, SHOWN * len(event.evaluated)):
            continue
        low, high = min(values), max(values)
        if low[0] == high[0]:
            continue
        better = better_by_name(name.split("_"))
        if better == 0:
            if value in (low[0], high[0]):
                yield _Metric(name, 0, value, value, 0, len(values), is_worst=False)
            continue
        worst, best = (low, high) if better > 0 else (high, low)
        middle = median(number for number, _ in values)
        far = abs(middle - worst[0]) >= MIDDLE * (high[0] - low[0])
        apart = high[0] - low[0] >= APART * max(abs(high[0]), abs(low[0]))
        is_worst = value == worst[0] and far and apart
        yield _Metric(name, better, value, best[0], best[1], len(values), is_worst)
