"""OPT128 optimizer-left-frozen: all parameters of an optimizer were frozen after its first turns, and stayed so.

What it sees
------------
A training with several optimizers that take turns (generator and discriminator, actor and critic). The first steps of
one optimizer trained its parameters. Then all of them got `requires_grad=False`, and had it at every later step that
was watched, until the run ended. The loop still calls `backward()` for this optimizer alone, and `step()`.

Why it hurts
------------
The steps change nothing: the model keeps the weights of its first turns, and the other player trains against it. No
error is raised as long as the loss reaches any parameter, for example through generated data that are not detached.

Evidence
--------
The optimizer, the model, its steps before it was frozen, and its steps since.

Use instead
-----------
    for step in range(steps):
        discriminator.requires_grad_(True)       # its own turn
        ...
        opt_d.step()
        discriminator.requires_grad_(False)      # the generator's turn
        ...
        opt_g.step()

When it is fine
---------------
Not reported: parameters that are frozen from the start, or unfrozen again; optimizers that hold other parameters which
still train; several optimizers that step after one backward (a part is frozen at a later stage, and the loop steps
all); freezing after a longer part of the training.
"""

from typing import Final

from trueloop.event import LeftFrozen, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, plural

__all__ = ["OptimizerLeftFrozen"]

STEPS: Final = 8  # watched steps while frozen: a turn may have several
LONGER: Final = 4  # times as many steps frozen as before: a later stage follows a training, not a few turns


class OptimizerLeftFrozen(Rule, code="OPT128", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)
    explained_by = ("frozen-layer-updated",)

    def on_left_frozen(self, event: LeftFrozen) -> Findings:
        if event.watched < STEPS or event.frozen < LONGER * event.trained:
            return
        model = event.model or "its model"
        yield self.finding(
            event,
            f"All parameters of {model} got `requires_grad=False` after {plural(event.trained, 'step')} of this "
            f"{event.name} and kept it: its {event.frozen:,} later steps changed nothing, because the "
            f"`backward()`{on_line(event.backward, event.place)} does not reach them.",
            fix="Call `requires_grad_(True)` before each turn of this optimizer, not only before the loop.",
            evidence=facts(event, "optimizer=name model trained frozen watched backward"),
        )
