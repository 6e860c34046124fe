"""DAT125 relation-differs-in-evaluation: inputs give the targets in both phases, but not in the same way.

What it sees
------------
A small probe model (nearest neighbors and ridge regression) predicts the targets of training rows from their inputs,
cross-validated, and a second one those of the evaluated rows. The first one, asked about the evaluated rows, is at
chance; so is the trained model.

Why it hurts
------------
The evaluation has data that mean something else: recorded with a different sample rate, in other units, with columns in
a different order, with labels of a different coding. Its score says nothing about the model.

Evidence
--------
The scores of the probes in their own phase and across, chance, and how the outputs of the model correlate with the
targets.

Use instead
-----------
Prepare both phases with one function, and store beside the data what it depends on:

    assert train["rate"] == valid["rate"] and train["columns"] == valid["columns"]

When it is fine
---------------
Not reported: fewer than 200 rows in training or evaluation, fewer than 100 new ones, targets that are hard to predict
in either phase, a model or a probe that does better than chance, and labels that were only renamed
(`labels-renamed-in-evaluation` reports those). An evaluation on a different domain may differ on purpose: allow it
there.
"""

import math
from typing import Final

from trueloop.event import AnswersCompared, InputsSummarized, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["RelationDiffersInEvaluation"]

ROWS: Final = 200
GOOD: Final = 0.3  # above chance
CHANCE: Final = 2.0  # standard errors above chance: not better
RELATED: Final = 0.1  # correlation of outputs and targets
LEARNED: Final = 0.5  # the same on training rows


class RelationDiffersInEvaluation(Rule, code="DAT125", severity=Severity.WARNING):
    not_applicable = "too few rows with targets were seen in training and evaluation"
    explained_by = ("validation-inputs-differ", "labels-renamed-in-evaluation", "class-missing-in-training",
                    "inputs-stretched-in-evaluation")  # fmt: skip

    def __init__(self) -> None:
        self._training: dict[tuple[int, int], InputsSummarized] = {}
        self._evaluation: dict[tuple[int, int], InputsSummarized] = {}
        self._answers: dict[int, AnswersCompared] = {}

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        phase = self._training if event.phase == "training" else self._evaluation
        if event.probe is not None and event.probed >= ROWS and event.probe - event.chance >= GOOD:
            phase[event.model, event.position] = event

    def on_answers_compared(self, event: AnswersCompared) -> None:
        self._answers[event.model] = event

    def on_run_ended(self, end: RunEnded) -> Findings:
        for key, evaluation in self._evaluation.items():
            training, answers = self._training.get(key), self._answers.get(key[0])
            if training is None or answers is None or evaluation.transferred is None or evaluation.arguments > 1:
                continue
            chance = evaluation.chance
            error = math.sqrt(max(chance, 0.05) * (1 - chance) / evaluation.transferred_rows)
            if answers.kind == "amounts" and not chance:
                error = RELATED / CHANCE
            if evaluation.transferred > chance + CHANCE * error or answers.evaluated_at < end.step / 2:
                continue
            if answers.relation > RELATED or answers.training is None or answers.training < LEARNED:
                continue
            yield self.finding(
                evaluation,
                f"A probe predicts the targets of training rows with {training.probe:.2f} and, fitted again, those of "
                f"evaluated rows with {evaluation.probe:.2f}; fitted to training rows it gets "
                f"{evaluation.transferred:.2f} on {evaluation.transferred_rows} evaluated rows (chance {chance:.2f}): "
                "inputs or targets mean something else here.",
                fix="Compare how the two phases were recorded and prepared: units, sample rate, order of the columns, "
                "coding of the labels.",
                evidence={"training_probe": training.probe, "evaluation_probe": evaluation.probe,
                          "across": evaluation.transferred, "chance": chance,
                          "model_on_training_rows": round(answers.training, 3),
                          "model_on_evaluated_rows": round(answers.relation, 3), "training_at": training.place},
            )  # fmt: skip
