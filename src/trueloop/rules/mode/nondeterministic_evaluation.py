"""MOD105 nondeterministic-evaluation: in eval mode, the same samples get other outputs when they are run again.

What it sees
------------
A model that is scored against labels was run again in eval mode, on a copy, with the same samples and other random
numbers, and its outputs changed. The line that draws the numbers is told.

Why it hurts
------------
Each evaluation is then one throw of the dice: two checkpoints cannot be compared, early stopping follows noise, and the
accuracy is that of a disturbed model. Noise and augmentation that help in training belong behind `if self.training`.

Evidence
--------
The model, the largest change relative to the outputs' size, the samples that were run again, and the functions that
drew numbers.

Use instead
-----------
    if self.training:
        x = x + 0.1 * torch.randn_like(x)

When it is fine
---------------
Not reported: samples from a distribution that the model describes (variational models, policies, Bayesian weights,
Gumbel softmax), models that give back their input (autoencoders), functions and classes whose names say that chance is
meant (Monte Carlo, sample, stochastic), and the same input called several times in a row, whose outputs somebody
averages. An active dropout is dropout-always-on's matter. A state that a model carries from call to call is not looked
at.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import EvaluationRepeated
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["NondeterministicEvaluation"]

LEAST: Final = 1e-4
"""Of the outputs' size: a hundred times what the order of sums changes in single precision."""


@final
class NondeterministicEvaluation(Rule):
    code = "MOD105"
    name = "nondeterministic-evaluation"
    severity = Severity.WARNING
    not_applicable = "no model was scored against labels twice in eval mode"
    explained_by = ("dropout-always-on", "evaluated-in-train-mode")

    def on_evaluation_repeated(self, event: EvaluationRepeated) -> Findings:
        if event.sampling or event.change <= LEAST:
            return
        by = f" by {' and '.join(event.drawn)}" if event.drawn else ""
        yield self.finding(
            event,
            f"The same {event.batch} samples, run again through {event.name} in eval mode, gave outputs that differ by up to "
            f"{event.change:.1%} of their size: random numbers are drawn{by} in its forward.",
            fix="Draw random numbers only `if self.training:`.",
            evidence={
                "model": event.name,
                "change": event.change,
                "samples": event.batch,
                "drawn_by": list(event.drawn),
            },
            place=event.drawn_at,
        )
