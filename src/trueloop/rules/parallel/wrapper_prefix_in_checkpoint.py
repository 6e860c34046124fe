"""PAR104 wrapper-prefix-in-checkpoint: all keys of a saved state_dict start with `module.` or `_orig_mod.`.

What it sees
------------
`torch.save` of a state_dict taken from a wrapper (DistributedDataParallel, DataParallel, a compiled model): every key
starts with `module.` or `_orig_mod.`.

Why it hurts
------------
The file fits only a model that is wrapped in the same way. Loading it into the plain model, on one GPU or for
inference, fails with every key missing. With `strict=False`, the usual reaction, nothing is loaded and the model
predicts with random weights.

Evidence
--------
The wrapper, the prefix, the number of keys and an example.

Use instead
-----------
    torch.save(model.module.state_dict(), "model.pt")          # compiled model: model._orig_mod

When it is fine
---------------
Not reported: a script that loads the state back into the same wrapper (`model.load_state_dict(...)` of the same
variable) or that strips the prefix, and other wrappers with a `module` (averaged models).
"""

import ast

from trueloop.event import Place, PrefixSaved
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["WrapperPrefixInCheckpoint"]


class WrapperPrefixInCheckpoint(Rule, code="PAR104", severity=Severity.WARNING):
    not_applicable = "no state_dict of a wrapped model was saved"

    def on_prefix_saved(self, event: PrefixSaved) -> Findings:
        call = _state_dict_call(event.place)
        if event.loaded_back or (event.place and _handles_prefix(source_of(event.place.path), event.prefix, call)):
            return
        inner = event.prefix.rstrip(".")
        yield self.finding(
            event,
            f"All {event.names} keys of the saved state_dict start with `{event.prefix}` ({event.example}), from "
            f"{event.wrapper}. The plain model cannot load the file.",
            fix=f"Save the state of the wrapped model: `model.{inner}.state_dict()`.",
            evidence={"wrapper": event.wrapper, "prefix": event.prefix, "keys": event.names, "example": event.example},
            diff=_unwrapped(event.place, call, inner),
        )


def _state_dict_call(place: Place | None) -> ast.Attribute | None:
    """`model.state_dict` at a place, if only one call there takes the state of a model."""
    calls = [] if place is None else source_of(place.path).calls(place.line, "state_dict")
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    others = ("optim", "sched", "scaler", "ema", "sampler")
    models = [one for one in methods if not any(word in ast.unparse(one.value).lower() for word in others)]
    return models[0] if len(models) == 1 else None


def _handles_prefix(source: Source, prefix: str, taken: ast.Attribute | None) -> bool:
    """Does the script load states into the same variable, or mention the prefix?"""
    receiver = None if taken is None else ast.unparse(taken.value)
    for call in calls_in(source.tree):
        if called_name(call).startswith("consume_prefix"):
            return True
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if called_name(call) == "load_state_dict" and owner and owner == receiver:
            return True
    texts = (node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant))
    return any(text in (prefix, "module.", "_orig_mod.") for text in texts)


def _unwrapped(place: Place | None, taken: ast.Attribute | None, inner: str) -> str:
    """`model.state_dict()` -> `model.module.state_dict()`."""
    if place is None or taken is None or not isinstance(taken.value, (ast.Name, ast.Attribute)):
        return ""
    source = source_of(place.path)
    return diff(place.path, [source.replacing(taken.value, f"{source.text(taken.value)}.{inner}")])
