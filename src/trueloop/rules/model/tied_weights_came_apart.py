"""MDL107 tied-weights-came-apart: two layers shared one weight, and now each has its own.

What it sees
------------
A parameter that two modules of a model had in common (`decoder.weight = encoder.weight`) was replaced in one of them,
and the model is trained with the two copies apart. The line that replaced it is told, where it was seen: an assignment,
`load_state_dict(assign=True)`, or a move that makes new parameters.

Why it hurts
------------
From then on the copies learn on their own: the model is another one than was written, with more parameters, and often
one of the two is in no optimizer at all. Nothing fails, and a checkpoint holds two weights that the next program will
tie again, losing one.

Evidence
--------
The names of both parameters, their shape, the line that had tied them, what parted them, and the steps taken while they
were one.

Use instead
-----------
    def init(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)    # write into the parameter; do not replace it

    model.load_state_dict(state, assign=True)
    model.decoder.weight = model.encoder.weight         # tie again after what makes new parameters

When it is fine
---------------
Not reported: a copy put in place by hand (`nn.Parameter(weight.clone())`) that an optimizer was given as well, a line
that says `untie`, a weight that is replaced by name before training has begun, ties that are made again before the next
step, copies of a whole model (EMA), parametrisations, and a layer that is replaced by one of another size.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ModelSeen, TieBroken
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import shown_path

__all__ = ["TiedWeightsCameApart"]

_HOW: Final = {
    "assignment": "was given another parameter",
    "loading": "was given another tensor by load_state_dict(assign=True)",
    "moving": "got memory of its own when the model was moved or cast",
    "unknown": "is another parameter now",
}
_FIX: Final = {
    "assignment": "Write into the parameter under no_grad (nn.init, copy_) instead of replacing it, or tie the two again afterwards.",
    "loading": "Tie the two again after loading, or load without assign=True, which copies into the common parameter.",
    "moving": "Tie by giving both modules the same nn.Parameter, and tie again after to_empty.",
    "unknown": "Tie the two again before training goes on.",
}


@final
class TiedWeightsCameApart(Rule):
    code = "MDL107"
    name = "tied-weights-came-apart"
    severity = Severity.ERROR
    not_applicable = "no model was called"

    def on_model_seen(self, event: ModelSeen) -> None:
        """A model without ties, or whose ties hold, is in order, and was judged."""

    def on_tie_broken(self, event: TieBroken) -> Findings:
        tied = event.tied_at
        yield self.finding(
            event,
            f"{event.first} and {event.second} of {event.name} were one weight of shape {list(event.shape)} "
            f"{f'for {event.steps} steps' if event.steps else 'before training began'}, then one of them {_HOW[event.by]}.",
            fix=_FIX[event.by],
            evidence={
                "model": event.name,
                "first": event.first,
                "second": event.second,
                "shape": list(event.shape),
                "tied_at": None if tied is None else f"{shown_path(tied.path)}:{tied.line}",
                "by": event.by,
                "steps_together": event.steps,
            },
            place=event.place or tied,
        )
