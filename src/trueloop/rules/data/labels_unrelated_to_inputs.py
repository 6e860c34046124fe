"""DAT120 labels-unrelated-to-inputs: nothing, or little, in the inputs predicts the training targets.

What it sees
------------
A small probe model (nearest neighbors and ridge regression, cross-validated on sampled rows, equally many of each
class; of tokens, how often each occurs) tries to predict the targets from the inputs. On the training rows it is no
better than chance. Then one of two:

- on the evaluated rows it clearly is better;
- on the evaluated rows it is not better either, and neither is the model: its outputs agree at best with the targets
  of training rows, which it has learned by heart, and not at all with those of new rows.

Or it is better than chance, but less than half as much as on the evaluated rows, and a probe of the training rows is
just as poor on the evaluated ones: noise in the labels would average out there, a wrong assignment does not.

Why it hurts
------------
Inputs and labels were separated: shuffled by two permutations, shifted by a row, joined by a wrong key, or one of them
comes from a cache that was written when the rows had a different order, or files with different codings of the labels
were joined. The model can only memorize, and its score on
correct data stays at chance.

Evidence
--------
Score of the probe on both sides, and chance; correlation of the outputs with the targets of training rows and of new
rows.

Use instead
-----------
    order = torch.randperm(len(x))
    x, y = x[order], y[order]            # one permutation for both
    assert cache["ids"] == table["ids"]  # a cache holds the keys of its rows

When it is fine
---------------
Not reported: fewer than 200 rows on a side (140 in training, where nothing predicts the targets on either side), far
fewer training rows than evaluation rows, noisy labels as long as they can be predicted better than by chance, tasks
that change from batch to batch (meta-learning), and, where only evaluated targets can be predicted: losses that give
single rows a weight, or pick some (annotators of different trust, the rows of small loss). Where neither side can be
predicted: inputs that look like random draws (`torch.randn`), models with several inputs, evaluations in the first half
of the run, and, with fewer than 300 rows, models that have not learned their training rows either. Training on random
labels on purpose is reported: allow it there.
"""

import math
from typing import Final

from trueloop.event import AnswersCompared, InputsSummarized, RunEnded, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.program_weights import weighs_rows
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LabelsUnrelatedToInputs"]

ROWS: Final = 200
FEW: Final = 140  # rows: enough where the model, which has learned them, is no better either
SURE: Final = 0.6  # of the limits, with so few
CHANCE: Final = 2.5  # standard errors above chance: not better
BETTER: Final = 6.0


RELATED: Final = 0.1  # correlation of outputs with the targets of new rows
LEARNED: Final = 0.15  # the same on training rows
ANSWERS: Final = 100
KNOWN: Final = 0.5  # above chance, on evaluated rows
HALF: Final = 0.5
SAME_AGAIN: Final = 0.95
MOVED: Final = 0.3  # standard deviations
STEPS: Final = 150
MANY: Final = 300  # rows: with as many, the model need not have learned its training rows by heart


class LabelsUnrelatedToInputs(Rule, code="DAT120", severity=Severity.WARNING):
    not_applicable = "too few rows with targets were seen in training and evaluation"
    explained_by = ("labels-misaligned-with-inputs", "labels-coded-in-two-ways", "reshape-instead-of-transpose",
                    "rows-of-files-out-of-step")  # fmt: skip

    def __init__(self) -> None:
        self._events: dict[tuple[int, int], dict[str, InputsSummarized]] = {}
        self._answers: dict[int, AnswersCompared] = {}
        self._weighted = False
        """The script gives its rows different weights, so it knows that some labels are worth less."""

    def on_step_program(self, event: StepProgram) -> None:
        self._weighted |= event.phase == "training" and weighs_rows(ProgramView(event))

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.probe is not None and event.probed >= FEW:
            self._events.setdefault((event.model, event.position), {})[event.phase] = event

    def on_answers_compared(self, event: AnswersCompared) -> None:
        self._answers[event.model] = event

    def on_run_ended(self, end: RunEnded) -> Findings:
        for sides in self._events.values():
            training, evaluation = sides.get("training"), sides.get("evaluation")
            if training is None or training.probe is None:
                continue
            if evaluation is not None and evaluation.probed < ROWS:
                evaluation = None
            if training.above_chance > CHANCE:
                if not self._weighted:
                    yield from self._contradicting(training, evaluation)
                continue
            answers = self._answers.get(training.model)
            if evaluation is not None and evaluation.probe is not None and evaluation.above_chance > CHANCE:
                if self._weighted:
                    continue
                yield from self._only_training(training, evaluation)
            elif answers is not None and not training.noise and training.arguments == 1:
                yield from self._both(training, answers, end.step)

    def _only_training(self, training: InputsSummarized, evaluation: InputsSummarized) -> Findings:
        assert training.probe is not None
        assert evaluation.probe is not None
        if evaluation.above_chance < BETTER or evaluation.probe - evaluation.chance < 0.15 or training.probed < ROWS:
            return
        if evaluation.probed > 1.5 * training.probed:
            return
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

    def _contradicting(self, training: InputsSummarized, evaluation: InputsSummarized | None) -> Findings:
        if evaluation is None or evaluation.probe is None or evaluation.transferred is None or training.probe is None:
            return
        if training.probed < ROWS:
            return
        known, alone = evaluation.probe - evaluation.chance, training.probe - training.chance
        carried = evaluation.transferred - evaluation.chance
        if not evaluation.chance:  # a correlation
            carried = max(0.0, carried) ** 2
        repeated = training.distinct_rows < SAME_AGAIN * training.rows  # no random augmentation
        if known < KNOWN or max(alone, carried) > HALF * known or not repeated or training.arguments > 1:
            return
        if evaluation.transferred_rows < ANSWERS or evaluation.probed > training.probed:
            return
        if not _same_distribution(training, evaluation):
            return
        yield self.finding(
            training,
            f"A probe predicts the targets of {evaluation.probed} evaluated rows with {evaluation.probe:.2f} and those "
            f"of {training.probed} training rows with {training.probe:.2f} (chance {training.chance:.2f}); fitted to "
            f"training rows it gets {evaluation.transferred:.2f} on evaluated ones. Many training targets are not "
            "those of their inputs.",
            fix="Compare the parts of the training data: the coding of the labels in each file, and shifts of rows or "
            "of time between inputs and targets.",
            evidence={"training_probe": round(training.probe, 3), "evaluation_probe": round(evaluation.probe, 3),
                      "across": round(evaluation.transferred, 3), "training_chance": round(training.chance, 3)},
        )  # fmt: skip

    def _both(self, training: InputsSummarized, answers: AnswersCompared, steps: int) -> Findings:
        learned = answers.training
        if answers.rows < ANSWERS or answers.evaluated_at < max(STEPS, steps / 2) or learned is None:
            return
        limit = min(RELATED, CHANCE / math.sqrt(answers.rows))
        if training.probed < ROWS and (training.above_chance > SURE * CHANCE or abs(answers.relation) > SURE * limit):
            return
        by_heart = learned >= LEARNED + max(0.0, answers.relation)
        if abs(answers.relation) > limit or not (by_heart or min(training.probed, 2 * answers.rows) >= MANY):
            return
        assert training.probe is not None
        yield self.finding(
            training,
            f"Nothing in the inputs predicts the targets: a probe gets {training.probe:.2f} on {training.probed} "
            f"training rows (chance {training.chance:.2f}), and the outputs of `{answers.name}` correlate "
            f"{learned:.2f} with targets that it was trained on and {answers.relation:.2f} with those of "
            f"{answers.rows} other rows.",
            fix="Check that rows and targets belong together: print some of them beside their keys. Look for a cache "
            "or a file in a different row order, a lost or added line, and separate shuffles.",
            evidence={"training_probe": round(training.probe, 3), "training_chance": round(training.chance, 3),
                      "on_training_rows": round(learned, 3), "on_other_rows": round(answers.relation, 3),
                      "rows": answers.rows, "evaluated_at_step": answers.evaluated_at},
        )  # fmt: skip


def _same_distribution(one: InputsSummarized, other: InputsSummarized) -> bool:
    """The inputs of both phases are alike, so that a difference is one of the targets."""
    return all(
        abs(a.mean - b.mean) <= MOVED * max(a.deviation, 1e-12) and b.deviation <= 1.5 * max(a.deviation, 1e-12)
        for a, b in zip(one.columns, other.columns, strict=False)
    )
