"""PRC106 tf32-disabled: float32 matrices are multiplied bit by bit on a GPU that has faster units for them.

What it sees
------------
A model is trained on a CUDA device of the Ampere generation or newer (compute capability 8), its linear layers and
attentions give float32 results, so no autocast is at work, and products of float32 matrices run at full precision,
which is PyTorch's default. The layers do enough work per forward for it to matter. The layers of a compiled model are
not seen.

Why it hurts
------------
Tensor cores multiply TF32 (float32's range, 10 bits of the fraction) several times as fast as the other units multiply
float32, and bfloat16 twice as fast again. Most of the GPU stands idle, and the run costs a multiple of what it would
have to.

Evidence
--------
The device's compute capability, the setting, the layers and the billions of operations of one forward.

Use instead
-----------
    torch.set_float32_matmul_precision("high")       # TF32, once, at the top

or bfloat16, which is faster still:

    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)

When it is fine
---------------
Work that needs all bits of float32 (physics, solvers, comparisons with a reference): say so by naming the setting in
the script,
`torch.set_float32_matmul_precision("highest")`. Older GPUs; small models, which wait for Python and not for products.
Convolutions use TF32 by default.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Matmuls
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["Tf32Disabled"]

AMPERE: Final = (8, 0)
"""The first compute capability with TF32."""
WORTHWHILE: Final = 1.0
"""Billions of operations of a forward from which on it matters: about 50 microseconds on an A100 in float32, which then
begin to outweigh the launching of the kernels."""


@final
class Tf32Disabled(Rule):
    code = "PRC106"
    name = "tf32-disabled"
    severity = Severity.ADVICE
    not_applicable = "no float32 matrices were multiplied on a CUDA device"

    def on_matmuls(self, event: Matmuls) -> Findings:
        if event.set_by_user or event.precision != "ieee" or event.capability < AMPERE or event.gigaflops < WORTHWHILE:
            return
        major, minor = event.capability
        yield self.finding(
            event,
            f"{event.name} multiplies float32 matrices at full precision ({event.gigaflops:.1f} billion operations per forward in "
            f"{event.layers} layers) on a GPU of compute capability {major}.{minor}, whose tensor cores stand idle.",
            fix='Call torch.set_float32_matmul_precision("high") once at the top, or compute under bfloat16 autocast.',
            evidence={
                "capability": [major, minor],
                "precision": event.precision,
                "layers": event.layers,
                "gigaflops_per_forward": round(event.gigaflops, 2),
            },
        )
