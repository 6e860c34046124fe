"""CKP104 best-weights-not-copied: the weights that were kept are the ones that went on training.

What it sees
------------
A `state_dict()` that is kept for later and then loaded back into its model, or saved, after further optimizer steps,
while its tensors still are the model's own memory. By identity: copies, clones and files are not touched by it.

Why it hurts
------------
`state_dict()` does not copy. The "best" weights change with every step, so that loading them back changes nothing, and
the file named best holds the last weights: the result is that of the last epoch, however much worse it was.

Evidence
--------
The step at which the state was taken, the step and the line at which it was used, and how many of its tensors are
shared.

Use instead
-----------
    best = copy.deepcopy(model.state_dict())

When it is fine
---------------
Not reported: a state that is saved or loaded at once, copies (`copy.deepcopy`, `clone`), states that are loaded into
another model (target networks, averages), states that come from a file.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import Place, StateReused, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, diff, shown_path, source_of

__all__ = ["BestWeightsNotCopied"]


@final
class BestWeightsNotCopied(Rule):
    code = "CKP104"
    name = "best-weights-not-copied"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> None:
        """Weights that move are what a kept state can be spoilt by."""

    def on_state_reused(self, event: StateReused) -> Findings:
        used = "loaded back" if event.use == "load" else "saved"
        whose = "all" if event.shared >= event.tensors else f"{event.shared} of"
        yield self.finding(
            event,
            f"The state taken here at step {event.taken_step} was {used} at step {event.step}, but {whose} its {event.tensors} tensors are "
            f"the model's own, which had moved on by {event.step - event.taken_step} steps.",
            fix="Keep a copy: copy.deepcopy(model.state_dict()).",
            evidence={
                "taken_at_step": event.taken_step,
                "used_at_step": event.step,
                "used_at": ""
                if event.use_place is None
                else f"{shown_path(event.use_place.path)}:{event.use_place.line}",
                "use": event.use,
                "shared_tensors": event.shared,
                "tensors": event.tensors,
            },
            diff=_copied(event.place),
        )


def _copied(place: Place | None) -> str:
    """A copy of the state, or clones of the values where it is read in a comprehension."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = source.calls(place.line, "state_dict")
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return ""
    call, parents = calls[0], source.parents(calls[0])
    if isinstance(next(parents, None), ast.Attribute):  # state_dict().items()
        comprehension = next((parent for parent in parents if isinstance(parent, ast.DictComp)), None)
        if comprehension is None or comprehension.value.lineno != comprehension.value.end_lineno:
            return ""
        return diff(place.path, [source.replacing(comprehension.value, f"{source.text(comprehension.value)}.clone()")])
    text = source.text(call)
    if _imports_copy(source):
        return diff(place.path, [source.replacing(call, f"copy.deepcopy({text})")])
    return diff(place.path, [source.replacing(call, f"{{k: v.clone() for k, v in {text}.items()}}")])


def _imports_copy(source: Source) -> bool:
    return any(
        isinstance(node, ast.Import) and any(alias.name == "copy" and not alias.asname for alias in node.names)
        for node in source.tree.body
    )
