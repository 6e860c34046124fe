"""PRC104 weights-in-half-precision: an optimizer updates float16 or bfloat16 weights, and most updates round to zero.

What it sees
------------
A weight in one of PyTorch's optimizers is float16 or bfloat16. In a few steps a part of it is compared before and
after: the share of values with a gradient (at least the mean) that did not change. Checked at the end, on the steps
with the larger learning rates, so that neither warmup nor the end of a decay counts.

Why it hurts
------------
bfloat16 has 8 significant bits: the next value after 1 is 1.0078. An update of less than half that distance changes
nothing, in this step and in every other: what 1000 float32 steps would add up to is lost. Only weights near zero learn,
and the loss still falls.

Evidence
--------
The weight, its dtype, the share of unchanged values and the learning rate in the checked steps.

Use instead
-----------
Weights in float32, computation in half precision:

    model = Net()                                            # no .to(torch.bfloat16), no .half()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)

When it is fine
---------------
Not reported: updates large enough to be stored; a frozen half-precision model under float32 adapters; an optimizer with
float32 copies of the weights. Not checked: third-party optimizers, which may use stochastic rounding or keep the
remainder.
"""

from typing import Final

from trueloop.event import RunEnded, UpdateRounded
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["WeightsInHalfPrecision"]

ENOUGH: Final = 3  # Steps that must show it
LOST: Final = 0.5  # Share of unchanged values: below it, most updates have an effect
FULL_RATE: Final = 0.5  # Share of the largest learning rate from which steps count: in warmup updates are small


class WeightsInHalfPrecision(Rule, code="PRC104", severity=Severity.WARNING):
    not_applicable = "no weight in half precision was updated"
    explained_by = ("nan-or-inf", "loss-diverges")

    def __init__(self) -> None:
        self._looks: dict[int, list[UpdateRounded]] = {}

    def why_not_checked(self) -> str:
        enough = any(len(looks) >= ENOUGH for looks in self._looks.values())
        return "" if enough else "weights in half precision were updated too few times"

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
            yield self.finding(
                last,
                f"{last.name} updates {last.dtype} weights, and {mean:.0%} of {last.parameter or 'a weight'} did not "
                f"change in {len(full)} checked steps at learning rate {last.learning_rate:g}: the updates round to "
                "zero.",
                fix="Keep the weights in float32 and compute under `torch.autocast`.",
                evidence=facts(
                    last,
                    "parameter dtype unchanged steps learning_rates values=entries",
                    unchanged=[round(look.unchanged, 4) for look in full],
                    steps=[look.index for look in full],
                    learning_rates=[look.learning_rate for look in full],
                ),
                place=last.optimizer_place or last.place,
            )
