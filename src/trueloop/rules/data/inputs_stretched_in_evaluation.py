"""DAT161 inputs-stretched-in-evaluation: a feature in evaluation lies at a different place than in training.

What it sees
------------
For each position along an axis of the inputs (bands of a spectrum, samples of a signal as a spectrum) and in each
phase, what the position tells about the targets. The two phases do not agree as they are, and agree well after the axis
is stretched by 2, 3, 4, 1.5 or the ratio of two usual sample rates.

Why it hurts
------------
Features of one phase were computed with a different frame length, from signals of a different sample rate, or from
every second band: position n means what position 2n means in the other phase. All shapes are right. The evaluated score
says nothing about the model, or the model is trained for inputs that it will never get.

Evidence
--------
The axis and the factor, and the correlation of both phases before and after stretching.

Use instead
-----------
Compute the features of both phases with one function and one set of numbers, and store these beside a cache:

    numpy.savez(cache, features=features, frame=FRAME, rate=RATE)
    assert int(stored["frame"]) == FRAME and int(stored["rate"]) == RATE

When it is fine
---------------
Not reported: fewer than 80 rows with targets in either phase, fewer than 24 positions, positions that tell nothing
reliable about the targets, and phases that agree as they are; augmentation, noise, other classes or loudness change no
place. An evaluation on purpose at a different rate: allow it at the evaluating call.
"""

from trueloop.event import InputsStretched
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["InputsStretchedInEvaluation"]


class InputsStretchedInEvaluation(Rule, code="DAT161", severity=Severity.WARNING):
    not_applicable = "no inputs with at least 24 positions and targets were seen in training and evaluation"
    applies_after = (InputsStretched,)

    def on_inputs_stretched(self, event: InputsStretched) -> Findings:
        if not event.view:
            return
        later = event.factor > 1
        factor = event.factor if later else 1 / event.factor
        sides = ("training", "evaluation") if later else ("evaluation", "training")
        noun = "frequency" if event.view == "spectrum" else "position"
        yield self.finding(
            event,
            f"The inputs of `{event.name}` are stretched in one phase: {noun} n along dimension {event.axis} tells in "
            f"{sides[0]} about the targets what {noun} {factor:.3g} n tells in {sides[1]} (correlation "
            f"{event.fits:.2f}; {event.used:.2f} as they are).",
            fix="Compare how the inputs of both phases were made: sample rate, frame length, number of bands. Make a "
            "stale cache again.",
            evidence={"factor": round(event.factor, 3), "view": event.view, "as_used": round(event.used, 3),
                      "stretched": round(event.fits, 3), "rows": list(event.rows)},
        )  # fmt: skip
