"""OPT111 weight-decay-in-adam: `Adam` has a weight decay, which it adds to the gradient and rescales.

What it sees
------------
PyTorch's own `Adam` takes its first step with `weight_decay` above zero in one of its parameter groups.

Why it hurts
------------
Adam adds the decay to the gradient and divides the sum by the typical gradient size. Weights with large gradients are
hardly decayed, weights with small gradients are decayed strongly, and the effect changes with the scale of the loss.

Evidence
--------
The weight decay of each group, and the learning rates.

Use instead
-----------
    torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

AdamW decays the weights directly. Tune the value again: the same number has a different effect (0.01 to 0.1 are usual).

When it is fine
---------------
To reproduce a published recipe that was tuned this way (graph networks with 5e-4, for example). Not reported: Adam
without weight decay or with `decoupled_weight_decay=True`, AdamW, optimizers derived from Adam, and SGD, where both
forms are the same.
"""

import ast
from typing import Final

from trueloop.event import DecaySeen, Place
from trueloop.rules.rule import Findings, Rule, Severity, call_at, facts
from trueloop.usercode.source import Edit, Source, diff

__all__ = ["WeightDecayInAdam"]

POSITION: Final = 4  # Index of `weight_decay` among the positional arguments of Adam and AdamW


class WeightDecayInAdam(Rule, code="OPT111", severity=Severity.ADVICE):
    not_applicable = "no optimizer with a weight decay took a step"

    def on_decay_seen(self, event: DecaySeen) -> Findings:
        if not event.folded:
            return
        decays = sorted({decay for decay in event.decays if decay > 0})
        yield self.finding(
            event,
            f"`Adam` adds its `weight_decay` of {' and '.join(f'{decay:g}' for decay in decays)} to the gradient and "
            "divides by the gradient size: weights with large gradients are hardly decayed.",
            fix="Use `AdamW`, which decays the weights directly, and tune `weight_decay` again.",
            evidence=facts(event, "weight_decay=decays learning_rates optimizer=name"),
            diff=_decoupled(event.place),
        )


def _decoupled(place: Place | None) -> str:
    """`Adam(…)` -> `AdamW(…)`, if the call sets the decay: AdamW has a non-zero default for groups that do not."""
    source, call = call_at(place, "Adam")
    if call is None or not _sets_decay(call):
        return ""
    function = call.func
    if isinstance(function, ast.Attribute):
        return diff(source.path, [source.replacing(function, f"{source.text(function.value)}.AdamW")])
    imported = _import_of_adam(source)
    if imported is None or not isinstance(function, ast.Name):
        return ""
    edit = source.replacing(function, "AdamW")
    return diff(source.path, [] if edit.first <= imported.first <= edit.last else [edit, imported])


def _sets_decay(call: ast.Call) -> bool:
    unpacked = any(isinstance(a, ast.Starred) for a in call.args) or any(word.arg is None for word in call.keywords)
    return not unpacked and (len(call.args) > POSITION or any(word.arg == "weight_decay" for word in call.keywords))


def _import_of_adam(source: Source) -> Edit | None:
    """The one-line `from torch.optim import Adam` with AdamW instead; None if Adam is used elsewhere."""
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
