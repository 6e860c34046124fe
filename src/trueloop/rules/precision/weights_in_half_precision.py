"""PRC104 weights-in-half-precision: an optimizer updates weights in half precision, and most of its updates round to nothing.

What it sees
------------
A weight that one of PyTorch's optimizers holds is float16 or bfloat16. On a few steps a part of it is compared before
and after: the share of entries that have a gradient (not below the mean) and did not change at all. Judged at the end,
by the steps with the larger learning rates, so that neither a warm-up nor the end of a decay counts.

Why it hurts
------------
bfloat16 has 8 bits: next to 1 stands 1.0078. An update smaller than half that distance leaves the weight as it is, this
time and every time: what a thousand steps would add up to in float32 is lost a thousand times. Only weights near zero
learn, and the loss still falls.

Evidence
--------
The weight, its format, the share of unchanged entries and the learning rate of the steps looked at.

Use instead
-----------
Weights in float32, computed with in half precision:

    model = Net()                                            # no .to(torch.bfloat16), no .half()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)

When it is fine
---------------
Updates large enough to be written; a frozen model in half precision under adapters in float32; an optimizer that holds
float32 copies of the weights. Optimizers from elsewhere are not judged: they may round by chance (stochastic rounding)
or carry the remainder along.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import RunEnded, UpdateRounded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["WeightsInHalfPrecision"]

ENOUGH: Final = 3
"""Steps that must show it."""
LOST: Final = 0.5
"""Share of unchanged entries: where it is less, the larger part of the training arrives."""
FULL_RATE: Final = 0.5
"""Steps count whose learning rate is at least this share of the largest one: in a warm-up or at the end of a decay
updates may be small."""


@final
class WeightsInHalfPrecision(Rule):
    code = "PRC104"
    name = "weights-in-half-precision"
    severity = Severity.WARNING
    not_applicable = "no weight in half precision was updated"
    explained_by = ("nan-or-inf", "loss-diverges")

    def __init__(self) -> None:
        self._looks: dict[int, list[UpdateRounded]] = {}

    def why_not_checked(self) -> str:
        return (
            ""
            if any(len(looks) >= ENOUGH for looks in self._looks.values())
            else "weights in half precision were updated too few times"
        )

    def on_update_rounded(self, event: UpdateRounded) -> None:
        self._looks.setdefault(event.optimizer, []).append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for looks in self._looks.values():
            largest = max(look.learning_rate for look in looks)
            full = [look for look in looks if look.learning_rate >= FULL_RATE * largest]
            if len(full) < ENOUGH or any(look.unchanged <= LOST for look in full):
                continue
            last = full[-1]
            mean = sum(look.unchanged for look in full) / len(full)
            weight = last.parameter or "a weight"
            yield self.finding(
                last,
                f"{last.name} updates weights in {last.dtype}, and {mean:.0%} of the entries of {weight} that have a gradient did not "
                f"change in {len(full)} steps looked at (learning rate {last.learning_rate:g}): the updates round to nothing.",
                fix="Keep the weights in float32 and compute under torch.autocast.",
                evidence={
                    "parameter": last.parameter,
                    "format": last.dtype,
                    "unchanged": [round(look.unchanged, 4) for look in full],
                    "steps": [look.index for look in full],
                    "learning_rates": [look.learning_rate for look in full],
                    "entries": last.entries,
                },
                place=last.optimizer_place or last.place,
            )
