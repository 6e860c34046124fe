"""SPD107 optimizer-foreach-disabled: the optimizer updates each parameter by itself, though it could update them together.

What it sees
------------
`foreach=False` on an optimizer (and no `fused=True`) that holds many parameters on a CUDA device. Without the argument
PyTorch updates the parameters of a CUDA device together by itself, so only a switched-off path is seen.

Why it hurts
------------
One by one, every parameter costs several small kernels, each launched from Python. On a model of a few hundred tensors
that is thousands of launches for each step, and the device waits for them.

Evidence
--------
The optimizer, the device, and how many tensors are updated by themselves.

Use instead
-----------
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

When it is fine
---------------
Not reported: the default, `foreach=True` or `fused=True`, few tensors, parameters on the CPU, steps that are
differentiated themselves. Updating together needs memory for one more copy of the parameters: where that does not fit,
take `fused=True`, which needs none.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import Place, UpdatePath
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import diff, source_of

__all__ = ["OptimizerForeachDisabled"]

MANY: Final = 20
"""Tensors: at some ten microseconds each their launches are about as long as a short step's forward; a handful does not
matter."""


@final
class OptimizerForeachDisabled(Rule):
    code = "SPD107"
    name = "optimizer-foreach-disabled"
    severity = Severity.ADVICE
    not_applicable = "no optimizer held parameters on a GPU"

    def on_update_path(self, event: UpdatePath) -> Findings:
        if event.device != "cuda" or event.one_by_one < MANY or event.differentiable:
            return
        yield self.finding(
            event,
            f"{event.name} updates {event.one_by_one} of its {event.tensors} tensors on the {event.device} device one by one, because "
            "foreach was switched off.",
            fix="Leave foreach to its default, or ask for one kernel: fused=True.",
            evidence={
                "optimizer": event.name,
                "device": event.device,
                "tensors": event.tensors,
                "one_by_one": event.one_by_one,
            },
            diff=_together(event.place, event.name),
        )


def _together(place: Place | None, name: str) -> str:
    """The optimizer's call without `foreach=False`."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = source.calls(place.line, name)
    if len(calls) != 1:
        return ""
    off = [word.value for word in calls[0].keywords if word.arg == "foreach" and isinstance(word.value, ast.Constant)]
    return diff(place.path, [source.replacing(off[0], "None")]) if len(off) == 1 else ""
