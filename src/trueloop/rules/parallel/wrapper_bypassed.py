"""PAR107 wrapper-bypassed: a model is trained around its DistributedDataParallel, so its gradients stay on their rank.

What it sees
------------
An optimizer takes steps on a wrapped model while the module inside the wrapper was called itself, in train mode and
with a graph, and the wrapper was not: the backward reached the model, and nothing prepared the exchange. Or parameters
of the model have gradients that the wrapper does not exchange, because they were put in, or set to need a gradient,
after wrapping.

Why it hurts
------------
DistributedDataParallel exchanges gradients only in a backward that its own forward came before, and only those of the
parameters it met when it was built. Around it every rank takes its own steps: the models drift apart without a word,
and what is saved was trained on one rank's share of the data.

Evidence
--------
The model, the steps taken so, the ranks, and the parameters that are not exchanged, if not all.

Use instead
-----------
    output = model(x)                   # not model.module(x)

Replace, move, convert and unfreeze layers before `model = DistributedDataParallel(model)`; to unfreeze later, wrap
anew.

When it is fine
---------------
Evaluation through `model.module`, calls without a graph, calls beside one of the wrapper before the same backward (the
wrapper then exchanges all), and gradients that the script exchanges itself are not reported; nor is a discriminator
that a generator's step goes through.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import GradientsNotExchanged, GradientsShared, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import calls_in, diff, source_of

__all__ = ["WrapperBypassed"]


@final
class WrapperBypassed(Rule):
    code = "PAR107"
    name = "wrapper-bypassed"
    severity = Severity.ERROR
    not_applicable = "no model was wrapped in DistributedDataParallel on several ranks"

    def __init__(self) -> None:
        self._wrapped = False

    def why_not_checked(self) -> str:
        return "" if self._wrapped else self.not_applicable

    def on_gradients_shared(self, event: GradientsShared) -> None:
        self._wrapped = self._wrapped or event.by == "DistributedDataParallel"

    def on_gradients_not_exchanged(self, event: GradientsNotExchanged) -> Findings:
        around = event.how == "called"
        yield self.finding(
            event,
            _called(event) if around else _strange(event),
            fix="Call the wrapper itself: model(x), not model.module(x)."
            if around
            else "Do it before the model is wrapped, or wrap it anew after: DistributedDataParallel(model).",
            evidence={
                "model": event.model,
                "steps": event.steps,
                "world_size": event.world_size,
                "not_exchanged": list(event.parameters[:8]) or "all parameters",
            },
            diff=_through_wrapper(event.place) if around else "",
        )


def _called(event: GradientsNotExchanged) -> str:
    return (
        f"{event.steps} steps moved {event.model} by the gradients of one rank alone: this line calls the module inside its "
        f"DistributedDataParallel, and the {event.world_size} ranks exchange nothing."
    )


def _strange(event: GradientsNotExchanged) -> str:
    named, more = ", ".join(event.parameters[:3]), len(event.parameters) - 3
    became = "were set to need a gradient" if event.how == "thawed" else "were put into the model"
    return (
        f"{named}{f' and {more} more' if more > 0 else ''} of {event.model} {became} after this line wrapped it: "
        f"{event.steps} steps moved them by the gradients of one rank alone."
    )


def _through_wrapper(place: Place | None) -> str:
    """`model.module(x)` becomes `model(x)`."""
    source = None if place is None else source_of(place.path)
    statement = None if source is None or place is None else source.statement(place.line)
    if source is None or place is None or statement is None:
        return ""
    functions = [
        call.func for call in calls_in(statement) if isinstance(call.func, ast.Attribute) and call.func.attr == "module"
    ]
    if len(functions) != 1 or not isinstance(functions[0].value, (ast.Name, ast.Attribute)):
        return ""
    return diff(place.path, [source.replacing(functions[0], source.text(functions[0].value))])
