"""What to change and the expected gain: formulas over the numbers of this run, printed with them. Pure: no torch.

A gain is samples per second after the change over samples per second now.
"""

from collections.abc import Callable
from typing import Final

from trueloop.profile.verdict import BUSY, StepCosts, python_lines, step_costs
from trueloop.results.profile import Advice, Phase, Profile

__all__ = ["advice_for"]

SHOWN: Final = 3
LEAST: Final = 1.05  # A smaller gain is indistinguishable from noise
HANDOVER: Final = 0.0003  # Seconds to pass a batch of 100s of kB from a worker through shared memory; measured on Linux
ROOM: Final = 0.25  # Largest share of memory for a dataset that stays on the device
TIMES: Final = 4  # Factor of the proposed batch size
NODE: Final = 2.5e-6  # Seconds between kernels of a CUDA graph: 70 take 0.33 ms on an H200 and compute for 0.12 ms
TRAFFIC: Final = {"Adam": 7, "AdamW": 7, "SGD": 3, "Adagrad": 5}
"""Reads and writes of a fused step, in multiples of the parameters' bytes: Adam reads p, g, m, v, writes p, m, v."""

Adviser = Callable[[Profile, StepCosts], Advice | None]


def advice_for(profile: Profile) -> tuple[Advice, ...]:
    """At most three, largest gain first."""
    if profile.steps is None or not profile.steps.seconds:
        return ()
    costs = step_costs(profile)
    advice = [each for adviser in ADVISERS if (each := adviser(profile, costs)) is not None and each.gain >= LEAST]
    return tuple(sorted(advice, key=lambda each: -each.gain)[:SHOWN])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _warmer(costs: StepCosts) -> str:
    return f", {_ms(costs.cold)} less than now because caches stay warm" if costs.cold else ""


def _instead(costs: StepCosts, after: float) -> str:
    return f"{_ms(after)} instead of {_ms(costs.step)}"


def _gain(costs: StepCosts, after: float) -> float:
    return costs.step / max(after, costs.step * 0.01)


def _copied_bytes(profile: Profile, costs: StepCosts) -> float:
    """Bytes per step: from the loader, or estimated from the time of the copies, whichever is larger."""
    known = float(profile.loading.batch_bytes) if profile.loading else 0.0
    return max(known, costs.copy * profile.ceilings.pageable if profile.ceilings else 0.0)


def _without_copying(profile: Profile, costs: StepCosts) -> float:
    """Seconds of a step without copies, on device and host; the host's caches then stay warm."""
    assert profile.steps is not None
    waits = profile.steps.phases.get("copy", 0.0)
    busy = profile.host.busy if profile.host else None
    if busy is None:
        return costs.rest - costs.copy - costs.cold
    own = costs.python + costs.operations if waits >= costs.copy / 2 else costs.rest - costs.copy
    return max(own - costs.cold, busy - costs.copy)


# -- data --


def _workers(profile: Profile, costs: StepCosts) -> Advice | None:
    loader = profile.loading
    if loader is None or not costs.data:
        return None
    load = costs.data if not loader.workers else costs.step * loader.workers
    cores = max(1, profile.machine.cores)
    most = 16 if loader.computed < 0.5 else max(cores, 1)  # a worker that only waits needs no core
    rest = costs.rest - (costs.cold if not loader.workers else 0.0)

    def after(workers: int) -> float:
        return max(rest + HANDOVER, load / workers, (rest + load * loader.computed) / cores)

    choices = range(loader.workers + 1, max(most, loader.workers + 1) + 1)
    best = min(map(after, choices))
    workers = next(count for count in choices if after(count) <= best * 1.05)
    return Advice(
        f"load batches in {workers} worker processes: DataLoader(..., num_workers={workers}, persistent_workers=True)",
        _gain(costs, after(workers)),
        f"loading a batch takes {_ms(load)}, the rest of the step {_ms(rest)}{_warmer(costs)}: "
        f"max({_ms(rest + HANDOVER)}, {_ms(load)} / {workers}, everything on {cores} cores) = "
        f"{_instead(costs, after(workers))}",
        "workers",
        loader.place,
    )


def _resident(profile: Profile, costs: StepCosts) -> Advice | None:
    loader, memory = profile.loading, profile.memory
    if loader is None or not loader.samples or not loader.batch_size or profile.ceilings is None or not costs.data:
        return None
    size = loader.batch_bytes / loader.batch_size * loader.samples
    if memory is None or not memory.capacity or size > memory.capacity * ROOM:
        return None
    batch = _copied_bytes(profile, costs)
    gather = 2 * batch / profile.ceilings.bandwidth + 4 * profile.ceilings.launch
    after = _without_copying(profile, costs) + gather
    return Advice(
        f"keep the dataset as tensors on the model's device ({size / 1e6:,.3g} MB) and index batches from it; apply "
        "random transforms to batches",
        _gain(costs, after),
        f"{_ms(costs.data + costs.copy)} of waiting{' and copying' if costs.copy else ''} become a gather of "
        f"{batch / 1e6:.3g} MB at {profile.ceilings.bandwidth / 1e9:.3g} GB/s{_warmer(costs)}: "
        f"{_instead(costs, after)}",
        "resident",
        loader.place,
    )


def _pin(profile: Profile, costs: StepCosts) -> Advice | None:
    ceilings, loader, host = profile.ceilings, profile.loading, profile.host
    if ceilings is None or host is None or not costs.copy or not ceilings.pinned:
        return None
    size = _copied_bytes(profile, costs)
    after = max(costs.data + _without_copying(profile, costs), size / ceilings.pinned)
    return Advice(
        "copy from pinned memory while the device computes: DataLoader(..., pin_memory=True) and "
        "x.to(device, non_blocking=True)",
        _gain(costs, after),
        f"{_ms(costs.copy)} of copying overlap with the rest: the maximum of computing and {size / 1e6:.3g} MB at "
        f"{ceilings.pinned / 1e9:.3g} GB/s{_warmer(costs)}: {_instead(costs, after)}",
        "pin",
        None if loader is None else loader.place,
    )


def _read(profile: Profile, costs: StepCosts) -> Advice | None:
    waiting = profile.steps.phases.get("device", 0.0) if profile.steps else 0.0
    if profile.host is None or profile.host.busy is None or not waiting:
        return None
    after = max(profile.host.busy, costs.step - waiting)
    line = next((line for line in profile.lines if line.phase == "device"), None)
    return Advice(
        "read values from the device (.item(), .cpu(), print) every hundred steps instead of every step",
        _gain(costs, after),
        f"the host waits {_ms(waiting)} for the device and launches nothing in that time: "
        f"max(device {_ms(profile.host.busy)}, rest {_ms(costs.step - waiting)}) instead of {_ms(costs.step)}",
        "read",
        None if line is None else line.place,
    )


# -- launching --


def _fused(profile: Profile, costs: StepCosts) -> Advice | None:
    optimizer, ceilings, memory = profile.updating, profile.ceilings, profile.memory
    now = profile.steps.phases.get("optimizer", 0.0) if profile.steps else 0.0
    if optimizer is None or ceilings is None or memory is None or (profile.busy_share or 0.0) >= BUSY:
        return None
    if optimizer.fused or not optimizer.fusable:
        return None
    moved = TRAFFIC.get(optimizer.name, 7) * memory.parameters
    new = min(now, moved / ceilings.bandwidth + 8 * ceilings.launch)
    return Advice(
        f"update all weights in one kernel: {optimizer.name}(..., fused=True)",
        _gain(costs, costs.step - now + new),
        f"the optimizer takes {_ms(now)} for {optimizer.tensors} tensors; {moved / 1e6:.3g} MB at "
        f"{ceilings.bandwidth / 1e9:.3g} GB/s and few launches take {_ms(new)}",
        "fused",
        optimizer.place,
    )


def _graph(profile: Profile, costs: StepCosts) -> Advice | None:
    host, busy = profile.host, profile.busy_share
    if host is None or host.busy is None or busy is None or busy >= BUSY:
        return None
    after = max(host.busy + host.launches * NODE, costs.data + costs.copy)
    return Advice(
        "capture the whole step (forward, backward, optimizer) as one CUDA graph, and replay it",
        _gain(costs, after),
        f"the {host.launches:,.0f} kernels of a step take {_ms(host.busy)} on the device plus {NODE * 1e6:.2g} µs "
        f"between kernels: {_ms(after)}; the host takes {_ms(costs.step)} to launch them",
        "graph",
    )


def _batch(profile: Profile, costs: StepCosts) -> Advice | None:
    busy = profile.host.busy if profile.host else None
    overhead = costs.step - costs.data - busy if busy is not None else costs.launch + costs.wrapping
    if overhead <= 0:
        return None
    after = costs.step - overhead + overhead / TIMES
    what = "are host time without device work" if busy is not None else "are launch cost and Python around operations"
    return Advice(
        f"use a batch size {TIMES} times as large, with a matching learning rate: the fixed cost per step is "
        "paid less often",
        _gain(costs, after),
        f"{_ms(overhead)} of {_ms(costs.step)} {what}; a quarter of that per sample: {_ms(after)}",
        "batch",
    )


def _compile(profile: Profile, costs: StepCosts) -> Advice | None:
    work, ceilings = profile.work, profile.ceilings
    if profile.compiled is not None or work is None or ceilings is None or work.source != "counted":
        return None
    moved = (work.pointwise_bytes - work.fused_bytes) / ceilings.bandwidth
    started = ceilings.launch * max(0, 2 * work.pointwise - work.operations)
    on_device = profile.busy_share is None or profile.busy_share >= BUSY
    saved = min(max(moved, started), 0.9 * (costs.moving if on_device else costs.operations))
    return Advice(
        "fuse elementwise operations with the compiler: torch.compile(model)",
        _gain(costs, costs.step - saved),
        f"{work.pointwise:,} elementwise operations move {work.pointwise_bytes / 1e6:.3g} MB, fused "
        f"{work.fused_bytes / 1e6:.3g} MB: at {ceilings.bandwidth / 1e9:.3g} GB/s and {ceilings.launch * 1e6:.2g} µs "
        f"per launch, {_ms(saved)} less than {_ms(costs.step)}",
        "compile",
    )


# -- computing --


def _precision(profile: Profile, costs: StepCosts) -> Advice | None:
    ceilings, now = profile.ceilings, profile.precision
    if ceilings is None or now not in ceilings.flops or not costs.computing:
        return None
    better = max((name for name in ceilings.flops if name != "float16"), key=lambda name: ceilings.flops[name])
    if ceilings.flops[better] <= ceilings.flops[now] or now in ("bfloat16", "float16"):
        return None
    after = costs.step - costs.computing * (1 - ceilings.flops[now] / ceilings.flops[better])
    how = {
        "tf32": 'torch.set_float32_matmul_precision("high")',
        "bfloat16": "torch.autocast(device, dtype=torch.bfloat16)",
    }.get(better, better)
    return Advice(
        f"run matrix products in {better}: {how}, and check that the loss curve stays the same",
        _gain(costs, after),
        f"{_ms(costs.computing)} are in compute-bound operations; measured here: {ceilings.flops[now] / 1e12:.3g} "
        f"TFLOP/s in {now}, {ceilings.flops[better] / 1e12:.3g} in {better}",
        "precision",
    )


def _threads(profile: Profile, costs: StepCosts) -> Advice | None:
    machine, ceilings = profile.machine, profile.ceilings
    now = ceilings.flops.get("float32", 0.0) if ceilings else 0.0
    if ceilings is None or not now or machine.device != "cpu" or machine.threads >= machine.cores:
        return None
    ratio = ceilings.flops_all_cores / now
    if ratio <= 1:
        return None
    after = costs.step - (costs.operations - costs.launch) * (1 - 1 / ratio)
    return Advice(
        f"use all {machine.cores} cores: torch.set_num_threads({machine.cores}), or OMP_NUM_THREADS={machine.cores}",
        _gain(costs, after),
        f"a large matrix product reaches {now / 1e9:.3g} GFLOP/s with {machine.threads} of {machine.cores} threads and "
        f"{ceilings.flops_all_cores / 1e9:.3g} with all; {_ms(costs.operations - costs.launch)} of {_ms(costs.step)} "
        "are in operations",
        "threads",
    )


# -- Python and ranks --


def _lift(profile: Profile, costs: StepCosts) -> Advice | None:
    """The user's line with the most Python time."""
    inside = profile.host.inside if profile.host else {}

    def python(share: float, phase: Phase) -> float:
        return share * (1 - inside.get(phase, float(phase != "python")))

    lines = python_lines(profile)
    if not lines:
        return None
    line = max(lines, key=lambda each: python(each.share, each.phase))
    share = python(line.share, line.phase)
    # Running Python leaves the caches about half as cold as waiting.
    after = costs.step * (1 - share) - costs.cold * share / 2
    return Advice(
        "move the work of this line out of the loop, or do it every hundred steps",
        _gain(costs, after),
        f"the line was in {line.share:.0%} of the samples, {share:.0%} outside of torch: "
        f"{_ms(costs.step * share)} of {_ms(costs.step)}",
        "lift",
        line.place,
    )


def _accumulate(profile: Profile, costs: StepCosts) -> Advice | None:
    if profile.machine.ranks < 2 or not costs.communication:
        return None
    after = costs.step - costs.communication * (1 - 1 / TIMES)
    return Advice(
        f"synchronize gradients once per {TIMES} batches: accumulate under `with model.no_sync():`, and "
        "step on every fourth",
        _gain(costs, after),
        f"{_ms(costs.communication)} of {_ms(costs.step)} are communication; a quarter of that per batch: {_ms(after)}",
        "accumulate",
    )


ADVISERS: Final[tuple[Adviser, ...]] = (
    *(_workers, _resident, _pin, _read, _fused, _graph),
    *(_batch, _compile, _precision, _threads, _lift, _accumulate),
)
