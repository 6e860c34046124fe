"""Costs of one step, for the verdict and the advice. Pure: no torch."""

from dataclasses import dataclass
from typing import Final

from trueloop.results.profile import Phase, Profile

__all__ = ["StepCosts", "step_costs"]

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
