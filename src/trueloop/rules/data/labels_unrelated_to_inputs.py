"""DAT120 labels-unrelated-to-inputs: inputs predict the labels of the evaluation, and not those of the training.

What it sees
------------
A small probe model (nearest neighbors and ridge regression, cross-validated on sampled rows, equally many of each
class) tries to predict the targets from the inputs. On the training rows it is no better than chance; on the evaluation
rows it clearly is.

Why it hurts
------------
Inputs and labels were separated: shuffled by two permutations, shifted by a row, joined by a wrong key. The model
can only memorize, and its score on correct data stays at chance.

Evidence
--------
Score of the probe on both sides, and chance.

Use instead
-----------
    order = torch.randperm(len(x))
    x, y = x[order], y[order]            # one permutation for both

When it is fine
---------------
Not reported: fewer than 200 rows on a side, far fewer training rows than evaluation rows, tasks that the probe cannot
do on the evaluation rows either, noisy labels as long as they can be predicted better than by chance, and tasks that
change from batch to batch (meta-learning). Training on random labels on purpose is reported: allow it there.
"""

import math
from typing import Final

from trueloop.event import InputsSummarized, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LabelsUnrelatedToInputs"]

ROWS: Final = 200
CHANCE: Final = 2.5  # standard errors above chance: not better
BETTER: Final = 6.0


class LabelsUnrelatedToInputs(Rule, code="DAT120", severity=Severity.WARNING):
    not_applicable = "too few rows with targets were seen in training and evaluation"

    def __init__(self) -> None:
        self._events: dict[tuple[int, int], dict[str, InputsSummarized]] = {}

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.probe is not None and event.probed >= ROWS:
            self._events.setdefault((event.model, event.position), {})[event.phase] = event

    def on_run_ended(self, _: RunEnded) -> Findings:
        for sides in self._events.values():
            training, evaluation = sides.get("training"), sides.get("evaluation")
            if training is None or evaluation is None or training.probe is None or evaluation.probe is None:
                continue
            if _sigmas(training) > CHANCE or _sigmas(evaluation) < BETTER:
                continue
            if evaluation.probe - evaluation.chance < 0.15 or evaluation.probed > 1.5 * training.probed:
                continue
            yield self.finding(
                training,
                f"A probe predicts the targets of {training.probed} training rows from their inputs with "
                f"{training.probe:.2f} (chance {training.chance:.2f}), and those of {evaluation.probed} evaluated rows "
                f"with {evaluation.probe:.2f} (chance {evaluation.chance:.2f}): training labels are not those of their "
                "inputs.",
                fix="Check every shuffle, sort, join and shift between reading the data and the batch: inputs and "
                "labels must go through the same one.",
                evidence={"training_probe": round(training.probe, 3), "evaluation_probe": round(evaluation.probe, 3),
                          "training_chance": round(training.chance, 3)},
            )  # fmt: skip


def _sigmas(event: InputsSummarized) -> float:
    """How many standard errors the probe is above chance."""
    assert event.probe is not None
    chance = min(max(event.chance, 0.05), 0.95)
    return (event.probe - event.chance) / math.sqrt(chance * (1 - chance) / event.probed)
