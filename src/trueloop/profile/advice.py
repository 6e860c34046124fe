"""What to change, and what it would gain: each a formula over this run's own numbers, told with them. Pure: no torch.

A gain is samples per second after the change over samples per second now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trueloop.profile.reckon import Reckoning, reckon
from trueloop.profile.verdict import BUSY, python_lines
from trueloop.results.profile import Advice, Phase, Profile

__all__ = ["advice_for"]

SHOWN: Final = 3
LEAST: Final = 1.05
"""A gain below this cannot be told from noise."""
HANDOVER: Final = 0.0003
"""Seconds that a batch takes from a worker to the loop, through shared memory; measured on Linux for batches of some
hundred kilobytes."""
ROOM: Final = 0.25
"""Share of the memory that a resident data set may take."""
TIMES: Final = 4
"""How many times larger a batch is proposed."""
NODE: Final = 2.5e-6
"""Seconds from one kernel of a CUDA graph to the next, besides what it computes: 70 small ones take 0.33 ms on an H200,
of which they are at work 0.12 ms."""
TRAFFIC: Final = {"Adam": 7, "AdamW": 7, "SGD": 3, "Adagrad": 5}
"""Times that a fused step reads or writes as many bytes as there are in the parameters: Adam reads p, g, m, v and
writes p, m, v."""

Adviser = Callable[[Profile, Reckoning], Advice | None]


def advice_for(profile: Profile) -> tuple[Advice, ...]:
    """At most three, the largest gain first."""
    if profile.steps is None or not profile.steps.seconds:
        return ()
    sums = reckon(profile)
    found = [advice for adviser in ADVISERS if (advice := adviser(profile, sums)) is not None and advice.gain >= LEAST]
    return tuple(sorted(found, key=lambda advice: -advice.gain)[:SHOWN])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _warmer(sums: Reckoning) -> str:
    return f", {_ms(sums.cold)} less than now because caches stay warm" if sums.cold else ""


def _gain(sums: Reckoning, after: float) -> float:
    return sums.step / max(after, sums.step * 0.01)


def _copied_bytes(profile: Profile, sums: Reckoning) -> float:
    """Of a step: what the loader gives, or what was copied besides, which the time it took tells."""
    known = float(profile.loading.batch_bytes) if profile.loading else 0.0
    return max(known, sums.copy * profile.ceilings.pageable if profile.ceilings else 0.0)


def _without_copying(profile: Profile, sums: Reckoning) -> float:
    """What is left of a step: on the device, and on a host that does not stand still while it is copied for, and so
    stays warm."""
    assert profile.steps is not None
    waits = profile.steps.phases.get("copy", 0.0)
    busy = profile.host.busy if profile.host else None
    if busy is None:
        return sums.rest - sums.copy - sums.cold
    own = sums.python + sums.operations if waits >= sums.copy / 2 else sums.rest - sums.copy
    return max(own - sums.cold, busy - sums.copy)


# -- data --


def _workers(profile: Profile, sums: Reckoning) -> Advice | None:
    loader = profile.loading
    if loader is None or not sums.data:
        return None
    load = sums.data if not loader.workers else sums.step * loader.workers
    cores = max(1, profile.machine.cores)
    most = 16 if loader.computed < 0.5 else max(cores, 1)  # what only waits needs no core of its own

    rest = sums.rest - (sums.cold if not loader.workers else 0.0)

    def after(workers: int) -> float:
        return max(rest + HANDOVER, load / workers, (rest + load * loader.computed) / cores)

    choices = range(loader.workers + 1, max(most, loader.workers + 1) + 1)
    best = min(map(after, choices))
    workers = next(count for count in choices if after(count) <= best * 1.05)
    return Advice(
        f"load batches in {workers} worker processes: DataLoader(..., num_workers={workers}, persistent_workers=True)",
        _gain(sums, after(workers)),
        f"a batch takes {_ms(load)} to load and the rest of the step {_ms(rest)}{_warmer(sums)}: max({_ms(rest + HANDOVER)}, {_ms(load)} / "
        f"{workers}, all of it on {cores} cores) = {_ms(after(workers))} instead of {_ms(sums.step)}",
        "workers",
        loader.place,
    )


def _resident(profile: Profile, sums: Reckoning) -> Advice | None:
    loader, memory = profile.loading, profile.memory
    if loader is None or not loader.samples or not loader.batch_size or profile.ceilings is None or not sums.data:
        return None
    size = loader.batch_bytes / loader.batch_size * loader.samples
    if memory is None or not memory.capacity or size > memory.capacity * ROOM:
        return None
    batch = _copied_bytes(profile, sums)
    gather = 2 * batch / profile.ceilings.bandwidth + 4 * profile.ceilings.launch
    after = _without_copying(profile, sums) + gather
    return Advice(
        f"keep the data set as tensors beside the model ({size / 1e6:,.3g} MB) and take batches by index; random transforms then belong on "
        "whole batches",
        _gain(sums, after),
        f"{_ms(sums.data + sums.copy)} of waiting{' and copying' if sums.copy else ''} become a gather of {batch / 1e6:.3g} MB at "
        f"{profile.ceilings.bandwidth / 1e9:.3g} GB/s{_warmer(sums)}: {_ms(after)} instead of {_ms(sums.step)}",
        "resident",
        loader.place,
    )


def _pin(profile: Profile, sums: Reckoning) -> Advice | None:
    ceilings, loader, host = profile.ceilings, profile.loading, profile.host
    if ceilings is None or host is None or not sums.copy or not ceilings.pinned:
        return None
    size = _copied_bytes(profile, sums)
    after = max(sums.data + _without_copying(profile, sums), size / ceilings.pinned)
    return Advice(
        "copy from pinned memory while the device computes: DataLoader(..., pin_memory=True) and x.to(device, non_blocking=True)",
        _gain(sums, after),
        f"{_ms(sums.copy)} of copying overlap with the rest: the longest of computing and {size / 1e6:.3g} MB at "
        f"{ceilings.pinned / 1e9:.3g} GB/s{_warmer(sums)}: {_ms(after)} instead of {_ms(sums.step)}",
        "pin",
        None if loader is None else loader.place,
    )


def _read(profile: Profile, sums: Reckoning) -> Advice | None:
    waiting = profile.steps.phases.get("device", 0.0) if profile.steps else 0.0
    if profile.host is None or profile.host.busy is None or not waiting:
        return None
    after = max(profile.host.busy, sums.step - waiting)
    line = next((line for line in profile.lines if line.phase == "device"), None)
    return Advice(
        "read values of the device (.item(), .cpu(), print) every hundred steps instead of in each",
        _gain(sums, after),
        f"the host waits {_ms(waiting)} for the device, and launches nothing meanwhile: max(device {_ms(profile.host.busy)}, rest "
        f"{_ms(sums.step - waiting)}) instead of {_ms(sums.step)}",
        "read",
        None if line is None else line.place,
    )


# -- launching --


def _fused(profile: Profile, sums: Reckoning) -> Advice | None:
    optimizer, ceilings, memory = profile.updating, profile.ceilings, profile.memory
    now = profile.steps.phases.get("optimizer", 0.0) if profile.steps else 0.0
    busy = profile.busy_share
    if (
        optimizer is None
        or ceilings is None
        or memory is None
        or optimizer.fused
        or not optimizer.fusable
        or (busy or 0.0) >= BUSY
    ):
        return None
    moved = TRAFFIC.get(optimizer.name, 7) * memory.parameters
    new = min(now, moved / ceilings.bandwidth + 8 * ceilings.launch)
    return Advice(
        f"let one kernel update all weights: {optimizer.name}(..., fused=True)",
        _gain(sums, sums.step - now + new),
        f"the optimizer takes {_ms(now)} for {optimizer.tensors} tensors; {moved / 1e6:.3g} MB at {ceilings.bandwidth / 1e9:.3g} GB/s and "
        f"few starts take {_ms(new)}",
        "fused",
        optimizer.place,
    )


def _graph(profile: Profile, sums: Reckoning) -> Advice | None:
    host, busy = profile.host, profile.busy_share
    if host is None or host.busy is None or busy is None or busy >= BUSY:
        return None
    after = max(host.busy + host.launches * NODE, sums.data + sums.copy)
    return Advice(
        "capture the whole step (forward, backward, optimizer) as one CUDA graph, and replay it",
        _gain(sums, after),
        f"the {host.launches:,.0f} kernels of a step take {_ms(host.busy)} on the device, and {NODE * 1e6:.2g} µs from one to the next: "
        f"{_ms(after)}; the host takes {_ms(sums.step)} to launch them",
        "graph",
    )


def _batch(profile: Profile, sums: Reckoning) -> Advice | None:
    busy = profile.host.busy if profile.host else None
    overhead = sums.step - sums.data - busy if busy is not None else sums.launch + sums.wrapping
    if overhead <= 0:
        return None
    after = sums.step - overhead + overhead / TIMES
    what = (
        "the host takes that the device does not"
        if busy is not None
        else "are the cost of starting operations, and Python around them"
    )
    return Advice(
        f"use a batch {TIMES} times as large, and a learning rate that fits it: what a step costs whatever its size is paid less often",
        _gain(sums, after),
        f"{_ms(overhead)} of {_ms(sums.step)} {what}; a quarter of that per sample: {_ms(after)}",
        "batch",
    )


def _compile(profile: Profile, sums: Reckoning) -> Advice | None:
    work, ceilings = profile.work, profile.ceilings
    if profile.compiled is not None or work is None or ceilings is None or work.source != "counted":
        return None
    moved = (work.pointwise_bytes - work.fused_bytes) / ceilings.bandwidth
    started = ceilings.launch * max(0, 2 * work.pointwise - work.operations)
    saved = min(
        max(moved, started),
        0.9 * (sums.moving if profile.busy_share is None or profile.busy_share >= BUSY else sums.operations),
    )
    return Advice(
        "let the compiler fuse operations that work element by element: torch.compile(model)",
        _gain(sums, sums.step - saved),
        f"{work.pointwise:,} such operations move {work.pointwise_bytes / 1e6:.3g} MB, fused {work.fused_bytes / 1e6:.3g} MB: at "
        f"{ceilings.bandwidth / 1e9:.3g} GB/s and {ceilings.launch * 1e6:.2g} µs a start, {_ms(saved)} less than {_ms(sums.step)}",
        "compile",
    )


# -- computing --


def _precision(profile: Profile, sums: Reckoning) -> Advice | None:
    ceilings, now = profile.ceilings, profile.precision
    if ceilings is None or now not in ceilings.flops or not sums.computing:
        return None
    better = max((name for name in ceilings.flops if name != "float16"), key=lambda name: ceilings.flops[name])
    if ceilings.flops[better] <= ceilings.flops[now] or now in ("bfloat16", "float16"):
        return None
    after = sums.step - sums.computing * (1 - ceilings.flops[now] / ceilings.flops[better])
    how = {
        "tf32": 'torch.set_float32_matmul_precision("high")',
        "bfloat16": "torch.autocast(device, dtype=torch.bfloat16)",
    }.get(better, better)
    return Advice(
        f"multiply in {better}: {how}, and check that the loss curve stays the same",
        _gain(sums, after),
        f"{_ms(sums.computing)} are in operations limited by arithmetic; measured here: {ceilings.flops[now] / 1e12:.3g} TFLOP/s in {now}, "
        f"{ceilings.flops[better] / 1e12:.3g} in {better}",
        "precision",
    )


def _threads(profile: Profile, sums: Reckoning) -> Advice | None:
    machine, ceilings = profile.machine, profile.ceilings
    now = ceilings.flops.get("float32", 0.0) if ceilings else 0.0
    if ceilings is None or not now or machine.device != "cpu" or machine.threads >= machine.cores:
        return None
    ratio = ceilings.flops_all_cores / now
    if ratio <= 1:
        return None
    after = sums.step - (sums.operations - sums.launch) * (1 - 1 / ratio)
    return Advice(
        f"compute with all {machine.cores} cores: torch.set_num_threads({machine.cores}), or OMP_NUM_THREADS={machine.cores}",
        _gain(sums, after),
        f"a large product reaches {now / 1e9:.3g} GFLOP/s with {machine.threads} of {machine.cores} threads and "
        f"{ceilings.flops_all_cores / 1e9:.3g} with all; {_ms(sums.operations - sums.launch)} of {_ms(sums.step)} are in operations",
        "threads",
    )


# -- Python and ranks --


def _lift(profile: Profile, sums: Reckoning) -> Advice | None:
    """The line of the user's on which most Python time is spent."""
    inside = profile.host.inside if profile.host else {}

    def python(share: float, phase: Phase) -> float:
        return share * (1 - inside.get(phase, float(phase != "python")))

    lines = python_lines(profile)
    if not lines:
        return None
    line = max(lines, key=lambda each: python(each.share, each.phase))
    share = python(line.share, line.phase)
    after = (
        sums.step * (1 - share) - sums.cold * share / 2
    )  # Python that computes leaves the caches half as cold as standing still
    return Advice(
        "move what this line does out of the loop, or do it in every hundredth step",
        _gain(sums, after),
        f"the line was seen in {line.share:.0%} of the looks at the loop, {share:.0%} of them outside of torch: "
        f"{_ms(sums.step * share)} of {_ms(sums.step)}",
        "lift",
        line.place,
    )


def _accumulate(profile: Profile, sums: Reckoning) -> Advice | None:
    if profile.machine.ranks < 2 or not sums.communication:
        return None
    after = sums.step - sums.communication * (1 - 1 / TIMES)
    return Advice(
        f"exchange gradients once for {TIMES} batches: accumulate under `with model.no_sync():`, and step on every fourth",
        _gain(sums, after),
        f"{_ms(sums.communication)} of {_ms(sums.step)} are spent exchanging; a quarter of that for each batch: {_ms(after)}",
        "accumulate",
    )


ADVISERS: Final[tuple[Adviser, ...]] = (
    *(_workers, _resident, _pin, _read),
    *(_fused, _graph, _batch, _compile),
    *(_precision, _threads),
    *(_lift, _accumulate),
)
"""Each looks for one change."""
