"""MDL107 weight-tying-broken: two layers shared one weight, and now each has its own.

What it sees
------------
A parameter that two modules of a model shared (`decoder.weight = encoder.weight`) was replaced in one of them, and the
model is trained with two separate weights. The line that replaced it is given if known: an assignment,
`load_state_dict(assign=True)`, or a move that creates new parameters.

Why it hurts
------------
From then on the two weights are trained independently: the model has more parameters than intended, and often one of
the two is in no optimizer. Nothing fails, and a checkpoint contains two weights; tying them again loses one.

Evidence
--------
The names of both parameters, their shape, the line that tied them, what separated them, and the number of steps they
were shared.

Use instead
-----------
    def init(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)    # write into the parameter; do not replace it

    model.load_state_dict(state, assign=True)
    model.decoder.weight = model.encoder.weight         # tie again after new parameters were created

When it is fine
---------------
Not reported: an explicit copy (`nn.Parameter(weight.clone())`) that an optimizer also holds, a line that says `untie`,
a weight replaced by name before training, weights tied again before the next step, copies of a model (EMA),
parametrizations, and a layer replaced by one of a different size.
"""

from typing import Final

from trueloop.event import ModelSeen, TieBroken
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["WeightTyingBroken"]

_HOW: Final = {
    "assignment": "an assignment replaced one of them",
    "loading": "`load_state_dict(assign=True)` replaced one of them",
    "moving": "moving or casting the model gave each its own memory",
    "unknown": "one of them is a different parameter",
}
_FIX: Final = {
    "assignment": "Write into the parameter (`nn.init`, `copy_` under `no_grad`) or tie the two again afterwards.",
    "loading": "Tie the two again after loading, or load without `assign=True`, which copies into the shared weight.",
    "moving": "Give both modules the same `nn.Parameter`, and tie them again after `to_empty`.",
    "unknown": "Tie the two again before training continues.",
}


class WeightTyingBroken(Rule, code="MDL107", severity=Severity.ERROR):
    not_applicable = "no model was called"
    applies_after = (ModelSeen,)

    def on_tie_broken(self, event: TieBroken) -> Findings:
        when = f"for {plural(event.steps, 'step')}" if event.steps else "before training began"
        yield self.finding(
            event,
            f"{event.first} and {event.second} of {event.name} shared one weight of shape {list(event.shape)} {when}. "
            f"Now they are separate: {_HOW[event.by]}.",
            fix=_FIX[event.by],
            evidence=facts(event, "model=name first second shape tied_at by steps_shared=steps"),
            place=event.place or event.tied_at,
        )
