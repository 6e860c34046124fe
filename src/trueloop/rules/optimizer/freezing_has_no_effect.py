"""OPT117 freezing-has-no-effect: an attribute that PyTorch does not read was set to False, and the weights still train.

What it sees
------------
A parameter has an attribute such as `require_grad` (without the s), or a module has `requires_grad`, set to False. Its
parameters still require gradients, get them, and are held by an optimizer that steps. Every optimizer of the run is
looked at, on its steps 2, 4, 8 and so on: a pretrained model is frozen for a second one.

Why it hurts
------------
Python accepts any attribute. The layers that should stay as they are train on: pretrained features are overwritten, and
memory and time are spent on gradients that nobody wanted.

Evidence
--------
The attribute, the parameters or the module that has it, and how many parameters are trained nevertheless.

Use instead
-----------
    for p in encoder.parameters():
        p.requires_grad = False           # requires, with an s; of a parameter

    encoder.requires_grad_(False)         # of a module: the method

When it is fine
---------------
Not reported: parameters that are frozen in a way that works, or that no optimizer updates. Of an attribute that was
False while no optimizer updated its weights, nothing is reported later either: you may train them again on purpose.
"""

import ast

from trueloop.event import FreezingIgnored, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, plural
from trueloop.usercode.source import source_of

__all__ = ["FreezingHasNoEffect"]


class FreezingHasNoEffect(Rule, code="OPT117", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_freezing_ignored(self, event: FreezingIgnored) -> Findings:
        shown = ", ".join(event.names[:3])
        if event.on == "parameter":
            message = (
                f"`{event.attribute} = False` on {plural(event.parameters, 'parameter')} of {event.model} ({shown})"
            )
            fix = "Write `p.requires_grad = False`."
        else:
            message = f"`{event.attribute} = False` on the module {shown} of {event.model}"
            fix = f"Call `{shown}.requires_grad_(False)`: a module has no `requires_grad` that counts."
        yield self.finding(
            event,
            f"{message} has no effect: {plural(event.parameters, 'parameter')} of it still train.",
            fix=fix,
            evidence={"model": event.model, "attribute": event.attribute, "names": list(event.names),
                      "trained": event.parameters},
            place=_assignment(event.place, event.attribute),
        )  # fmt: skip


def _assignment(place: Place | None, attribute: str) -> Place | None:
    """The first line of the file that sets the attribute."""
    if place is None:
        return None
    source = source_of(place.path)
    for node in ast.walk(source.tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Attribute) and t.attr == attribute for t in targets):
            return source.place(node, place.function)
    return place
