"""LOS107 loss-detached-from-parameters: the backward reaches no parameter, or only some of them.

What it sees
------------
Either no backward reaches a parameter of an optimizer, and the following steps have no gradient. Or layers that took
part in the forward never get a gradient while others do, because a line of your code takes their result out of the
autograd graph (`detach`, `.data`, `.item()`, numpy, argmax). If there is exactly one such line, it is reported.

Why it hurts
------------
The loss is computed and printed, but its gradient stops at that line: all layers before it keep their initial values.
No error is raised, and the layers after it may partly compensate.

Evidence
--------
The number of parameters in the optimizers, the number that the graph reaches, the parameters without a gradient, and
the lines that leave the graph.

Use instead
-----------
Keep the path from the parameters to the loss in torch operations, and use Python numbers for printing only:

    loss = criterion(model(x), y)
    loss.backward()
    print(loss.item())

When it is fine
---------------
Detaching alone is never reported: logging, targets, the fake batch of a discriminator, stop-gradients whose layers get
their gradient from another loss or step, frozen layers, and layers that your code updates itself.
"""

from typing import Final

from trueloop.event import Backward, ParameterAccount, ParametersAccounted, Place, RunEnded, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, path_and_line

__all__ = ["LossDetachedFromParameters"]

ENOUGH: Final = 5  # Steps after which a layer without a gradient is no longer waiting for its turn
UNREACHED: Final = 3
"""Consecutive steps, from the first, whose backward reached nothing: one may be a batch without a loss."""
AT_LEAST: Final = 2  # The same in a run that ends earlier


class LossDetachedFromParameters(Rule, code="LOS107", severity=Severity.ERROR):
    not_applicable = "no backward and no optimizer step was seen"
    explained_by = ("optimizer-holds-old-parameters",)

    def __init__(self) -> None:
        self._reached = False  # Some backward reached a parameter, or could not be traced
        self._latest: Backward | None = None  # The latest backward that reached nothing, since the last step
        self._bare_steps = 0
        self._last: Backward | None = None
        self._cuts: dict[Place, None] = {}

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
        loss = f"`{event.loss_text}`" if event.loss_text else "The loss"
        graph = f"its graph ends in {event.root}" if event.root else "it is a leaf tensor without a graph"
        yield self.finding(
            event,
            f"`backward()` reached none of the {event.optimized} optimizer parameters in {self._bare_steps} steps. "
            f"{loss} is not connected to them: {graph}.",
            fix="Compute the loss from the model output without detach, `.data`, `.item()`, numpy or argmax in "
            "between.",
            evidence=facts(event, "optimized reached root", reached=0, left_graph_at=list(map(path_and_line, cuts))),
            place=cuts[0] if len(cuts) == 1 else event.place,
        )

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
                f"{shown} of {event.name} took part in the forward but got no gradient in {event.steps} steps: "
                "their output leaves the autograd graph before the loss.",
                fix="Remove the detach, `.data`, `.item()`, numpy or argmax between these layers and the loss.",
                evidence=facts(
                    event,
                    "model=name without_gradient with_gradient=complete steps",
                    without_gradient=names[:16],
                    left_graph_at=list(map(path_and_line, group[0].cuts)),
                ),
                place=cut or (self._last.place if self._last else None),
            )
