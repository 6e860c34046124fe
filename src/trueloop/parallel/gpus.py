"""GPUs as their makers state them, for plans: memory, links inside a node, peak rates. No torch.

`reached` is the share of the bf16 peak that a training of large matrices reaches: for A100 and H100 taken from one
published run each of torchtitan (`benchmarks/plan.py` names them and shows how far the other published runs are off);
for all others the share of the H100, which is an assumption.
"""

from dataclasses import dataclass
from typing import Final, final

__all__ = ["GPUS", "UNKNOWN", "Gpu"]


@final
@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory: float  # bytes
    inside: float  # bytes per second that it sends to the GPUs of its node
    peaks: dict[str, float]  # precision -> FLOP/s
    reached: float  # share of them

    def rate(self, precision: str) -> float:
        """FLOP/s of a training."""
        return self.peaks[precision] * self.reached


def _peaks(fp32: float, tf32: float, half: float) -> dict[str, float]:
    return {"fp32": fp32, "tf32": tf32, "bf16": half, "fp16": half}


UNKNOWN: Final = Gpu("an A100", 0.0, 0.0, _peaks(19.5e12, 156e12, 312e12), 0.4)
"""What is assumed as long as neither a GPU nor a step time is given: the peak of an A100, and a careful share of it."""

GPUS: Final = {
    "a100": Gpu("an A100", 80e9, 300e9, _peaks(19.5e12, 156e12, 312e12), 0.57),
    "h100": Gpu("an H100", 80e9, 450e9, _peaks(67e12, 495e12, 989e12), 0.4),
    "h200": Gpu("an H200", 141e9, 450e9, _peaks(67e12, 495e12, 989e12), 0.4),
    "b200": Gpu("a B200", 180e9, 900e9, _peaks(75e12, 1100e12, 2250e12), 0.4),
}
"""Name, as `--gpu` takes it -> the GPU."""
