"""PAR107 ddp-bypassed: a model is trained around its DistributedDataParallel, so gradients are not exchanged.

What it sees
------------
An optimizer steps on a wrapped model whose inner module was called directly, in train mode and with a graph, while the
wrapper was not called. Or parameters have gradients that the wrapper does not exchange, because they were added or
unfrozen after wrapping.

Why it hurts
------------
DistributedDataParallel exchanges gradients only in a backward after its own forward, and only for the parameters it
knew when it was created. Around it every rank takes its own steps: the models silently diverge, and the saved one was
trained on one rank's share of the data.

Evidence
--------
The model, the number of such steps, the number of ranks, and the parameters that are not exchanged, if not all.

Use instead
-----------
    output = model(x)                   # not model.module(x)

Replace, move, convert and unfreeze layers before `model = DistributedDataParallel(model)`; to unfreeze later, wrap
again.

When it is fine
---------------
Not reported: evaluation through `model.module`, calls without a graph, calls next to one of the wrapper before the same
backward (the wrapper then exchanges all), gradients that the script exchanges itself, and a discriminator in the
generator's step.
"""

import ast

from trueloop.event import GradientsNotExchanged, GradientsShared, Place
from trueloop.rules.rule import Findings, Rule, Severity, call_at, facts
from trueloop.usercode.source import diff

__all__ = ["DdpBypassed"]


class DdpBypassed(Rule, code="PAR107", severity=Severity.ERROR):
    not_applicable = "no model was wrapped in DistributedDataParallel on several ranks"

    def __init__(self) -> None:
        self._wrapped = False

    def why_not_checked(self) -> str:
        return "" if self._wrapped else self.not_applicable

    def on_gradients_shared(self, event: GradientsShared) -> None:
        self._wrapped = self._wrapped or event.by == "DistributedDataParallel"

    def on_gradients_not_exchanged(self, event: GradientsNotExchanged) -> Findings:
        called = event.how == "called"
        yield self.finding(
            event,
            f"This line calls the module inside DistributedDataParallel: {event.steps} steps of {event.model} used the "
            f"gradients of one rank, and the {event.world_size} ranks exchanged nothing."
            if called
            else _unknown_parameters(event),
            fix="Call the wrapper: `model(x)`, not `model.module(x)`."
            if called
            else "Do it before wrapping, or wrap again afterwards: `DistributedDataParallel(model)`.",
            evidence=facts(
                event, "model steps world_size", not_exchanged=list(event.parameters[:8]) or "all parameters"
            ),
            diff=_through_wrapper(event.place) if called else "",
        )


def _unknown_parameters(event: GradientsNotExchanged) -> str:
    named, more = ", ".join(event.parameters[:3]), len(event.parameters) - 3
    what = "unfrozen" if event.how == "thawed" else "added"
    return (
        f"{named}{f' and {more} more' if more > 0 else ''} of {event.model} were {what} after this line wrapped the "
        f"model: {event.steps} steps updated them with the gradients of one rank only."
    )


def _through_wrapper(place: Place | None) -> str:
    """`model.module(x)` -> `model(x)`."""
    source, call = call_at(place, "module")
    function = None if call is None else call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, (ast.Name, ast.Attribute)):
        return ""
    return diff(source.path, [source.replacing(function, source.text(function.value))])
