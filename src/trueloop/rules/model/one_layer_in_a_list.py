"""MDL126 one-layer-in-a-list: the entries of a ModuleList are one layer, and all receive the same input.

What it sees
------------
Several entries of a `ModuleList`, `ModuleDict` or `Sequential` are the identical layer, with parameters. In each of the
first training forwards all its calls receive the same tensor and give equal outputs.

Why it hurts
------------
`[nn.Linear(64, 1)] * 8` builds one layer and lists it eight times. Heads that should learn different tasks (experts,
codebooks, attention heads) share their weights, so all tasks get the same prediction. The loss falls until that
prediction is the best compromise.

Evidence
--------
The container, the number of entries, the class of the layer and its number of parameters.

Use instead
-----------
    self.heads = nn.ModuleList([nn.Linear(64, 1) for _ in range(8)])

When it is fine
---------------
Not reported: a block that is repeated on its own output (shared depth), a layer whose entries receive different inputs
(views, time steps), layers whose calls differ (dropout), and layers without parameters.
"""

from trueloop.event import LayersShared
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["OneLayerInAList"]


class OneLayerInAList(Rule, code="MDL126", severity=Severity.ERROR):
    not_applicable = "no container of a model lists a layer several times"

    def on_layers_shared(self, event: LayersShared) -> Findings:
        yield self.finding(
            event,
            f"All {event.entries} entries of `{event.container}` that are called are one `{event.layer}` "
            f"({event.parameters:,} parameters) and receive the same input: their outputs are equal.",
            fix="Build each entry separately: `[make_layer() for _ in range(n)]` instead of `[make_layer()] * n`.",
            evidence=facts(event, "model container layer entries parameters"),
        )
