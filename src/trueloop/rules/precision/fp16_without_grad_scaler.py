"""PRC101 fp16-without-grad-scaler: the backward runs in float16 without a GradScaler, so small gradients become zero.

What it sees
------------
The graph of the loss contains float16 operations (from autocast or float16 weights), neither a GradScaler nor a
constant scaled the loss, and an optimizer stepped with the gradients. A `GradScaler(enabled=False)` scales nothing.

Why it hurts
------------
float16 has no values below 6e-8 and loses digits below 6e-5. Gradients of deep layers and large batches are in this
range: they underflow to zero and these layers stop learning, while the loss falls a little and looks healthy.

Evidence
--------
The share of gradient values that are exactly zero, and of those too small for full float16 precision, at the first
step; the dtypes; whether a disabled scaler exists.

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
Not reported: bfloat16; forwards without a backward; gradients that no optimizer uses; a loss multiplied by a large
constant, or a backward with an initial gradient, as libraries with their own loss scale do.
"""

from typing import Final

from trueloop.event import BackwardDtypes, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["Fp16WithoutGradScaler"]

ENOUGH: Final = 3  # Steps with such gradients: a line that scales only some of its losses does so within three steps
SHOWN: Final = 0.001  # Share of lost gradients from which the message gives the numbers


class Fp16WithoutGradScaler(Rule, code="PRC101", severity=Severity.ERROR):
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._unscaled: dict[Place | None, BackwardDtypes] = {}  # First event of each line in float16 without a scale
        self._scales: set[Place | None] = set()  # Lines that scaled a loss at least once

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
            if self.count(place) == ENOUGH:
                yield self.finding(
                    event,
                    "`backward()` runs in float16 without loss scaling"
                    f"{' (the GradScaler is disabled)' if seen.scaler_off else ''}: {_lost(seen)}.",
                    fix=_fix(seen),
                    evidence=facts(
                        seen,
                        "dtypes weights scaler_disabled=scaler_off scaler_created=scaler_place",
                        "gradients_zero=zeros gradients_below_float16=subnormals",
                        optimizer=event.name,
                    ),
                    place=place,
                )


def _lost(seen: BackwardDtypes) -> str:
    if seen.zeros is None or seen.subnormals is None or seen.zeros + seen.subnormals < SHOWN:
        return "gradients below 6e-5 lose digits, and gradients below 6e-8 become zero"
    return f"{seen.zeros:.1%} of the first gradients are exactly zero, and {seen.subnormals:.1%} have lost digits"


def _fix(seen: BackwardDtypes) -> str:
    if "float16" in seen.weights:
        return "Keep the weights in float32, run the forward under autocast and use a GradScaler; or use bfloat16."
    if seen.scaler_off:
        return "Enable the GradScaler: `GradScaler(enabled=True)` whenever autocast uses float16."
    return (
        "Use a GradScaler (`scaler.scale(loss).backward()`, `scaler.step(optimizer)`, `scaler.update()`), or bfloat16."
    )
