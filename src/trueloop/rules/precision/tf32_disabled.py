"""PRC106 tf32-disabled: float32 matrix products run at full precision on a GPU with TF32 tensor cores.

What it sees
------------
A model is trained on a CUDA device of compute capability 8 (Ampere) or newer, its linear layers and attention return
float32 (no autocast), and float32 matrix products run at full precision, PyTorch's default. The layers do enough work
per forward to matter. Layers of compiled models are not seen.

Why it hurts
------------
Tensor cores multiply TF32 (the range of float32, 10 mantissa bits) several times faster than the other units multiply
float32, and bfloat16 twice as fast again. Most of the GPU is idle, and the run costs a multiple of the time it needs.

Evidence
--------
The compute capability, the setting, the layers and the GFLOP of one forward.

Use instead
-----------
    torch.set_float32_matmul_precision("high")       # TF32, once, at the top

or bfloat16, which is faster still:

    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)

When it is fine
---------------
If you need full float32 precision (physics, solvers, reference results), set it explicitly:
`torch.set_float32_matmul_precision("highest")`. Not reported: older GPUs, small models, which are bound by Python, and
convolutions, which use TF32 by default.
"""

from typing import Final

from trueloop.event import Matmuls
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["Tf32Disabled"]

AMPERE: Final = (8, 0)  # The first compute capability with TF32
WORTHWHILE: Final = 1.0
"""GFLOP of a forward from which it matters: about 50 microseconds on an A100 in float32, more than kernel launches."""


class Tf32Disabled(Rule, code="PRC106", severity=Severity.ADVICE):
    not_applicable = "no float32 matrix product ran on a CUDA device"

    def on_matmuls(self, event: Matmuls) -> Findings:
        if event.set_by_user or event.precision != "ieee" or event.capability < AMPERE or event.gigaflops < WORTHWHILE:
            return
        major, minor = event.capability
        yield self.finding(
            event,
            f"{event.name} multiplies float32 matrices without TF32 ({event.gigaflops:.1f} GFLOP per forward in "
            f"{event.layers} layers). The tensor cores of this GPU (compute capability {major}.{minor}) are idle.",
            fix='Call `torch.set_float32_matmul_precision("high")` once at the top, or use bfloat16 autocast.',
            evidence={
                "capability": [major, minor],
                "precision": event.precision,
                "layers": event.layers,
                "gigaflops_per_forward": round(event.gigaflops, 2),
            },
        )
