"""OPT138 evaluated-average-still-initial: the averaged model that is evaluated in the end consists of initial weights.

What it sees
------------
After the last step a model is evaluated that no optimizer trains. Its weights lie on the way from the initial weights
of a trained model to its final ones, and three quarters of the way, or more, are still to go. Its numbers show it,
however and wherever the average is updated.

Why it hurts
------------
An average with a decay of 0.99 needs some hundred updates to forget the weights it began with. Updated once per epoch
instead of once per step, it is the untrained model, and so are the results.

Evidence
--------
The share of initial weights, the number of steps, and how far the trained weights moved.

Use instead
-----------
    for x, y in loader:
        ...
        optimizer.step()
        ema.update(model)        # in the loop over batches

When it is fine
---------------
Not reported: the untrained model itself, weights that hardly changed (fine-tuning), trained models that loaded a state,
several states of one model that are evaluated after the last step (weights between two models), averages that are not
evaluated in the end, runs of fewer than 200 steps, and averages that are updated in recorded steps, which
`weight-copy-does-not-follow` checks.
"""

from typing import Final

from trueloop.event import CopyMostlyInitial, RunEnded, WeightCopies
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["EvaluatedAverageStillInitial"]

INITIAL: Final = (0.75, 0.995)  # least and most: one that is all initial is kept on purpose
APART: Final = 0.5
MOVED: Final = 0.3  # of the trained weights: less is fine-tuning
STEPS: Final = 200
WEIGHTS: Final = 2
RECORDED: Final = 3  # recorded steps that update a copy


class EvaluatedAverageStillInitial(Rule, code="OPT138", severity=Severity.WARNING):
    not_applicable = "no average of a trained model was evaluated after the last step"

    def __init__(self) -> None:
        self._recorded = 0
        self._found: list[CopyMostlyInitial] = []

    def on_weight_copies(self, event: WeightCopies) -> None:
        self._recorded += 1

    def on_copy_mostly_initial(self, event: CopyMostlyInitial) -> None:
        self._found.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._found if self._recorded < RECORDED and end.reason == "finished" else ():
            between = INITIAL[0] <= event.initial <= INITIAL[1] and event.apart <= APART and event.states == 1
            if not between or event.moved < MOVED or event.steps < STEPS or event.weights < WEIGHTS:
                continue
            yield self.finding(
                event,
                f"The {event.model} that is evaluated here after {plural(event.steps, 'step')} is still "
                f"{event.initial:.0%} the initial weights of the trained {event.trained}.",
                fix="Update the average after every optimizer step, with a decay that fits the number of updates.",
                evidence={"initial": round(event.initial, 4), "steps": event.steps, "moved": round(event.moved, 4),
                          "weights": event.weights},
            )  # fmt: skip
