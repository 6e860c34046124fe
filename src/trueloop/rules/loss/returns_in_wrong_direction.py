"""LOS129 returns-in-wrong-direction: an action is credited with the rewards before it, not with those after it.

What it sees
------------
In a recorded training step, values with a graph, one per time step, are multiplied by numbers that are exactly the
discounted sums of a series of rewards among your variables. The sums run in the wrong direction: they add up the
rewards before each step, or they were built from the end of the episode and never reversed.

Why it hurts
------------
An action cannot change what happened before it. The last actions of an episode get the credit for the whole of it, and
the first ones, which decided it, get almost none: the policy does not learn, or learns to end episodes.

Evidence
--------
The direction, the discount that was found, the number of time steps, and the line of the product.

Use instead
-----------
    running, returns = 0.0, []
    for reward in reversed(rewards):
        running = reward + gamma * running
        returns.insert(0, running)          # or append, and returns.reverse() at the end

When it is fine
---------------
Not reported: returns that add up later rewards, log-probabilities that are in reversed order as well, sums of rewards
that multiply nothing with a graph (running scales of rewards), and returns that were mixed in another order.
"""

from trueloop.event import ReturnsCredited, StepProgram
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["ReturnsInWrongDirection"]


class ReturnsInWrongDirection(Rule, code="LOS129", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def on_returns_credited(self, event: ReturnsCredited) -> Findings:
        if self.count("seen") != 2:
            return
        what = (
            "add up the rewards before each step"
            if event.direction == "earlier"
            else "are in reversed order: the first action gets the return of the last one"
        )
        yield self.finding(
            event,
            f"The returns of {event.steps} time steps{on_line(event.product, event.place)} {what} "
            f"(discount {event.discount:.3g}).",
            fix="Sum from the end of the episode, `running = reward + gamma * running` over `reversed(rewards)`, and "
            "reverse the result once.",
            evidence={"direction": event.direction, "discount": round(event.discount, 4), "steps": event.steps,
                      "product": event.product},
        )  # fmt: skip
