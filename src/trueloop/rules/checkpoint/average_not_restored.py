"""CKP110 average-not-restored: after a resume, the averaged weights start again from untrained ones.

What it sees
------------
A file holds two states with the same names: the weights, and a second one (their moving average, a teacher, a target
network). Training resumes from the first one. In the next file that holds both, the second state is not made from the
one in the file: it lies on the way to the weights that the model had before the load, which are untrained.

Why it hurts
------------
The copy was made from the new model before the file was loaded, and the saved copy was not loaded. An average with a
decay of 0.999 is still a third of untrained weights after 1,000 steps, and it is often the model that is evaluated.

Evidence
--------
The share of the weights from before the load, in the second state as it was read and as it was written next; the number
of steps in between.

Use instead
-----------
    model.load_state_dict(checkpoint["model"])
    ema.load_state_dict(checkpoint["ema"])        # or: build the average after the model is loaded

When it is fine
---------------
Not reported: a second state that is restored, in whatever way; an average that restarts from the loaded weights; the
best weights so far; a copy of the untrained weights that is kept as it is; files that are read for evaluation.

Not detected: a run that saves nothing after the resume, and averages that are saved as a list.
"""

from typing import Final

from trueloop.event import SecondStateAfterResume
from trueloop.rules.rule import Findings, Rule, Severity, plural
from trueloop.usercode.source import shown_path

__all__ = ["AverageNotRestored"]

SHARE: Final = 0.1  # of the weights before the load: so much more than the file and the trained weights have
APART: Final = 0.5  # at most: what the average followed since, relative to its distance from the loaded weights
FEWEST: Final = 2  # weights: one alone may be something else


class AverageNotRestored(Rule, code="CKP110", severity=Severity.ERROR):
    not_applicable = "no training resumed from a file with two states of one model"

    def on_second_state_after_resume(self, event: SecondStateAfterResume) -> Findings:
        known = max(0.0, event.share_read, event.share_trained)  # weights may shrink back to those of the beginning
        restarted = known + SHARE <= event.share_written < 1 + SHARE
        if not restarted or event.apart > APART or event.weights < FEWEST:
            return
        second = "".join(f"[{word!r}]" for word in event.second)
        file = shown_path(event.file) if event.file else "a checkpoint"
        share = min(1.0, event.share_written)
        yield self.finding(
            event,
            f"{event.model} resumes from {file}, but the second state in it, {second}, does not: "
            f"{plural(event.steps, 'step')} later, {share:.0%} of it are the weights that {event.model} had before "
            "the load.",
            fix=f"Load it too: `checkpoint{second}`, or build the copy after the model is loaded.",
            evidence={"file": file, "second_state": second, "share_of_weights_before_load": round(share, 4),
                      "share_in_file": round(event.share_read, 4), "steps": event.steps, "saved": event.saved_at},
        )  # fmt: skip
