"""SPD107 optimizer-foreach-disabled: `foreach=False` makes the optimizer update each parameter separately.

What it sees
------------
`foreach=False` (and no `fused=True`) on an optimizer with many parameters on a CUDA device. By default PyTorch updates
them together, so only an explicit setting is seen.

Why it hurts
------------
Each parameter then needs several small kernels, each launched from Python. A model with a few hundred tensors needs
thousands of launches per step, and the GPU waits for them.

Evidence
--------
The optimizer, the device, and how many tensors are updated separately.

Use instead
-----------
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

When it is fine
---------------
Not reported: the default, `foreach=True` or `fused=True`, few tensors, parameters on the CPU, differentiable steps.
`foreach` needs memory for one more copy of the parameters: if that does not fit, use `fused=True`, which needs none.
"""

import ast
from typing import Final

from trueloop.event import Place, UpdatePath
from trueloop.rules.rule import Findings, Rule, Severity, call_at, facts
from trueloop.usercode.source import diff

__all__ = ["OptimizerForeachDisabled"]

MANY: Final = 20  # Tensors: at about 10 microseconds each, their launches take as long as a short forward


class OptimizerForeachDisabled(Rule, code="SPD107", severity=Severity.ADVICE):
    not_applicable = "no optimizer held parameters on a GPU"

    def on_update_path(self, event: UpdatePath) -> Findings:
        if event.device != "cuda" or event.one_by_one < MANY or event.differentiable:
            return
        yield self.finding(
            event,
            f"{event.name} updates {event.one_by_one} of its {event.tensors} tensors on {event.device} one by one, "
            "because of `foreach=False`.",
            fix="Remove `foreach=False`, or use `fused=True`.",
            evidence=facts(event, "optimizer=name device tensors one_by_one"),
            diff=_together(event.place, event.name),
        )


def _together(place: Place | None, name: str) -> str:
    """The call with `foreach=None`, the default."""
    source, call = call_at(place, name)
    words = [] if call is None else call.keywords
    off = [word.value for word in words if word.arg == "foreach" and isinstance(word.value, ast.Constant)]
    return diff(source.path, [source.replacing(off[0], "None")]) if len(off) == 1 else ""
