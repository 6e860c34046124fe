"""The bottleneck of the run, as one sentence. Pure: no torch, so every branch can be tested on any machine."""

from typing import Final

from trueloop.profile.step_costs import StepCosts, step_costs
from trueloop.results.profile import Bound, HotLine, Kind, Profile

__all__ = ["BUSY", "bound_of", "python_lines"]

WAITS: Final = 0.3
"""Waiting (for data, a copy, other ranks) is the bottleneck from this share of the step: 1.4 times as fast without."""
BUSY: Final = 0.7  # From this share of busy device time the host is not the bottleneck
PYTHON: Final = 0.5
"""From this share of the host's work Python is the bottleneck. Python between the calls counts first: Python inside
forward, backward and optimizer is part of launching operations."""
WRAPPED: Final = 0.75
"""The same for all Python if a device waits for launches: launching many small kernels is about half Python."""
LAUNCHED: Final = 0.35
"""Share of the operations' time that launching alone explains: their number times the measured launch cost."""
ROOF: Final = 0.5  # From this share of the operations' time explained by the roofline, operations are not too small


def bound_of(profile: Profile) -> Bound | None:
    """None if no step was timed."""
    if profile.steps is None or not profile.steps.seconds:
        return None
    costs = step_costs(profile)
    waits: dict[Kind, float] = {"data": costs.data, "copy": costs.copy, "communication": costs.communication}
    worst = max(waits, key=lambda kind: waits[kind])
    busy = profile.busy_share
    awaited = busy is None or busy < BUSY or worst != "data"
    if waits[worst] / costs.step >= WAITS and waits[worst] > costs.python and awaited:
        return _waiting(profile, worst, waits[worst] / costs.step)
    if busy is not None and profile.host is not None:
        return _on_device(profile, costs, busy)
    return _on_processor(profile, costs)


def python_lines(profile: Profile) -> list[HotLine]:
    """Lines that could move out of the loop: between calls of model and optimizer, or inside the user's `forward`."""
    calls = {line.place for line in profile.lines if line.phase in ("backward", "optimizer") or not _between(line)}
    return [line for line in profile.lines if _between(line) and line.place not in calls]


def _between(line: HotLine) -> bool:
    return line.phase == "python" or (line.phase == "forward" and line.place.function.endswith(".forward"))


def _waiting(profile: Profile, kind: Kind, share: float) -> Bound:
    match kind:
        case "data":
            loader = profile.loading
            how = "" if loader is None else f" with {loader.workers or 'no'} workers"
            text = f"the loop waits for data in {share:.0%} of each step: the loader{how} is slower than the model."
            evidence: dict[str, object] = {"waiting": share}
            if loader is not None:
                evidence |= {"loader": loader.place, "workers": loader.workers, "batch_bytes": loader.batch_bytes}
            if (line := next((line for line in profile.lines if line.phase == "data"), None)) is not None:
                evidence |= {"line": line.place, "line_share": line.share}
        case "copy":
            text = f"copying batches to the device takes {share:.0%} of each step, while the device is idle."
            evidence = {"copying": share, "device_busy": profile.busy_share}
        case _:
            text = f"communication with other ranks takes {share:.0%} of each step, with no computation in that time."
            evidence = {"exchanging": share, "ranks": profile.machine.ranks}
    return Bound(kind, f"{kind}-bound: {text}", evidence)


def _on_device(profile: Profile, costs: StepCosts, busy: float) -> Bound:
    assert profile.host is not None
    evidence: dict[str, object] = {
        "device_busy": busy,
        "kernels": round(profile.host.launches),
        "python": costs.python / costs.step,
    }
    if busy < BUSY:
        own = costs.python + costs.operations
        if own and (costs.between / own >= PYTHON or costs.python / own >= WRAPPED):
            return _python(profile, costs, evidence)
        kernels = f"{profile.host.launches:,.0f} kernels"
        text = f"the device is busy for {busy:.0%} of each step; the host cannot launch its {kernels} faster."
        return Bound("launch", f"launch-bound: {text}", evidence)
    return _by_roofline(profile, costs, evidence)


def _on_processor(profile: Profile, costs: StepCosts) -> Bound:
    own = costs.python + costs.operations
    evidence: dict[str, object] = {"python": costs.python / costs.step, "operations": costs.operations / costs.step}
    if own and costs.between / own >= PYTHON:
        return _python(profile, costs, evidence)
    work = profile.work
    if work is not None and costs.operations and work.source == "counted":
        launched, roof = costs.launch / costs.operations, work.roof / costs.operations
        evidence |= {"operations_per_step": work.operations, "launch_share": launched, "roofline_share": roof}
        if launched >= LAUNCHED and roof < ROOF:
            text = f"launching {work.operations:,} small operations per step takes {launched:.0%} of their time."
            return Bound("launch", f"launch-bound: {text}", evidence)
    if own and costs.python / own >= PYTHON:
        return _python(profile, costs, evidence)
    return _by_roofline(profile, costs, evidence)


def _python(profile: Profile, costs: StepCosts, evidence: dict[str, object]) -> Bound:
    line = next(iter(python_lines(profile)), None)
    if line is not None:
        evidence |= {"line": line.place, "line_share": line.share}
    text = f"{costs.python / costs.step:.0%} of each step is Python outside of torch's operations."
    return Bound("python", f"Python-bound: {text}", evidence)


def _by_roofline(profile: Profile, costs: StepCosts, evidence: dict[str, object]) -> Bound:
    total = costs.computing + costs.moving
    share = costs.computing / total if total else 0.0
    evidence |= {"compute_bound_share": share, "mfu": profile.mfu}
    if profile.work is not None:
        evidence["intensity"] = profile.work.intensity
    if not total or share >= 0.5:
        reach = "" if profile.mfu is None else f" The step reaches {profile.mfu:.0%} of this machine's measured FLOP/s."
        text = f"{share:.0%} of the operations' time is spent in compute-bound operations.{reach}"
        return Bound("compute", f"compute-bound: {text}", evidence)
    text = f"{1 - share:.0%} of the operations' time is spent in operations limited by memory bandwidth."
    return Bound("memory", f"memory-bound: {text}", evidence)
