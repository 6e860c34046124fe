"""MOD105 nondeterministic-evaluation: in eval mode, the same samples give different outputs.

What it sees
------------
A copy of a model that is scored against labels was run again in eval mode, with the same samples and a different random
state, and its outputs changed. The finding points at the line that draws random numbers.

Why it hurts
------------
Each evaluation is random: checkpoints cannot be compared, early stopping follows noise, and the accuracy is that of a
perturbed model. Noise and augmentation that help in training belong under `if self.training`.

Evidence
--------
The model, the largest change relative to the size of the outputs, the number of samples, and the functions that drew
random numbers.

Use instead
-----------
    if self.training:
        x = x + 0.1 * torch.randn_like(x)

When it is fine
---------------
Not reported: samples from a distribution that the model describes (variational models, policies, Bayesian weights,
Gumbel softmax), models that reconstruct their input (autoencoders), functions and classes whose names imply randomness
(Monte Carlo, sample, stochastic), and repeated calls with the same input, whose outputs are averaged. Active dropout is
reported by `dropout-always-on`. State that a model carries from call to call is not checked.
"""

from typing import Final

from trueloop.event import EvaluationRepeated
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["NondeterministicEvaluation"]

LEAST: Final = 1e-4  # Relative to the outputs: 100 times the effect of summation order in float32


class NondeterministicEvaluation(Rule, code="MOD105", severity=Severity.WARNING):
    not_applicable = "no model was scored against labels twice in eval mode"
    explained_by = ("dropout-always-on", "evaluated-in-train-mode")

    def on_evaluation_repeated(self, event: EvaluationRepeated) -> Findings:
        if event.sampling or event.change <= LEAST:
            return
        calls = f" ({' and '.join(f'`{name}`' for name in event.drawn)})" if event.drawn else ""
        yield self.finding(
            event,
            f"{event.name} in eval mode gives different outputs for the same {event.batch} samples, by up to "
            f"{event.change:.1%}: its forward draws random numbers{calls}.",
            fix="Draw random numbers only `if self.training:`.",
            evidence=facts(event, "model=name change samples=batch drawn_by=drawn"),
            place=event.drawn_at,
        )
