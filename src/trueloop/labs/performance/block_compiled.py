"""block-compiled: What does `torch.compile` give for a block, forward and backward, and what does it cost?

Element-wise operations read memory and write memory, one after another. The compiler fuses them into one kernel, in
the forward and in the backward, which it derives from the same graph. The price is the first call.

You will compile a block of such operations, compare values and gradients with eager, and see how soon the compiler
has paid. The times are this machine's.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def block(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Gelu, scale and shift, a residual: eight operations in eager, one pass over memory if they are fused."""
    y = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
    return F.relu(y * scale + shift) + x


def forward_and_backward(function: Any, inputs: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    result = function(*inputs)
    gradients = torch.autograd.grad(result.square().sum(), inputs)
    return result.detach(), list(gradients)


def kept_bytes(function: Any, inputs: list[Tensor]) -> int:
    """What the forward keeps for the backward, each storage once, without the inputs."""
    kept: dict[int, int] = {}
    own = {each.untyped_storage().data_ptr() for each in inputs}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*inputs)
    assert result.requires_grad
    return sum(kept.values())


@dataclass(frozen=True)
class Measured:
    first: float  # seconds of the first call, forward and backward
    seconds: dict[str, float]
    error: float  # largest, of values and gradients, relative to the largest number
    kept: dict[str, int]


def measure() -> Measured:
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = ((1024, 512), (512,), (512,))
    inputs = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    torch.compiler.reset()
    compiled = torch.compile(block, dynamic=False)
    began = time.perf_counter()
    fused, fused_gradients = forward_and_backward(compiled, inputs)
    first = time.perf_counter() - began
    plain, gradients = forward_and_backward(block, inputs)
    pairs = [(fused, plain), *zip(fused_gradients, gradients, strict=True)]
    error = max(((one - two).abs().max() / two.abs().max()).item() for one, two in pairs)

    def timed(function: Any) -> None:
        forward_and_backward(function, inputs)
        if device == "cuda":
            torch.cuda.synchronize()

    seconds = interleaved({"eager": lambda: timed(block), "compiled": lambda: timed(compiled)}, rounds=11)
    kept = {"eager": kept_bytes(block, inputs), "compiled": kept_bytes(compiled, inputs)}
    torch.compiler.reset()
    return Measured(first, seconds, error, kept)


def answer(page: Page, measured: Measured) -> None:
    rows = [(name, measured.seconds[name] * 1e3, measured.kept[name] / 2**20) for name in measured.seconds]
    note = f"The first compiled call took {measured.first:.1f} s (less if the compiler's cache has it)."
    page.table("1024 x 512 numbers", ("block", "milliseconds, both ways", "MiB kept for the backward"), rows, note)
    page.says("Values and gradients agree with eager to rounding.", measured.error < 1e-4)
    eager, compiled = measured.seconds["eager"], measured.seconds["compiled"]
    times = measured.first / eager
    page.says(f"The first call compiles: it took as long as {times:,.0f} eager ones.", times > 1)
    less = measured.kept["compiled"] < measured.kept["eager"]
    page.says("The compiled block keeps less: its backward computes intermediate values again.", less)
    gain = eager / compiled
    pays = (
        f"here it has paid after {measured.first / max(eager - compiled, 1e-9):,.0f} calls" if gain > 1 else "not here"
    )
    page.says(f"Later calls take {1 / gain:.2f} of eager's time: {pays}. This depends on the machine.", gain > 0.3)


LAB = Lab(
    code=(block, forward_and_backward, kept_bytes), measure=measure, answer=answer, needs="program g++", seconds=60
)
