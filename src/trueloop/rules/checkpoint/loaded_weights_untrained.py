"""CKP108 loaded-weights-untrained: the weights that were loaded are still as they were initialized.

What it sees
------------
A state that was loaded from a file. Each matrix is uniform within the exact bound of PyTorch's initialization, each
norm is at one and zero. Yet there was training: the file holds a second state with the same names, whose weights are
trained, or it counts steps. Nothing trains the model that loaded them, and nothing else of the file is loaded.

Why it hurts
------------
A moving average that was never updated, a teacher that was never copied, a model saved in place of the trained one: the
file looks like any other, and the features of a random network are good enough for a score that looks plausible.

Evidence
--------
Where the file stores these weights, where it stores trained ones, and what it says of the training.

Use instead
-----------
    model.load_state_dict(checkpoint["model"])     # the trained weights
    ema.update_parameters(model)                   # in every step, before the average is saved

When it is fine
---------------
Not reported: weights that this run trains afterwards, states or files that are called initial or random, a second state
of the file that is loaded too (random network distillation), files that hold one state and count nothing, states in
half precision, initializations other than PyTorch's own, and states in which one matrix was trained.
"""

import os
from typing import Final

from trueloop.event import UntrainedLoaded
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["LoadedWeightsUntrained"]

WHOLE: Final = "this file"


class LoadedWeightsUntrained(Rule, code="CKP108", severity=Severity.ERROR):
    not_applicable = "no state was loaded from a file with further states or a count of steps"

    def on_untrained_loaded(self, event: UntrainedLoaded) -> Findings:
        file = f"`{os.path.basename(event.file)}`" if event.file else WHOLE
        what = f"`{event.key}` in {file}" if event.key else file
        if event.trained_key:
            but = f"`{event.trained_key}` has the same names and is trained"
            fix = f"Load `{event.trained_key}`, or find out why `{event.key}` was never updated when it was saved."
        else:
            but = f"the file says {event.counted}"
            fix = "Write the file again, from the model that was trained."
        yield self.finding(
            event,
            f"{event.model} loads {plural(event.tensors, 'tensor')} of {what} that are as PyTorch initializes them; "
            f"{but}. Nothing trains this model afterwards, so it is a random network.",
            fix=fix,
            evidence={"file": os.path.basename(event.file), "key": event.key, "trained_key": event.trained_key,
                      "counted": event.counted, "tensors": event.tensors},
        )  # fmt: skip
