"""OPT127 optimizer-holds-opponent: the step of one player also moves the other player, which scores it.

What it sees
------------
In the first steps of a training with two losses. One loss goes through a first model into a second one (a generator
into a discriminator, an actor into a critic) and pushes all outputs of the second to one side. The step that follows
moves the second model too. Other steps train the second model alone, on its own loss, which pushes its outputs both
ways: real up and generated down, or towards targets.

Why it hurts
------------
The generator's step teaches the discriminator to accept what is generated; the actor's step teaches the critic to rate
every action high. The critic no longer measures anything, so the first player has nothing to learn from.

Evidence
--------
The optimizer, the model that it should not hold, both backward calls, and the numbers of steps that show it.

Use instead
-----------
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4)      # each player its own parameters
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4)

With one optimizer for all: `D.requires_grad_(False)` during the generator's loss, and `True` again after it.

When it is fine
---------------
Not reported: parts that are trained together (an encoder and a decoder, two heads on a trunk, one loss for all),
critics that are frozen or whose gradients are cleared before the step, losses that push outputs both ways, and gradient
reversal.
"""

from typing import Final

from trueloop.event import OpponentMoved, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, path_and_line

__all__ = ["OptimizerHoldsOpponent"]

STEPS: Final = 5  # of each kind that must show it
SHARE: Final = 0.8  # of the steps of each kind: a few batches may be beyond their target


class OptimizerHoldsOpponent(Rule, code="OPT127", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_opponent_moved(self, event: OpponentMoved) -> Findings:
        against = max(event.up, event.down)
        one_way = against >= STEPS and min(event.up, event.down) == 0 and against >= SHARE * event.steps
        own = event.both_ways >= STEPS and event.both_ways >= SHARE * event.own_steps
        if not one_way or not own or self.count(event.model) > 1:
            return
        way = "up" if event.up else "down"
        yield self.finding(
            event,
            f"This {event.name} holds {event.model} ({event.values:,} values): {against} of {event.steps} steps "
            f"after the `backward()`{on_line(event.backward, event.place)} pushed all its outputs {way}, against its "
            f"own loss{on_line(event.own_backward, event.place)}.",
            fix=f"Give this optimizer only the parameters that this loss trains, without those of {event.model}"
            + (", or freeze them during the other player's loss." if event.same else "."),
            evidence=facts(
                event,
                "optimizer=name model values steps own_steps both_ways",
                one_way=against,
                backward=path_and_line(event.backward),
                own_backward=path_and_line(event.own_backward),
            ),
        )
