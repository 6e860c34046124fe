"""The costs of a step, and the bottleneck of the run as one sentence. Pure: no torch, testable on any machine."""

from dataclasses import dataclass
from typing import Final

from trueloop.results.profile import Bound, HotLine, Kind, Phase, Profile

__all__ = ["BUSY", "StepCosts", "bound_of", "python_lines", "step_costs"]

WAITS: Final = 0.3  # Waiting (data, copy, other ranks) is the bottleneck from this share: 1.4 times as fast without
BUSY: Final = 0.7  # From this share of busy device time the host is not the bottleneck
PYTHON: Final = 0.5
"""From this share of the host's work Python is the bottleneck. Python between the calls counts first: Python inside
forward, backward and optimizer is part of launching operations."""
WRAPPED: Final = 0.75  # The same for all Python if a device waits for launches, which are about half Python
LAUNCHED: Final = 0.35  # Share of the operations' time that launching explains: their number times the launch cost
ROOF: Final = 0.5  # From this share of the operations' time explained by the roofline, operations are not too small
FAR: Final = 0.2  # Below this share of what the ceilings allow, "bound" alone would be misleading
COMPUTING: Final[tuple[Phase, ...]] = ("forward", "backward", "optimizer", "python", "evaluating")
"""Phases with both Python and torch operations."""
COLDEST: Final = 0.5  # Largest share of the host's work that cold caches may explain


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Seconds of one step."""

    step: float
    data: float
    copy: float
    communication: float
    python: float  # On the host, outside of torch operations
    wrapping: float  # The part of `python` inside forward, backward and optimizer
    operations: float  # On the host, inside torch operations
    launch: float  # Launch cost: the number of operations times the cost of a small one
    cold: float  # Extra time of the operations because caches got cold while the loop waited or did something else
    computing: float  # In compute-bound operations; on the device, if there is one
    moving: float  # In memory-bound operations

    @property
    def between(self) -> float:
        """Python outside the model and the optimizer."""
        return self.python - self.wrapping

    @property
    def rest(self) -> float:
        """The step without waiting for data."""
        return self.step - self.data


def step_costs(profile: Profile) -> StepCosts:
    steps, host, work, ceilings = profile.steps, profile.host, profile.work, profile.ceilings
    assert steps is not None
    inside = host.inside if host else {}

    def outside(phase: Phase) -> float:
        return steps.phases.get(phase, 0.0) * (1 - inside.get(phase, float(phase != "python")))

    python = sum(map(outside, COMPUTING))
    measured = steps.phases.get("communication", 0.0)
    # Between operations of the backward pass a rank waits for the others: the autograd engine runs no Python.
    waiting = outside("backward") if profile.machine.ranks > 1 else 0.0
    python -= waiting
    communication = max(measured + waiting, host.exchanging if host else 0.0)
    hidden = communication - measured
    copy = host.copying if host and host.busy is not None else steps.phases.get("copy", 0.0)
    operations = max(0.0, sum(steps.phases.get(phase, 0.0) for phase in COMPUTING) - python - hidden)
    launch = work.operations * ceilings.launch if work and ceilings else 0.0
    computing, moving = _limits(profile)
    scale = operations / (computing + moving) if host and host.busy is None and computing + moving else 1.0
    return StepCosts(
        step=steps.seconds,
        data=steps.phases.get("data", 0.0),
        copy=copy,
        communication=communication,
        python=python,
        wrapping=python - outside("python"),
        operations=operations,
        launch=min(launch, operations),
        cold=_cold(profile, python + operations),
        computing=computing * scale,
        moving=moving * scale,
    )


def _cold(profile: Profile, own: float) -> float:
    """With a device, all host work (Python and calls) slows down; on a CPU, the arithmetic does not."""
    work, ceilings = profile.work, profile.ceilings
    if work is None or ceilings is None:
        return 0.0
    return min(max(work.operations * ceilings.cold, own * ceilings.cold_share), COLDEST * own)


def _limits(profile: Profile) -> tuple[float, float]:
    """Seconds in operations above and below the ridge of the roofline, by the profiler's clock."""
    ridge = profile.ceilings.ridge(profile.precision) if profile.ceilings else 0.0
    computing = sum(each.seconds for each in profile.operations if each.bytes and each.flops / each.bytes >= ridge)
    return computing, sum(each.seconds for each in profile.operations) - computing


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
    launched, python = round(profile.host.launches), costs.python / costs.step
    evidence: dict[str, object] = {"device_busy": busy, "kernels": launched, "python": python}
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
    if not total:
        own = costs.operations / costs.step
        text = f"{own:.0%} of each step is spent in torch's operations, which were not measured one by one."
        return Bound("compute", f"compute-bound: {text}", evidence)
    share = costs.computing / total
    evidence |= {"compute_bound_share": share, "mfu": profile.mfu}
    if profile.work is not None:
        evidence["intensity"] = profile.work.intensity
    if share >= 0.5:
        reach = "" if profile.mfu is None else f" The step reaches {profile.mfu:.0%} of this machine's measured FLOP/s."
        text = f"{share:.0%} of the operations' time is spent in compute-bound operations.{reach}"
        return Bound("compute", f"compute-bound: {text}{_far(profile, costs)}", evidence)
    text = f"{1 - share:.0%} of the operations' time is spent in operations limited by memory bandwidth."
    return Bound("memory", f"memory-bound: {text}{_far(profile, costs)}", evidence)


def _far(profile: Profile, costs: StepCosts) -> str:
    """Operations that are slow for a different reason than the ceilings, which the profile cannot see."""
    work = profile.work
    if work is None or work.source != "counted" or not work.roof or work.roof >= FAR * costs.operations:
        return ""
    times = costs.operations / work.roof
    return (
        f" But its operations take {times:,.0f} times as long as the measured ceilings allow: too small to fill "
        "this machine, or slowed by other programs."
    )
