"""MDL116 models-identical: several models were trained separately and ended with the same weights.

What it sees
------------
Three or more models of one class, or two that are trained in alternation, received the same first batches and equally
many steps from optimizers of one class, and the weights that were trained are bit-identical after them.

Why it hurts
------------
The members of an ensemble (or the restarts of a search) began with the same seed and saw the same batches: they are
copies. Their average is no better than one of them, and their disagreement, which should measure uncertainty, is zero.

Evidence
--------
How many models are equal, and how many of that class were trained.

Use instead
-----------
    for member in range(5):
        torch.manual_seed(seed + member)

When it is fine
---------------
Not reported: copies that no optimizer steps (target networks, EMA, teachers, best weights), replicas that receive
different batches and average their gradients, models that share their weights, two models one after the other (a test
of reproducibility), and models of which only frozen weights are equal. Repeating one training three times to measure
its speed is reported: allow it there.
"""

from trueloop.event import ModelsIdentical
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ModelsAreIdentical"]


class ModelsAreIdentical(Rule, code="MDL116", severity=Severity.WARNING):
    not_applicable = "no two models have the same weights"

    def on_models_identical(self, event: ModelsIdentical) -> Findings:
        yield self.finding(
            event,
            f"{event.count} of {event.trained} trained models of the class `{event.name}` have bit-identical weights: "
            "they received the same batches and are copies of one another.",
            fix="Give every member its own seed (initialization and order of the batches).",
            evidence={"identical": event.count, "trained": event.trained, "parameters": event.parameters},
        )
