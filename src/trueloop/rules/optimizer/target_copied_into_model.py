"""OPT132 target-copied-into-model: the trained network is overwritten with its target network, which never changes.

What it sees
------------
A model that an optimizer trains loads the state of a second model, two times or more, and the same optimizer stepped
before each of these loads. The second model is called without gradients in the training steps, no optimizer holds it,
and its weights are the same from the first of these loads to the end of the run.

Why it hurts
------------
The copy has the wrong direction. Each time, the trained network loses what it has learned since the last one, and the
target network, which should follow it, keeps its initial weights.

Evidence
--------
The number of loads, how many steps each of them undid, and in how many steps the second model was called.

Use instead
-----------
    target.load_state_dict(online.state_dict())

When it is fine
---------------
Not reported: restarts with a new optimizer (folds, seeds, pruning), a second model that follows the training (a server
of federated learning, slow weights, an old policy that is restored when a step is rejected), a best model that is put
back and not called in training steps, and one single load.
"""

from typing import Final

from trueloop.event import RunEnded, TrainedModelOverwritten
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["TargetCopiedIntoModel"]

CALLED: Final = 0.5  # of the steps that call the trained model: a model that is put back is only evaluated


class TargetCopiedIntoModel(Rule, code="OPT132", severity=Severity.ERROR):
    not_applicable = "no trained model loaded the state of a second model twice"

    def __init__(self) -> None:
        self._found: list[TrainedModelOverwritten] = []

    def on_trained_model_overwritten(self, event: TrainedModelOverwritten) -> None:
        self._found.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._found:
            if event.source_steps < CALLED * event.trained_steps or end.reason != "finished":
                continue
            yield self.finding(
                event,
                f"{plural(len(event.undone), 'load')} copied the weights of a second {event.source} into the trained "
                f"one and undid {plural(sum(event.undone), 'step')}; the second one is called without gradients and "
                "never changed.",
                fix="Copy in the other direction: `target.load_state_dict(online.state_dict())`.",
                evidence={"model": event.model, "loads": len(event.undone), "steps_undone": list(event.undone[:16]),
                          "trained_steps": event.trained_steps, "steps_with_second_model": event.source_steps},
            )  # fmt: skip
