"""PRC102 grad-scaler-without-fp16: a GradScaler scales losses that were never computed in float16.

What it sees
------------
A GradScaler that is switched on multiplied losses, and none of the graphs of those losses that were looked at (the
first ones, then those whose number is a power of two) has an operation in float16: everything is bfloat16 or float32.

Why it hurts
------------
bfloat16 and float32 reach as far down as float32 does: there is no underflow to prevent. What is left are the costs:
every step looks through all gradients for infinities, waits for the answer on a GPU, and is left out where the scale
itself overflowed. Or autocast was meant to run in float16 and does not: for another kind of device than the model's, or
switched off.

Evidence
--------
The formats of the graphs, and how many losses were looked at.

Use instead
-----------
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

When it is fine
---------------
A scaler that is switched off: `GradScaler(enabled=False)`; one that scales some losses in float16 and others not.
Compiled or reentrantly checkpointed models, whose graphs do not show everything, are not judged.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import BackwardDtypes, RunEnded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["GradScalerWithoutFp16"]

ENOUGH: Final = 3
"""Losses of a scaler that must have been looked at: the first one may be a rehearsal."""


@final
class GradScalerWithoutFp16(Rule):
    code = "PRC102"
    name = "grad-scaler-without-fp16"
    severity = Severity.ADVICE
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._looks: dict[int, list[BackwardDtypes]] = {}

    def on_backward_dtypes(self, event: BackwardDtypes) -> None:
        if event.scaler is not None:
            self._looks.setdefault(event.scaler, []).append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for looks in self._looks.values():
            formats = sorted({kind for look in looks for kind in look.dtypes})
            if len(looks) < ENOUGH or "float16" in formats or not all(look.complete for look in looks):
                continue
            last = looks[-1]
            kind = formats[0] if formats else "float32"
            yield self.finding(
                last,
                f"The GradScaler scales losses that are computed in {kind}: {len(looks)} graphs looked at hold no float16 operation.",
                fix="Leave the scaler out (or enabled=False): only float16 needs one. If float16 was meant, look at autocast's device.",
                evidence={"formats": formats or ["float32"], "graphs": len(looks), "device": last.device},
                place=last.scaler_place or last.place,
            )
