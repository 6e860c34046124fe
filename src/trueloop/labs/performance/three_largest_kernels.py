"""three-largest-kernels: Where does the time of one training step go?

The profiler of torch records every operation of a step: its name, its own time, its shapes. Sorted by own time, a few
names explain most of a step, and only they are worth a change.

You will profile one step of a small network, forward, backward and optimizer, and find its three largest kernels. On
a machine with a GPU these are the kernels of the GPU.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Bars

__all__ = ["LAB"]

BATCH, WIDTH, LAYERS = 512, 512, 3


class Training:
    def __init__(self, device: str) -> None:
        layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.x = torch.randn(BATCH, WIDTH, device=device)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self.optimizer.step()


def profiled(training: Training, device: str) -> list[Any]:
    """The operations of one step, the largest own time first."""
    training.step()  # the first step allocates
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=activities, record_shapes=True, with_flops=True) as profiler:
        training.step()
        if device == "cuda":
            torch.cuda.synchronize()
    return sorted(profiler.key_averages(), key=lambda event: -own_time(event, device))


def own_time(event: Any, device: str) -> float:
    """Microseconds, without the operations that it calls. On a GPU: of kernels, not of the calls that launch them."""
    if device == "cpu":
        return float(event.self_cpu_time_total)
    is_kernel = str(event.device_type).endswith("CUDA") and not getattr(event, "is_user_annotation", False)
    return float(event.self_device_time_total) if is_kernel else 0.0


@dataclass(frozen=True)
class Measured:
    device: str
    largest: list[tuple[str, int, float]]  # name, calls, share of the step
    calls: dict[str, int]  # of matrix products
    flops: int


def measure() -> Measured:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    events = profiled(Training(device), device)
    total = sum(own_time(event, device) for event in events)
    largest = [(event.key, int(event.count), own_time(event, device) / total) for event in events[:3]]
    products = {event.key: int(event.count) for event in events if event.key in ("aten::addmm", "aten::mm")}
    flops = sum(int(event.flops) for event in events if event.key in products)
    return Measured(device, largest, products, flops)


def answer(page: Page, measured: Measured) -> None:
    names = [name if len(name) <= 70 else f"{name[:67]}..." for name, _, _ in measured.largest]
    rows = [(short, calls, share) for short, (_, calls, share) in zip(names, measured.largest, strict=True)]
    page.table(f"The three largest, on {measured.device}", ("kernel", "calls", "share of the step"), rows)
    shares = tuple(share for _, _, share in measured.largest)
    page.show(Bars("Share of the step", tuple(names), shares, tuple(f"{share:.0%}" for share in shares)))
    forward = 2 * BATCH * WIDTH * WIDTH * LAYERS
    counted = [("forward, 2 * batch * in * out a layer", forward), ("counted in the step", measured.flops)]
    page.table("FLOPs of matrix products", ("", "FLOPs"), counted)
    most = sum(shares) > 0.5
    page.says(f"Three names explain {sum(shares):.0%} of the step, of many that ran.", most)
    if measured.device == "cpu":
        products = any(name in measured.calls for name, _, _ in measured.largest)
        page.says("Matrix products are among them.", products)
    backward = 2 * LAYERS - 1
    twice = measured.calls == {"aten::addmm": LAYERS, "aten::mm": backward}
    page.says(f"A linear layer is 1 product forward and 2 backward; the first needs only 1: {backward} in all.", twice)
    share = measured.flops / forward
    page.says(f"So the step has {share:.2f} times the FLOPs of the forward.", measured.flops == forward // 3 * 8)


LAB = Lab(code=(Training, profiled, own_time), measure=measure, answer=answer)
