"""The ceilings of this machine: FLOP/s by dtype, memory bandwidth, and launch cost. Measured in about a second.

Cached in the user's cache folder by machine, number of threads and torch version; the file may be deleted at any time.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.profile.work_counter import WorkCounter, uses_tf32
from trueloop.results.profile import Ceilings
from trueloop.taps.bus import Bus

__all__ = ["ceilings_of", "machine_name", "read_cache", "write_cache"]

FILE: Final = "ceilings.json"
VERSION: Final = 3  # Of the measurement method
PATIENCE: Final = 0.15  # Seconds per measurement; the best try counts: other work on the machine can only slow it down
PAUSE: Final = 0.01  # Seconds of waiting, as for loading a batch; with a device, a batch is copied instead
PAUSES: Final = 15
CHAIN: Final = 50  # Small operations in a chain, forward and backward, to measure the launch cost
SLOW: Final = 0.25  # A dtype below this share of float32's speed in a small test is emulated, and not measured further


def ceilings_of(device: torch.device, *, again: bool = False) -> Ceilings:
    """From the cache, or measured now. `again`: measures in any case and keeps the better of each two values."""
    threads, version = torch.get_num_threads(), torch.__version__
    key = f"{VERSION}|{machine_name(device)}|{os.cpu_count()}|{threads}|{version}|{device.type}"
    known = read_cache(FILE)
    before: Ceilings | None = None
    if key in known:
        with suppress(TypeError):  # a file from a different version of trueloop: measure again
            before = Ceilings(**known[key])
    if before is not None and not again:
        return before
    measured = _cuda(device) if device.type == "cuda" else _cpu()
    if before is not None:
        measured = _better(before, measured)
    write_cache(FILE, {**known, key: asdict(measured)})
    return measured


def _better(one: Ceilings, other: Ceilings) -> Ceilings:
    """The better of two measurements: other work on the machine can only make one of them worse."""
    return Ceilings(
        flops={
            name: max(one.flops.get(name, 0.0), other.flops.get(name, 0.0)) for name in {**one.flops, **other.flops}
        },
        bandwidth=max(one.bandwidth, other.bandwidth),
        launch=min(one.launch, other.launch),
        flops_all_cores=max(one.flops_all_cores, other.flops_all_cores),
        pinned=max(one.pinned, other.pinned),
        pageable=max(one.pageable, other.pageable),
        cold=min(one.cold, other.cold),
        cold_share=min(one.cold_share, other.cold_share),
    )


def machine_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return f"{platform.processor() or platform.machine()} processor"


# -- JSON files in the user's cache folder --


def _cache_file(name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trueloop" / name


def read_cache(name: str) -> dict[str, Any]:
    """Empty: there is none, or it is damaged."""
    try:
        known = json.loads(_cache_file(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def write_cache(name: str, values: Mapping[str, Any]) -> None:
    """Errors are ignored: without a cache everything is measured each time."""
    file = _cache_file(name)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}.part")
        temporary.write_text(json.dumps(values, indent=1), encoding="utf-8")
        temporary.replace(file)


# -- measuring --


def _best(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """The shortest time of one call."""
    work()
    wait()
    best, end = float("inf"), perf_counter() + PATIENCE
    while perf_counter() < end:
        began = perf_counter()
        work()
        wait()
        best = min(best, perf_counter() - began)
    return best


def _product(size: int, dtype: torch.dtype, device: torch.device, wait: Callable[[], object]) -> float:
    """FLOP/s of a large matrix product."""
    one, other = torch.ones(size, size, dtype=dtype, device=device), torch.ones(size, size, dtype=dtype, device=device)
    out = torch.empty(size, size, dtype=dtype, device=device)
    return 2.0 * size**3 / _best(lambda: torch.mm(one, other, out=out), wait)


def _copying(size: int, device: torch.device, wait: Callable[[], object]) -> float:
    """Bytes per second, read and written, between tensors larger than the caches."""
    source, target = torch.ones(size // 4, device=device), torch.empty(size // 4, device=device)
    return 2.0 * size / _best(lambda: target.copy_(source), wait)


def _launching(device: torch.device, wait: Callable[[], object]) -> float:
    leaf = torch.ones(1, device=device, requires_grad=True)

    def chain() -> None:
        with torch.enable_grad():
            value: Tensor = leaf
            for _ in range(CHAIN):
                value = value * 1.0
            value.backward()  # type: ignore[no-untyped-call]

    return _best(chain, wait) / (2 * CHAIN)


@torch.enable_grad()
def _cooling(device: torch.device, wait: Callable[[], object], pause: Callable[[], object]) -> tuple[float, float]:
    """Extra host time of a small training step after a pause: seconds per operation, and as a share of the step."""
    with torch.random.fork_rng(devices=[]):
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
        inputs = torch.ones(16, 64, device=device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(before: Callable[[], object] = _nothing) -> float:
        before()
        wait()
        began = perf_counter()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        return perf_counter() - began

    counter = WorkCounter(Bus(lambda _: None))
    counter.begin(set())
    step()
    counter.end()
    warm = median([step() for _ in range(PAUSES * 2)])
    cold = median(step(pause) for _ in range(PAUSES))
    return max(0.0, cold - warm) / len(counter.shapes), max(0.0, 1 - warm / cold)


@torch.no_grad()
def _cpu() -> Ceilings:
    device, threads, cores = torch.device("cpu"), torch.get_num_threads(), os.cpu_count() or 1
    flops = {"float32": _product(1024, torch.float32, device, _nothing)}
    if _product(256, torch.bfloat16, device, _nothing) > SLOW * flops["float32"]:
        flops["bfloat16"] = _product(1024, torch.bfloat16, device, _nothing)
    every = flops["float32"]
    if threads < cores:
        torch.set_num_threads(cores)
        try:
            every = _product(1024, torch.float32, device, _nothing)
        finally:
            torch.set_num_threads(threads)
    moving, launching = _copying(1 << 26, device, _nothing), _launching(device, _nothing)
    cold = _cooling(device, _nothing, lambda: sleep(PAUSE))[0]
    return Ceilings(flops, moving, launching, max(every, flops["float32"]), cold=cold)


@torch.no_grad()
def _cuda(device: torch.device) -> Ceilings:
    def wait() -> None:
        torch.cuda.synchronize(device)

    before = "high" if uses_tf32() else "highest"
    flops: dict[str, float] = {}
    try:
        for name, precision in (("float32", "highest"), ("tf32", "high")):
            torch.set_float32_matmul_precision(precision)
            flops[name] = _product(4096 if name == "float32" else 8192, torch.float32, device, wait)
    finally:
        torch.set_float32_matmul_precision(before)
    flops |= {name: _product(8192, getattr(torch, name), device, wait) for name in ("bfloat16", "float16")}
    size = 1 << 26
    target = torch.empty(size, dtype=torch.uint8, device=device)
    pageable, pinned = torch.ones(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8, pin_memory=True)
    return Ceilings(
        flops,
        _copying(1 << 29, device, wait),
        _launching(device, wait),
        pinned=size / _best(lambda: target.copy_(pinned, non_blocking=True), wait),
        pageable=size / _best(lambda: target.copy_(pageable), wait),
        cold_share=_cooling(device, wait, lambda: target.copy_(pageable))[1],
    )


def _nothing() -> None:
    """A CPU computes synchronously."""
