"""PRC102 grad-scaler-without-fp16: a GradScaler scales losses that are not computed in float16.

What it sees
------------
An enabled GradScaler scaled losses, and no graph of these losses that was checked (the first ones, then every power of
two) has a float16 operation: everything is bfloat16 or float32.

Why it hurts
------------
bfloat16 and float32 have the same range: there is no underflow to prevent. What remains is the cost: every step checks
all gradients for Inf, waits for the result on a GPU, and is skipped if the scale itself overflowed. Or autocast should
run in float16 but does not: wrong device type, or disabled.

Evidence
--------
The dtypes of the graphs, and how many losses were checked.

Use instead
-----------
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

When it is fine
---------------
Not reported: a disabled scaler (`GradScaler(enabled=False)`), and one that scales some float16 losses. Not checked:
compiled models and reentrant checkpointing, whose graphs are incomplete.
"""

from typing import Final

from trueloop.event import BackwardDtypes, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["GradScalerWithoutFp16"]

ENOUGH: Final = 3  # Checked losses of a scaler: the first one may be a warmup


class GradScalerWithoutFp16(Rule, code="PRC102", severity=Severity.ADVICE):
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._looks: dict[int, list[BackwardDtypes]] = {}

    def on_backward_dtypes(self, event: BackwardDtypes) -> None:
        if event.scaler is not None:
            self._looks.setdefault(event.scaler, []).append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for looks in self._looks.values():
            dtypes = sorted({kind for look in looks for kind in look.dtypes}) or ["float32"]
            if len(looks) < ENOUGH or "float16" in dtypes or not all(look.complete for look in looks):
                continue
            last = looks[-1]
            yield self.finding(
                last,
                f"The `GradScaler` scales losses computed in {dtypes[0]}: {len(looks)} checked graphs have no float16 "
                "operation.",
                fix="Remove the scaler or set `enabled=False`: only float16 needs it. If you want float16, check the "
                "device type of autocast.",
                evidence={"dtypes": dtypes, "graphs": len(looks), "device": last.device},
                place=last.scaler_place or last.place,
            )
