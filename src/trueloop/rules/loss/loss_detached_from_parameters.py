"""LOS107 loss-detached-from-parameters: backward does not reach the parameters, or only a part of them.

What it sees
------------
Either every backward walks a graph in which no parameter of an optimizer occurs, and the steps after it find no
gradient; or layers that ran with a graph never get a gradient while the others do, because a line of the user's takes
their result out of the graph (`detach`,
`.data`, `.item()`, numpy, argmax). That line is told where exactly one was seen.

Why it hurts
------------
The loss is computed and printed, but its gradient ends at the cut: everything before it keeps its random start. Nothing
fails; the part of the model behind the cut may even learn to make do.

Evidence
--------
How many parameters the optimizers hold, how many the graph reaches, the parameters without a gradient, and the lines
that leave the graph.

Use instead
-----------
Keep the path from the parameters to the loss in torch operations, and take numbers out for printing only:

    loss = criterion(model(x), y)
    loss.backward()
    print(loss.item())

When it is fine
---------------
A cut alone is never reported: logging, targets, the fake batch of a discriminator, stop-gradients whose layers get
their gradient from another loss or another step, frozen layers and those that are written to by hand.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Backward, ParameterAccount, ParametersAccounted, Place, RunEnded, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LossDetachedFromParameters"]

ENOUGH: Final = 5
"""Steps after which a layer without a gradient is not just waiting for its turn."""
UNREACHED: Final = 3
"""Steps in a row, from the first, whose backward reached nothing: one may be a batch that had nothing to learn from."""
AT_LEAST: Final = 2
"""Such steps in a run that ends earlier."""


@final
class LossDetachedFromParameters(Rule):
    code = "LOS107"
    name = "loss-detached-from-parameters"
    severity = Severity.ERROR
    not_applicable = "no backward and no optimizer step was seen"
    explained_by = ("optimizer-holds-old-parameters",)

    def __init__(self) -> None:
        self._reached = False
        """Some backward has reached a parameter, or could not be followed."""
        self._latest: Backward | None = None
        """The latest backward that reached nothing, since the last step."""
        self._bare_steps = 0
        self._last: Backward | None = None
        self._cuts: dict[Place, None] = {}

    # -- nothing is reached --

    def on_backward(self, event: Backward) -> None:
        if event.reached == 0 and event.optimized > 0:
            self._latest = self._last = event
        elif event.optimized > 0 or event.reached:
            self._reached = True
            self._last = event

    def on_stepped(self, event: Stepped) -> Findings:
        if self._reached or event.gradients != "none":
            self._reached = True
            return
        if self._latest is not None:
            self._bare_steps += 1
            if self._bare_steps == UNREACHED:
                yield from self._nothing(self._latest)
            self._latest = None

    def on_run_ended(self, event: RunEnded) -> Findings:
        if not self._reached and AT_LEAST <= self._bare_steps < UNREACHED and self._last is not None:
            yield from self._nothing(self._last)

    def _nothing(self, event: Backward) -> Findings:
        cuts = list(self._cuts)
        what = (
            "is a leaf that was made from nothing"
            if not event.root
            else f"ends in {event.root} and leads to none of them"
        )
        yield self.finding(
            event,
            f"backward has reached none of the {event.optimized} parameters of the optimizers in {self._bare_steps} steps: "
            f"{event.loss_text or 'the loss'} {what}.",
            fix="Compute the loss from the model's output inside the graph: no detach, .data, .item(), numpy or argmax on the way.",
            evidence={
                "optimized": event.optimized,
                "reached": 0,
                "root": event.root,
                "left_the_graph_at": _shown(cuts),
            },
            place=cuts[0] if len(cuts) == 1 else event.place,
        )

    # -- a part is not reached --

    def on_parameters_accounted(self, event: ParametersAccounted) -> Findings:
        self._cuts |= dict.fromkeys(event.cuts)
        if event.steps < ENOUGH or not event.complete:
            return
        groups: dict[Place | None, list[ParameterAccount]] = {}
        for account in event.accounts:
            lost = account.trainable and account.held and not account.has_gradient and account.ran_with_graph
            if lost and account.cuts:
                groups.setdefault(account.cuts[0] if len(account.cuts) == 1 else None, []).append(account)
        for cut, group in groups.items():
            names = [account.name for account in group]
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            yield self.finding(
                event,
                f"{shown} of {event.name} took part in the forward and had no gradient in {event.steps} steps: "
                f"their result leaves the graph before the loss.",
                fix="Keep the result in the graph: take the detach, .data, .item(), numpy or argmax off the path to the loss.",
                evidence={
                    "model": event.name,
                    "without_gradient": names[:16],
                    "with_gradient": event.complete,
                    "steps": event.steps,
                    "left_the_graph_at": _shown([place for account in group[:1] for place in account.cuts]),
                },
                place=cut or (self._last.place if self._last else None),
            )


def _shown(places: list[Place]) -> list[str]:
    return [f"{place.path}:{place.line}" for place in places]
