"""OPT111 decay-in-adam: Adam is given a weight decay, which it folds into the gradient and then scales away.

What it sees
------------
torch's own `Adam` takes its first step with `weight_decay` above zero in one of its groups.

Why it hurts
------------
Adam adds the decay to the gradient and divides the sum by the gradient's usual size: weights with large gradients are
hardly decayed, and those with small ones are decayed hard. The number given is not the decay one gets, and it changes
its meaning with the loss's scale.

Evidence
--------
The decay of each group, and the learning rates.

Use instead
-----------
    torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

AdamW takes the decay from the weights themselves. The same number then acts otherwise: choose it anew (0.01 to 0.1 are
usual).

When it is fine
---------------
To reproduce a published recipe that was tuned so (graph networks with 5e-4, for example). Adam without decay, Adam with
`decoupled_weight_decay=True`, AdamW, and optimizers that are derived from Adam are not reported; nor is SGD, where both
are one thing.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import DecaySeen, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Edit, Source, diff, source_of

__all__ = ["DecayInAdam"]

POSITION: Final = 4
"""Where weight_decay stands among the arguments of Adam, and of AdamW, if it is given without its name."""


@final
class DecayInAdam(Rule):
    code = "OPT111"
    name = "decay-in-adam"
    severity = Severity.ADVICE
    not_applicable = "no optimizer with a weight decay took a step"

    def on_decay_seen(self, event: DecaySeen) -> Findings:
        if not event.folded:
            return
        decays = sorted({decay for decay in event.decays if decay > 0})
        yield self.finding(
            event,
            f"Adam folds its weight decay of {' and '.join(f'{decay:g}' for decay in decays)} into the gradient and divides it by the "
            "gradient's size: weights with large gradients are hardly decayed.",
            fix="Use AdamW, which takes the decay from the weights themselves, and choose the value anew: the same number acts otherwise.",
            evidence={
                "weight_decay": list(event.decays),
                "learning_rates": list(event.learning_rates),
                "optimizer": event.name,
            },
            diff=_decoupled(event.place),
        )


def _decoupled(place: Place | None) -> str:
    """`Adam(…)` -> `AdamW(…)`, where the call names its decay: AdamW has one of its own for the groups that do not."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = source.calls(place.line, "Adam")
    if len(calls) != 1 or not _names_its_decay(calls[0]):
        return ""
    function = calls[0].func
    if isinstance(function, ast.Attribute):
        return diff(place.path, [source.replacing(function, f"{source.text(function.value)}.AdamW")])
    imported = _import_of_adam(source)
    if imported is None or not isinstance(function, ast.Name):
        return ""
    return diff(place.path, _merged(source.replacing(function, "AdamW"), imported))


def _names_its_decay(call: ast.Call) -> bool:
    starred = any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        word.arg is None for word in call.keywords
    )
    return not starred and (len(call.args) > POSITION or any(word.arg == "weight_decay" for word in call.keywords))


def _import_of_adam(source: Source) -> Edit | None:
    """`from torch.optim import Adam`, on one line, with AdamW in its place; None if Adam is needed elsewhere."""
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name) and node.id == "Adam"]
    if len(names) != 1:
        return None
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torch.optim" and node.lineno == node.end_lineno:
            given = {alias.name: alias for alias in node.names}
            if "Adam" in given and given["Adam"].asname is None and "AdamW" not in given:
                alias = given["Adam"]
                line = source.lines[node.lineno - 1].rstrip("\n").encode()
                text = line[: alias.col_offset] + b"AdamW" + line[alias.end_col_offset or 0 :]
                return Edit(node.lineno, node.lineno, (text.decode(),))
    return None


def _merged(call: Edit, imported: Edit) -> list[Edit]:
    """Both edits; none if they touch the same line."""
    return [] if call.first <= imported.first <= call.last else [call, imported]
