"""GRD121 trained-layers-under-no-grad: layers that an optimizer holds run under no_grad, and keep their random weights.

What it sees
------------
In recorded training steps a layer runs while gradients are disabled (`torch.no_grad()` as a block or a decorator), and
what is computed from its output enters a layer that trains. An optimizer holds its parameters and they require a
gradient. At the end of the run they never had one, nobody has written to them, and they are still the random numbers
that the layer was built with.

Why it hurts
------------
The encoder is part of the model but does not train: what follows learns from random features. No error is raised, and
the loss falls, because the last layers train.

Evidence
--------
The parameters, how many values they have, and the number of steps.

Use instead
-----------
Decorate the evaluation, not the method that the training forward uses too:

    def encode(self, tokens): ...

    @torch.no_grad()
    def evaluate(model, loader): ...

A random layer that should stay random: `layer.requires_grad_(False)`, and not in the optimizer.

When it is fine
---------------
Not reported: frozen layers and layers outside of the optimizer, weights that were loaded or trained before, copies that
follow a trained model (EMA, target networks), layers whose output only a loss compares with (random network
distillation), generators and policies that run under `no_grad` and train in another part of the step.
"""

from trueloop.event import LayersWithoutGraph, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["TrainedLayersUnderNoGrad"]


class TrainedLayersUnderNoGrad(Rule, code="GRD121", severity=Severity.WARNING):
    not_applicable = "no layer that an optimizer holds ran under no_grad in a training forward"

    def __init__(self) -> None:
        self._found: list[LayersWithoutGraph] = []

    def on_layers_without_graph(self, event: LayersWithoutGraph) -> None:
        self._found.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._found if end.reason == "finished" else ():
            shown = ", ".join(event.names[:2]) + (f" and {len(event.names) - 2} more" if len(event.names) > 2 else "")
            yield self.finding(
                event,
                f"{shown} ({event.values:,} values) run under `no_grad` in the training forward: they got no gradient "
                f"in {event.steps} steps and are still random, although an optimizer holds them.",
                fix="Remove `no_grad` from the code that the training forward runs; to keep the layers random, freeze "
                "them with `requires_grad_(False)`.",
                evidence=facts(event, "parameters values steps", parameters=event.names[:16]),
            )
