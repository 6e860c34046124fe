"""SPD108 model-moved-every-step: the model is moved inside the loop, again and again.

What it sees
------------
One line that calls `to()`, `cuda()`, `cpu()`, `half()`, `float()` ... on a model in training, in several steps in a
row, from outside any model. Whether the parameters really went to another device or type is seen by what they were
before and after.

Why it hurts
------------
A move copies every weight, to the device or back, and frees what was there; in each step that can take longer than the
step itself. Where the model is there already nothing is copied, but every parameter is still visited, in Python, for
nothing.

Evidence
--------
The call, how many moves in a row, whether anything was changed by them, the tensors that are visited, and the time of
one call.

Use instead
-----------
    model.to(device)          # once, before the optimizer is built
    for x, y in loader:
        ...

When it is fine
---------------
Not reported: a move at the head of an epoch or for a checkpoint, models that nobody trains and that are taken in and
out to save memory, moves inside a model's forward and those of a library (offloading). A move that changes nothing is
advice, not a warning. A model that is built anew in each step is not seen by this rule: see
optimizer-holds-old-parameters and optimizer-recreated-every-step.
"""

from __future__ import annotations

from typing import final

from trueloop.event import ModelMoved, ModelSeen
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ModelMovedEveryStep"]


@final
class ModelMovedEveryStep(Rule):
    code = "SPD108"
    name = "model-moved-every-step"
    severity = Severity.WARNING
    not_applicable = "no model was called"

    def on_model_seen(self, event: ModelSeen) -> None:
        """Models are what can be moved."""

    def on_model_moved(self, event: ModelMoved) -> Findings:
        what = "moves its weights" if event.changed else "visits its tensors, which are there already"
        yield self.finding(
            event,
            f"{event.name}.{event.function}() is called in every step and {what}: {event.tensors} tensors, {event.took_ms:.2f} ms each "
            "time.",
            fix=f"Call {event.function}() once, before the optimizer is built and the loop begins.",
            evidence={
                "model": event.name,
                "function": event.function,
                "moves_in_a_row": event.moves,
                "changed": event.changed,
                "tensors": event.tensors,
                "took_ms": round(event.took_ms, 3),
            },
            severity=Severity.WARNING if event.changed else Severity.ADVICE,
        )
