"""MDL114 layer-built-in-forward: `forward` builds a new layer in every call.

What it sees
------------
A layer runs inside a model without being part of it, and in each call it is a new one: `nn.Dropout(0.5)(x)` or
`nn.Linear(64, 10)(x)` in `forward`, or `self.head = nn.Linear(...)` assigned again in every call.

Why it hurts
------------
A new layer starts with new random weights in every call: no optimizer holds them, no checkpoint contains them, and they
never learn. A new batch norm has no running statistics. A new dropout is always in train mode: `model.eval()` does not
reach it, so that evaluation and inference drop values at random.

Evidence
--------
The class of the layer, its parameters, and the number of training calls that built a new one; for a dropout, the
calls in eval mode that dropped values.

Use instead
-----------
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.fc(self.drop(x))

`nn.functional.dropout(x, 0.5, self.training)` needs no layer. A size that is known only in `forward` is the case for
`nn.LazyLinear`.

When it is fine
---------------
A dropout that should be active in evaluation too (Monte Carlo dropout): allow it with a comment. Not reported: layers
without weights or state (`nn.ReLU()(x)`), frozen weights, layers that are built once and kept, a dropout whose function
reads `training`, and copies of modules (an inner loop).
"""

from trueloop.event import LayerBuiltInForward as Built
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["LayerBuiltInForward"]


class LayerBuiltInForward(Rule, code="MDL114", severity=Severity.ERROR):
    not_applicable = "no forward built a layer in every call"

    def on_layer_built_in_forward(self, event: Built) -> Findings:
        made = f"This line runs a {event.layer} that `forward` of {event.name} builds again in every call: "
        fix = f"Build the {event.layer} once, in `__init__` (`self.layer = ...`), and call `self.layer(x)` here."
        severity = None
        match event.kind:
            case "weights":
                rest = f"its {plural(event.parameters, 'parameter')} are random each time, and nothing trains them."
            case "statistics":
                rest = "its running statistics are lost after each one."
            case _ if event.active_in_eval:
                rest = f"`eval()` does not reach it, and {_calls(event.active_in_eval)} in eval mode dropped values."
            case _:
                rest = "it is always in train mode, so `model.eval()` will not turn it off."
                severity = Severity.WARNING
        evidence = facts(event, "layer kind parameters calls active_in_eval", model=event.name)
        yield self.finding(event, made + rest, fix=fix, evidence=evidence, severity=severity)


def _calls(count: int) -> str:
    return plural(count, "call")
