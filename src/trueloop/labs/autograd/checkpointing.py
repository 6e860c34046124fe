"""checkpointing: How much memory does activation checkpointing save, and what does it cost?

A training step keeps every layer's output until the backward has used it. Checkpointing keeps only the outputs at the
ends of segments, and computes what is between them a second time when the backward comes there. It trades memory for
about one more forward.

Measured here: bytes of layer outputs that are alive, counted by weak references to their storages, for 16 blocks of a
linear layer and a GELU.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint_sequential

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Bars

__all__ = ["LAB"]

BLOCKS = 16
Step = Callable[[nn.Sequential, Tensor], Tensor]


def plain(model: nn.Sequential, x: Tensor) -> Tensor:
    return model(x)


def in_segments(segments: int) -> Step:
    return lambda model, x: checkpoint_sequential(model, segments, x, use_reentrant=False)


class AliveOutputs:
    """Bytes of the layers' outputs that something still holds; the largest value so far."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: list[tuple[StorageWeakRef, int]] = []
        self.largest = 0
        for layer in model.modules():
            if not list(layer.children()):
                layer.register_forward_hook(self._note)

    def _note(self, _: nn.Module, __: object, output: Tensor) -> None:
        storage = output.untyped_storage()
        self.seen.append((StorageWeakRef(storage), storage.nbytes()))
        self.largest = max(self.largest, self.now())

    def now(self) -> int:
        return sum(size for reference, size in self.seen if not reference.expired())


def build() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(BLOCKS)))


@dataclass(frozen=True)
class Way:
    after_forward: int
    peak: int
    gradient: list[float]
    seconds: float


def measure() -> dict[str, Way]:
    torch.set_num_threads(1)  # for CPU time without threads that wait; it is restored behind the lab
    ways: dict[str, Step] = {"plain": plain, "4 segments": in_segments(4), "16 segments": in_segments(BLOCKS)}
    x = torch.randn(128, 256)

    def step(model: nn.Sequential, way: Step) -> None:
        way(model, x).square().mean().backward()

    models = {name: build() for name in ways}
    times = interleaved({name: lambda name=name: step(models[name], ways[name]) for name in ways}, 5, time.process_time)  # type: ignore[misc]
    found = {}
    for name, way in ways.items():
        model = build()
        alive = AliveOutputs(model)
        output = way(model, x)
        after = alive.now()
        output.square().mean().backward()
        gradient = [weight.grad.norm().item() for weight in model.parameters() if weight.grad is not None]
        found[name] = Way(after, alive.largest, gradient, times[name])
    return found


def answer(page: Page, measured: dict[str, Way]) -> None:
    rows = [(name, way.after_forward / 2**20, way.peak / 2**20, way.seconds * 1e3) for name, way in measured.items()]
    columns = ("way", "alive after forward, MB", "most at any time, MB", "CPU ms a step")
    page.table(f"{BLOCKS} blocks, 128 samples of 256 numbers", columns, rows)
    peaks = tuple(way.peak / 2**20 for way in measured.values())
    page.show(Bars("Layer outputs alive, most at any time, MB", tuple(measured), peaks))
    whole, few, many = measured["plain"], measured["4 segments"], measured["16 segments"]
    share = few.peak / whole.peak
    page.says(f"Four segments of four blocks hold {share:.0%} of the memory of the plain step.", share < 0.6)
    page.says(
        "More segments are not always better: 16 keep more ends than 4 do.", many.after_forward > few.after_forward
    )
    page.says("The gradients are bit-identical.", whole.gradient == few.gradient == many.gradient)
    ratio = few.seconds / whole.seconds
    page.says(f"It costs about one forward more: {ratio:.2f} times the CPU time (4/3 expected).", 1.02 < ratio < 2.5)


LAB = Lab(code=(plain, in_segments, AliveOutputs), measure=measure, answer=answer)
