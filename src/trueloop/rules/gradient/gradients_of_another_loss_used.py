"""GRD120 gradients-of-another-loss-used: a step also uses the gradients that another optimizer's loss left behind.

What it sees
------------
In the first steps of a training with several optimizers: the backward of one loss, on which a first optimizer then
steps, also reaches the parameters of a second one. Nothing clears these gradients before the second optimizer's own
backward, which adds to them, so that its step uses the sum. The second loss goes through the parameters of both, and
the first optimizer never steps on it: the two play against each other, or one scores the other.

Why it hurts
------------
In a GAN the generator then descends the loss of the discriminator too, which pulls it the other way: it learns to be
recognized. In actor-critic methods the actor lowers the critic's error instead of earning more.

Evidence
--------
Both optimizers, the two backward calls, and the norms of the gradients of both, of a few parameters.

Use instead
-----------
    loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)     # stop the gradients
    ...
    opt_g.zero_grad()                                              # directly before the generator's backward
    loss_g.backward()

When it is fine
---------------
Not reported: gradients that are cleared before the second backward, one backward for several optimizers, losses that
share only a part (a trunk with two heads, each with its own optimizer), and optimizers that step on both losses.
"""

from typing import Final

from trueloop.event import CrossedGradients, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, path_and_line

__all__ = ["GradientsOfAnotherLossUsed"]

TIMES: Final = 3  # steps that must show it


class GradientsOfAnotherLossUsed(Rule, code="GRD120", severity=Severity.WARNING):
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_crossed_gradients(self, event: CrossedGradients) -> Findings:
        if self.count(event.number) != TIMES:
            return
        first = "" if event.foreign is None else f" on line {event.foreign.line}"
        yield self.finding(
            event,
            f"This step of {event.optimizer} also uses the gradients of the `backward()`{first}, on which another "
            f"optimizer ({event.other}) stepped before: norm {event.left:.3g}, its own {event.added:.3g}.",
            fix="Call `zero_grad()` of this optimizer directly before its own `backward()`, or `detach()` what the "
            "first loss gets from its parameters.",
            evidence=facts(
                event,
                "optimizer other parameter=parameters foreign_norm=left own_norm=added",
                steps=TIMES,
                foreign_backward=path_and_line(event.foreign),
                own_backward=path_and_line(event.own),
            ),
            place=event.foreign or event.place,
        )
