"""Times an operation and its reference in interleaved turns, size by size.

On CUDA each call is timed by events: with a warm L2 cache, and cold, after a buffer larger than the cache was written.
"""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from trueloop.op_claims.difference import difference
from trueloop.op_claims.sample import Sample
from trueloop.profile.ceilings import ceilings_of, machine_name
from trueloop.results.op_bench import OpBench, OpPace, OpSize
from trueloop.torch_private.dispatch import pytree

__all__ = ["measure_op"]

ROUNDS: Final = 5
FEWEST: Final = 5  # Calls of a turn
Call = Callable[[], Any]


def measure_op(
    functions: dict[str, Callable[..., Any]], samples: Sequence[tuple[int, Sample]], seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> OpBench:  # fmt: skip
    """`functions`: the operation first, then its reference; `samples`: by size."""
    device = samples[0][1].tensors()[0].device
    sizes: list[OpSize] = []
    with torch.no_grad():
        for cache in ("warm", "cold") if device.type == "cuda" else ("warm",):
            for size, sample in samples:
                say(f"{sample.describe()}, {cache}")
                sizes.append(_size(functions, size, sample, cache, seconds))
        ceilings = ceilings_of(device)
    floats = samples[0][1].floats()
    kind = str(floats[0].dtype).removeprefix("torch.") if floats else "float32"
    names = [*functions, ""]
    return OpBench(
        names[0], names[1], tuple(sizes), machine_name(device), device.type, kind, ceilings.bandwidth,
        ceilings.flops.get(kind, 0.0), ROUNDS, seconds,
    )  # fmt: skip


def _size(functions: dict[str, Callable[..., Any]], size: int, sample: Sample, cache: str, seconds: float) -> OpSize:
    calls: dict[str, Call] = {name: partial(sample.call, each) for name, each in functions.items()}
    device = sample.tensors()[0].device
    results = [pytree.tree_leaves(call()) for call in calls.values()]
    for call in calls.values():
        call()  # the second call: the first may have compiled a kernel
    medians: dict[str, list[float]] = {name: [] for name in calls}
    counts = dict.fromkeys(calls, 0)
    everything: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times = (
                _turn_cuda(call, device, cache, seconds / ROUNDS)
                if device.type == "cuda"
                else _turn(call, seconds / ROUNDS)
            )
            medians[name].append(median(times))
            everything[name] += times
            counts[name] += len(times)
    paces = tuple(
        OpPace(name, median(everything[name]), min(medians[name]), max(medians[name]), counts[name]) for name in calls
    )
    moved = sum(each.numel() * each.element_size() for each in (*sample.tensors(), *_tensors(results[0])))
    agrees = len(results) < 2 or difference(results[0], results[1]) is None
    return OpSize(size, sample.describe(), cache, paces, moved, _flops(list(calls.values())[-1]), agrees)


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    return [each for each in values if isinstance(each, Tensor)]


def _flops(call: Call) -> int:
    """Of matrix products, convolutions and attention in the reference; 0: not countable."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def _turn(call: Call, seconds: float) -> list[float]:
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < FEWEST or perf_counter() < end:
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return times


def _turn_cuda(call: Call, device: torch.device, cache: str, seconds: float) -> list[float]:
    """Something else runs on the device while a call is launched, so that the launch does not count."""
    large = 2 * torch.cuda.get_device_properties(device).L2_cache_size
    buffer = torch.empty(max(large, 1 << 20), dtype=torch.uint8, device=device)
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < FEWEST or perf_counter() < end:
        buffer.zero_()
        if cache == "warm":
            call()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3)
    return times
