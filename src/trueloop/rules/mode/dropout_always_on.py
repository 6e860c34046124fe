"""MOD104 dropout-always-on: a dropout function drops although its module is in eval mode.

What it sees
------------
A call of `F.dropout` (or one of its kin, or `scaled_dot_product_attention` with dropout_p > 0) that is active, from a
method of a module that is in eval mode. `F.dropout` does not know the mode of the module around it: without `training=`
it always drops.

Why it hurts
------------
`model.eval()` does not switch it off: every prediction is a random draw from a thinned network, so validation is noisy
and too pessimistic, and the model that is deployed gives another answer each time.

Evidence
--------
The function, its probability, and the module it was called from.

Use instead
-----------
    x = F.dropout(x, p=0.5, training=self.training)

When it is fine
---------------
Not reported: Monte Carlo dropout that is called so (mc, monte carlo, uncertainty, bayes in the name of the module or of
a function on the way), a part of the model that is left in train mode on purpose, dropout functions outside any module.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import DropoutWhileEvaluating, ModelSeen, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import diff, source_of

__all__ = ["DropoutAlwaysOn"]

_ATTENTION = "scaled_dot_product_attention"


@final
class DropoutAlwaysOn(Rule):
    code = "MOD104"
    name = "dropout-always-on"
    severity = Severity.ERROR
    not_applicable = "no model was called"

    def on_model_seen(self, event: ModelSeen) -> None:
        """A model whose dropout obeys its mode is in order, and was judged."""

    def on_dropout_while_evaluating(self, event: DropoutWhileEvaluating) -> Findings:
        if event.on_purpose:
            return
        attention = event.function == _ATTENTION
        yield self.finding(
            event,
            f"{event.function} dropped with probability {event.probability:g} while {event.module} was in eval mode.",
            fix="Pass dropout_p=p if self.training else 0.0." if attention else "Pass training=self.training.",
            evidence={"function": event.function, "probability": event.probability, "module": event.module},
            diff=_obeying(event.place, event.function),
        )


def _obeying(place: Place | None, function: str) -> str:
    """`training=self.training` in the call, or a dropout_p that is zero in eval mode; only inside a method."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls, method = source.calls(place.line, function), source.enclosing_function(place.line)
    if len(calls) != 1 or method is None or [a.arg for a in method.args.args[:1]] != ["self"]:
        return ""
    call = calls[0]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if function == _ATTENTION:
        given = keywords.get("dropout_p") or (call.args[4] if len(call.args) > 4 else None)
        text = "" if given is None else f"{source.text(given)} if self.training else 0.0"
    else:
        given = keywords.get("training") or (call.args[2] if len(call.args) > 2 else None)
        text = "self.training"
    if given is not None:
        return (
            diff(place.path, [source.replacing(given, text)])
            if isinstance(given, (ast.Constant, ast.Name, ast.Attribute))
            else ""
        )
    if function == _ATTENTION or None in keywords:
        return ""
    written = source.text(call)
    return diff(
        place.path, [source.replacing(call, f"{written[:-1].rstrip().removesuffix(',')}, training=self.training)")]
    )
