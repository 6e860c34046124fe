"""MOD104 dropout-always-on: a dropout function is active although its module is in eval mode.

What it sees
------------
An active call of `F.dropout` (or a variant, or `scaled_dot_product_attention` with dropout_p > 0) from a method of a
module in eval mode. `F.dropout` does not know the mode of the module: without `training=` it is always active.

Why it hurts
------------
`model.eval()` does not disable it: every prediction is random, so validation is noisy and too pessimistic, and the
deployed model gives a different answer each time.

Evidence
--------
The function, its probability, and the module it was called from.

Use instead
-----------
    x = F.dropout(x, p=0.5, training=self.training)

When it is fine
---------------
Not reported: Monte Carlo dropout that is named as such (mc, monte carlo, uncertainty, bayes in the name of the module
or of a calling function), a part of the model left in train mode on purpose, dropout functions outside any module.
"""

import ast

from trueloop.event import DropoutWhileEvaluating, ModelSeen, Place
from trueloop.rules.rule import Findings, Rule, Severity, call_at
from trueloop.usercode.source import diff

__all__ = ["DropoutAlwaysOn"]

_ATTENTION = "scaled_dot_product_attention"


class DropoutAlwaysOn(Rule, code="MOD104", severity=Severity.ERROR):
    not_applicable = "no model was called"
    applies_after = (ModelSeen,)

    def on_dropout_while_evaluating(self, event: DropoutWhileEvaluating) -> Findings:
        if event.on_purpose:
            return
        attention = event.function == _ATTENTION
        yield self.finding(
            event,
            f"`{event.function}` was active with p={event.probability:g} while {event.module} was in eval mode: "
            "predictions are random.",
            fix=f"Pass `{'dropout_p=p if self.training else 0.0' if attention else 'training=self.training'}` to it.",
            evidence={"function": event.function, "probability": event.probability, "module": event.module},
            diff=_with_mode(event.place, event.function),
        )


def _with_mode(place: Place | None, function: str) -> str:
    """`training=self.training` in the call, or a dropout_p of zero in eval mode; only inside a method."""
    source, call = call_at(place, function)
    method = None if place is None else source.enclosing_function(place.line)
    if call is None or method is None or [a.arg for a in method.args.args[:1]] != ["self"]:
        return ""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if function == _ATTENTION:
        argument = keywords.get("dropout_p") or (call.args[4] if len(call.args) > 4 else None)
        text = "" if argument is None else f"{source.text(argument)} if self.training else 0.0"
    else:
        argument = keywords.get("training") or (call.args[2] if len(call.args) > 2 else None)
        text = "self.training"
    if argument is not None:
        simple = isinstance(argument, (ast.Constant, ast.Name, ast.Attribute))
        return diff(source.path, [source.replacing(argument, text)]) if simple else ""
    if function == _ATTENTION or None in keywords:
        return ""
    text = source.text(call)[:-1].rstrip().removesuffix(",")
    return diff(source.path, [source.replacing(call, f"{text}, training=self.training)")])
