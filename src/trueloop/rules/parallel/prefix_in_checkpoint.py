"""PAR104 prefix-in-checkpoint: a saved state has the wrapper's prefix before every name.

What it sees
------------
torch.save of a state that was taken from a wrapper (DistributedDataParallel, DataParallel, a model that torch.compile
has made): every name in it begins with `module.` or `_orig_mod.`.

Why it hurts
------------
The file fits only a model that is wrapped in the same way. Loading it into the plain model, on one GPU or for
inference, fails with every key missing; loaded with `strict=False`, as people then do, nothing is loaded at all, and
the model answers with random weights.

Evidence
--------
The wrapper, the prefix, the number of names and one of them.

Use instead
-----------
    torch.save(model.module.state_dict(), "model.pt")          # of a compiled model: model._orig_mod

When it is fine
---------------
A script that puts such a state back into the wrapper itself (`model.load_state_dict(...)` of the same variable), or
that takes the prefix off when it loads, knows what it does and is not reported; nor are wrappers of other kinds that
have a `module` (averaged models).
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import Place, PrefixSaved
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["PrefixInCheckpoint"]


@final
class PrefixInCheckpoint(Rule):
    code = "PAR104"
    name = "prefix-in-checkpoint"
    severity = Severity.WARNING
    not_applicable = "no state of a wrapped model was saved"

    def on_prefix_saved(self, event: PrefixSaved) -> Findings:
        taken = _taking(event.place)
        if event.loaded_back or (event.place is not None and _knows(source_of(event.place.path), event.prefix, taken)):
            return
        inner = event.prefix.rstrip(".")
        yield self.finding(
            event,
            f"The {event.names} names of the saved state begin with {event.prefix!r} ({event.example}), "
            f"which {event.wrapper} puts there: the file does not fit the model itself.",
            fix=f"Save the state of the model inside the wrapper: model.{inner}.state_dict().",
            evidence={"wrapper": event.wrapper, "prefix": event.prefix, "names": event.names, "example": event.example},
            diff=_unwrapped(event.place, taken, inner),
        )


def _taking(place: Place | None) -> ast.Attribute | None:
    """`model.state_dict` at a place, if it is clear which of the calls there takes a model's state."""
    calls = [] if place is None else source_of(place.path).calls(place.line, "state_dict")
    found = [
        call.func
        for call in calls
        if isinstance(call.func, ast.Attribute) and not _is_of_another_kind(ast.unparse(call.func.value))
    ]
    return found[0] if len(found) == 1 else None


def _is_of_another_kind(name: str) -> bool:
    return any(word in name.lower() for word in ("optim", "sched", "scaler", "ema", "sampler"))


def _knows(source: Source, prefix: str, taken: ast.Attribute | None) -> bool:
    """Does the file put states into the same variable, or speak of the prefix?"""
    receiver = None if taken is None else ast.unparse(taken.value)
    for call in calls_in(source.tree):
        if called_name(call).startswith("consume_prefix"):
            return True
        if (
            called_name(call) == "load_state_dict"
            and isinstance(call.func, ast.Attribute)
            and ast.unparse(call.func.value) == receiver
        ):
            return True
    texts = (
        node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return any(text in (prefix, "module.", "_orig_mod.") for text in texts)


def _unwrapped(place: Place | None, taken: ast.Attribute | None, inner: str) -> str:
    """`model.state_dict()` becomes `model.module.state_dict()`."""
    if place is None or taken is None or not isinstance(taken.value, (ast.Name, ast.Attribute)):
        return ""
    source = source_of(place.path)
    return diff(place.path, [source.replacing(taken.value, f"{source.text(taken.value)}.{inner}")])
