"""The fused linear + cross entropy beside torch's, on a GPU: time of forward and backward, and the memory it adds.

    python benchmarks/linear_cross_entropy.py [--rows 16384] [--width 768] [--classes 50304] [--repeats 10]

Every kernel of `softmax_gradient_triton` with every size of chunk; and what it must beat: torch's logits and cross
entropy, eager and compiled, under bf16 autocast. Times are medians by the device's own clock, all of one process; less
than a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from trueloop.kernels.linear_cross_entropy import KERNEL, chunk_rows, linear_cross_entropy, reference
from trueloop.kernels.softmax_gradient_triton import CONFIGURATIONS, softmax_gradient

CHUNKS = (2048, 4096, 5504, 8192, 16384)
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=int, default=16384)
    asked.add_argument("--width", type=int, default=768)
    asked.add_argument("--classes", type=int, default=50304)
    asked.add_argument("--repeats", type=int, default=10)
    given = asked.parse_args()
    torch.manual_seed(0)
    hidden = torch.randn(given.rows, given.width, device="cuda", requires_grad=True)
    weight = (torch.randn(given.classes, given.width, device="cuda") * 0.02).requires_grad_()
    targets = torch.randint(0, given.classes, (given.rows,), device="cuda")
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {given.rows} rows of {given.width}, "
        f"{given.classes} classes, bf16\n"
    )
    _show_kernels(given.classes, given.repeats)
    chosen = chunk_rows(given.rows, given.classes, torch.bfloat16, hidden.device)
    contenders: dict[str, Loss] = {"torch, eager": reference, "torch, compiled": torch.compile(reference)}
    for rows in sorted({*(min(each, given.rows) for each in CHUNKS), chosen}):
        for kernel in CONFIGURATIONS:
            mark = "  <- chosen" if (rows, kernel) == (chosen, KERNEL) else ""
            contenders[f"fused, {kernel}, {rows} rows{mark}"] = _fused(rows, kernel)
    print(f"{'forward + backward':42} {'ms':>8} {'of compiled':>12} {'GB added':>9}")
    times = {name: _timed(loss, hidden, weight, targets, given.repeats) for name, loss in contenders.items()}
    for name, (milliseconds, gigabytes) in times.items():
        print(f"{name:42} {milliseconds:8.3f} {milliseconds / times['torch, compiled'][0]:12.3f} {gigabytes:9.2f}")


def _fused(rows: int, kernel: str) -> Loss:
    return lambda hidden, weight, targets: linear_cross_entropy(hidden, weight, targets, rows=rows, kernel=kernel)


def _timed(loss: Loss, hidden: Tensor, weight: Tensor, targets: Tensor, repeats: int) -> tuple[float, float]:
    """Milliseconds of a forward and a backward; most memory at once, beyond what was there and the two gradients."""
    scale = 1 / len(targets)

    def step() -> None:
        hidden.grad = weight.grad = None
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(hidden, weight, targets) * scale
        value.backward()  # type: ignore[no-untyped-call]

    for _ in range(3):
        step()
    hidden.grad = weight.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    milliseconds = _median(step, repeats)
    gradients = hidden.numel() * hidden.element_size() + weight.numel() * weight.element_size()
    return milliseconds, (torch.cuda.max_memory_allocated() - before - gradients) / 1e9


def _median(step: Callable[[], None], repeats: int) -> float:
    times: list[float] = []
    for _ in range(repeats):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        step()
        ended.record()
        torch.cuda.synchronize()
        times.append(begun.elapsed_time(ended))
    return median(times)


def _show_kernels(classes: int, repeats: int) -> None:
    """The kernel alone, on one chunk: how near it comes to the memory's speed."""
    rows, width = 4096, -(-classes // 64) * 64
    scores = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    targets, losses = torch.randint(0, classes, (rows,), device="cuda"), torch.empty(rows, device="cuda")
    other = torch.empty_like(scores)
    moved = 2 * scores.numel() * scores.element_size()
    alone: dict[str, Callable[[], object]] = {"copy": lambda: other.copy_(scores)}
    for kernel in CONFIGURATIONS:
        for write in (True, False):
            alone[f"{kernel}{'' if write else ', loss only'}"] = _kernel(
                scores[:, :classes], targets, losses, kernel, write
            )
    print(f"{f'kernel alone, {rows} rows':42} {'ms':>8} {'GB/s':>12}")
    for name, call in alone.items():
        for _ in range(3):
            call()
        milliseconds = _median(lambda call=call: call(), repeats)  # type: ignore[misc]
        print(f"{name:42} {milliseconds:8.3f} {moved / (2 if 'loss' in name else 1) / milliseconds / 1e6:12.0f}")
    print()


def _kernel(scores: Tensor, targets: Tensor, losses: Tensor, kernel: str, write: bool) -> Callable[[], None]:
    return lambda: softmax_gradient(scores, targets, losses, -100, write=write, kernel=kernel)


if __name__ == "__main__":
    main()
