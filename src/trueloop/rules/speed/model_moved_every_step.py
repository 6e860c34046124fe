"""SPD108 model-moved-every-step: `model.to(...)` is called inside the training loop.

What it sees
------------
One line outside any model that calls `to()`, `cuda()`, `cpu()`, `half()`, `float()` ... on a model in training, in
several consecutive steps. Device and dtype before and after show whether parameters really moved.

Why it hurts
------------
A move copies every weight and frees the old memory; this can take longer than the step itself. If the model is already
there, nothing is copied, but Python still visits every parameter.

Evidence
--------
The call, the number of consecutive moves, whether they changed anything, the number of tensors, and the time of one
call.

Use instead
-----------
    model.to(device)          # once, before the optimizer is created
    for x, y in loader:
        ...

When it is fine
---------------
Not reported: a move once per epoch or for a checkpoint, models that are not trained and moved to save memory, moves
inside a forward or by a library (offloading). A move that changes nothing is advice, not a warning. For a model that is
created again in each step see optimizer-holds-old-parameters and optimizer-recreated-every-step.
"""

from trueloop.event import ModelMoved, ModelSeen
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["ModelMovedEveryStep"]


class ModelMovedEveryStep(Rule, code="SPD108", severity=Severity.WARNING):
    not_applicable = "no model was called"
    applies_after = (ModelSeen,)

    def on_model_moved(self, event: ModelMoved) -> Findings:
        what = "moves its weights" if event.changed else "changes nothing"
        yield self.finding(
            event,
            f"`{event.function}()` of {event.name} is called in every step and {what}: {event.tensors} tensors, "
            f"{event.took_ms:.2f} ms each time.",
            fix=f"Call `model.{event.function}(...)` once, before you create the optimizer.",
            evidence=facts(
                event, "model=name function moves_in_a_row=moves changed tensors", took_ms=round(event.took_ms, 3)
            ),
            severity=Severity.WARNING if event.changed else Severity.ADVICE,
        )
