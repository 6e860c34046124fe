"""MDL120 only-one-step-reaches-output: the model computes on a whole sequence, but one step of it decides the output.

What it sees
------------
A copy of the model runs again in eval mode, with the values of all positions but the last (or the first) exchanged
between samples. Layers with weights compute something else at those positions, and the output is the same to the last
bit. When the one position is exchanged, the output changes.

Why it hurts
------------
The model has no memory: a recurrent state that is created inside the loop over time starts from zero at each step,
`output[:, 0]` of a recurrent or causal layer has seen the first step only, and a result that is overwritten in a loop
keeps the last step only. Shapes fit and the loss falls, but only as far as one step allows.

Evidence
--------
The dimension and the number of positions, which one reaches the output, and the layer that computed on the others last.

Use instead
-----------
    state = x.new_zeros(len(x), hidden)      # before the loop over time
    for step in x.unbind(1):
        state = cell(step, state)
    output[:, -1]                            # of a recurrent or causal layer, not output[:, 0]

When it is fine
---------------
Not reported: a model that picks one step before any layer (`x[:, -1]`), other outputs in eval mode, and outputs that
depend on any two positions. A test in eval mode does not see what dropout hides.
"""

from trueloop.event import InputInfluenceTested
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["OnlyOneStepReachesOutput"]


class OnlyOneStepReachesOutput(Rule, code="MDL120", severity=Severity.WARNING):
    not_applicable = "no trained model had an input with a repeatable forward and several positions"
    explained_by = (
        "output-ignores-input", "reshape-instead-of-transpose", "lengths-all-one", "samples-mixed-in-batch",
        "sequence-layer-over-batch",
    )  # fmt: skip

    def on_input_influence_tested(self, event: InputInfluenceTested) -> Findings:
        if not event.only or self.count(event.model) > 1:
            return
        yield self.finding(
            event,
            f"{event.name} computes on {event.length} positions (dimension {event.dimension} of its input), but only "
            f"the {event.only} one reaches the output: exchanging all others changes nothing. "
            f"They are lost after {event.layer}.",
            fix="Create the recurrent state before the loop over time, not inside it; take `output[:, -1]` of a "
            "recurrent or causal layer; collect the results of a loop in a list.",
            evidence={"model": event.name, "dimension": event.dimension, "positions": event.length,
                      "reaches": event.only, "layer": event.layer},
            place=event.defined,
        )  # fmt: skip
