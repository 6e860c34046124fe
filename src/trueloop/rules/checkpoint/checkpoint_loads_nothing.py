"""CKP106 checkpoint-loads-nothing: `load_state_dict` finds no key, or almost none, and the model keeps its weights.

What it sees
------------
The keys of a state beside those of the model. With `strict=False` no key matches, or fewer than one in ten of both; or
the state is empty; or it holds only the model's own weights, although a file was read and nothing of it was used. The
same where the state of a trained model was taken in the same script: the untrained model that is loaded gets nothing of
it, although one of its weights would fit.

Why it hurts
------------
`strict=False` silently skips what does not match, and so does a filter such as `if key in own`. The model trains, or is
evaluated, from random weights. The usual cause is a prefix: `module.` of DataParallel, `_orig_mod.` of torch.compile,
the name of an attribute.

Evidence
--------
How many keys there are on both sides, how many match, one key of each, and the prefix without which they would match.

Use instead
-----------
    state = {key.removeprefix("_orig_mod."): value for key, value in torch.load(path).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected

When it is fine
---------------
Not reported: a part of the model or of the file (a backbone without its head, adapters), as long as one key in ten of
one side matches, and values that were copied into the model's state in place before it was loaded.
"""

from typing import Final

from trueloop.event import StateMatched
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["CheckpointLoadsNothing"]

FEW: Final = 0.1


class CheckpointLoadsNothing(Rule, code="CKP106", severity=Severity.ERROR):
    not_applicable = "no state was loaded into a model"

    def on_state_matched(self, event: StateMatched) -> Findings:
        evidence = {"keys": event.tensors, "keys_of_the_model": event.parameters, "matched": event.matched,
                    "key": event.their_key, "key_of_the_model": event.own_key, "prefix": event.prefix}  # fmt: skip
        if event.own_weights:
            yield self.finding(
                event,
                f"All {event.tensors} tensors that are loaded into {event.model} are its own: nothing comes from the "
                "file that was read before.",
                fix="Compare the keys of the file with `model.state_dict().keys()`; remove a prefix where they differ.",
                evidence=evidence,
            )
        if event.source and not event.own_weights:
            yield self._nothing_of_source(event)
            return
        few = event.matched < FEW * min(event.tensors, event.parameters)
        if event.strict or (event.tensors and not few) or not (event.tensors or event.from_file):
            return
        keys = f" The file has `{event.their_key}`, the model `{event.own_key}`." if event.their_key else ""
        fix = "Print what `load_state_dict` returns: missing and unexpected keys."
        if event.prefix.startswith("+"):
            fix = f"Add `{event.prefix[1:]}` to the keys of the state: then {event.matched_without} match."
        elif event.prefix:
            fix = f"Remove `{event.prefix}` from the keys of the state: then {event.matched_without} match."
        yield self.finding(
            event,
            f"`load_state_dict(strict=False)` loaded {event.matched} of {event.tensors} tensors into {event.model}, "
            f"which has {event.parameters}.{keys}",
            fix=fix,
            evidence=evidence,
            severity=Severity.ERROR if event.matched == 0 else Severity.WARNING,
        )

    def _nothing_of_source(self, event: StateMatched) -> Finding:
        given = f"{event.tensors} tensors, all its own" if event.tensors else "no tensor"
        keys = f" That state has `{event.source_key}`, the model does not." if event.source_key else ""
        return self.finding(
            event,
            f"`load_state_dict` gives {event.model} {given}: nothing comes from the state of the trained "
            f"{event.source}.{keys}",
            fix="Rename the keys of the state to those of the model, and check that some match: `assert matched`.",
            evidence={"keys": event.tensors, "keys_of_the_model": event.parameters, "source": event.source,
                      "key": event.source_key},
        )  # fmt: skip
