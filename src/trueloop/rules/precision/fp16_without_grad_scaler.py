"""PRC101 fp16-without-grad-scaler: the backward runs in float16, and nothing keeps small gradients from becoming zero.

What it sees
------------
The graph of the loss holds operations whose results are float16 (by autocast, or because the weights are), the loss was
multiplied neither by a GradScaler nor by a constant of the user's, and an optimizer stepped with the gradients. A
`GradScaler(enabled=False)` multiplies by nothing, and is the same thing.

Why it hurts
------------
float16 holds no number below 6e-8, and below 6e-5 it loses digits. Gradients of deep layers and of large batches lie
there: they become exactly zero, and the layers that would have learned from them stand still, while the loss goes down
a little and looks healthy.

Evidence
--------
The share of the gradients' entries that are exactly zero, and of those that are so small that float16 has lost digits
of them, on the first step; the formats; whether a scaler was there but switched off.

Use instead
-----------
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

or bfloat16, which has the range of float32 and needs no scaler:

    with torch.autocast("cuda", dtype=torch.bfloat16):

When it is fine
---------------
bfloat16; forwards without a backward; gradients that no optimizer uses; a loss that is multiplied by a large constant,
or a backward that is given a gradient to begin with, as libraries with a scale of their own do.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, final

from trueloop.event import BackwardDtypes, Place, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["Fp16WithoutGradScaler"]

ENOUGH: Final = 3
"""Steps with such gradients: by the third, a line that scales some of its losses has shown that it does."""

SHOWN: Final = 0.001
"""Share of lost gradients from which on the sentence gives the numbers: before, they still fit."""


@final
class Fp16WithoutGradScaler(Rule):
    code = "PRC101"
    name = "fp16-without-grad-scaler"
    severity = Severity.ERROR
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._unscaled: dict[Place | None, BackwardDtypes] = {}
        """The first look at each line that computes gradients in float16 without a scale."""
        self._scales: set[Place | None] = set()
        """Lines that scaled a loss at some time: they know how."""
        self._steps: Counter[Place] = Counter()

    def on_backward_dtypes(self, event: BackwardDtypes) -> None:
        if event.scaling != "none":
            self._scales.add(event.place)
        elif "float16" in event.dtypes:
            self._unscaled.setdefault(event.place, event)

    def on_stepped(self, event: Stepped) -> Findings:
        if not self._unscaled:
            return
        for place in event.backward_places:
            seen = self._unscaled.get(place)
            if seen is None or place in self._scales:
                continue
            self._steps[place] += 1
            if self._steps[place] == ENOUGH:
                yield self.finding(
                    event,
                    f"The backward runs in float16 and nothing scales the loss{_by(seen)}: {_lost(seen)}.",
                    fix=_fix(seen),
                    evidence={
                        "formats": list(seen.dtypes),
                        "weights": list(seen.weights),
                        "scaler_switched_off": seen.scaler_off,
                        "scaler_built": f"{seen.scaler_place.path}:{seen.scaler_place.line}"
                        if seen.scaler_place
                        else None,
                        "gradients_zero": seen.zeros,
                        "gradients_below_float16": seen.subnormals,
                        "optimizer": event.name,
                    },
                    place=place,
                )


def _by(seen: BackwardDtypes) -> str:
    return ", for the GradScaler is switched off" if seen.scaler_off else ""


def _lost(seen: BackwardDtypes) -> str:
    if seen.zeros is None or seen.subnormals is None or seen.zeros + seen.subnormals < SHOWN:
        return "gradients below 6e-5 lose digits, and those below 6e-8 become zero"
    return f"{seen.zeros:.1%} of the first gradients' entries are exactly zero, and {seen.subnormals:.1%} too small for all their digits"


def _fix(seen: BackwardDtypes) -> str:
    if "float16" in seen.weights:
        return "Keep the weights in float32, run the forward under autocast, and scale the loss by a GradScaler; or use bfloat16."
    if seen.scaler_off:
        return "Switch the GradScaler on: enabled=True whenever autocast runs in float16."
    return "Scale the loss by a GradScaler (scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()), or use bfloat16."
