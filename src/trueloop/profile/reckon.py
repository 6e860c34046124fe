"""Sums over a profile that the verdict and the advice share. Pure: no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trueloop.results.profile import Phase, Profile

__all__ = ["Reckoning", "reckon"]

COMPUTING: Final[tuple[Phase, ...]] = ("forward", "backward", "optimizer", "python", "evaluating")
"""Phases that are partly Python and partly operations of torch's."""
COLDEST: Final = 0.5
"""Share of the host's own work that may be put down to that at most."""


@dataclass(frozen=True, slots=True)
class Reckoning:
    """Seconds of one step."""

    step: float
    data: float
    copy: float
    communication: float
    python: float
    """Of the host, outside of torch's operations."""
    wrapping: float
    """Of that, inside of forward, backward and optimizer."""
    operations: float
    """Of the host, inside of them."""
    launch: float
    """What the operations cost by their number alone."""
    cold: float
    """What the operations take longer because the loop stands still, or is busy with something else, before them."""
    computing: float
    """In operations that are limited by arithmetic: on the device, where there is one."""
    moving: float
    """In those that are limited by memory."""

    @property
    def between(self) -> float:
        """Python that is none of the model's and the optimizer's."""
        return self.python - self.wrapping

    @property
    def rest(self) -> float:
        """The step without the waiting for data."""
        return self.step - self.data


def reckon(profile: Profile) -> Reckoning:
    steps, host, work, ceilings = profile.steps, profile.host, profile.work, profile.ceilings
    assert steps is not None
    inside = host.inside if host else {}

    def outside(phase: Phase) -> float:
        return steps.phases.get(phase, 0.0) * (1 - inside.get(phase, float(phase != "python")))

    python = sum(map(outside, COMPUTING))
    told = steps.phases.get("communication", 0.0)
    # Between operations of the backward a rank waits for the others: the engine that runs it is no Python.
    waiting = outside("backward") if profile.machine.ranks > 1 else 0.0
    python -= waiting
    communication = max(told + waiting, host.exchanging if host else 0.0)
    hidden = communication - told
    copy = host.copying if host and host.busy is not None else steps.phases.get("copy", 0.0)
    operations = max(0.0, sum(steps.phases.get(phase, 0.0) for phase in COMPUTING) - python - hidden)
    launch = work.operations * ceilings.launch if work and ceilings else 0.0
    computing, moving = _limits(profile)
    scale = operations / (computing + moving) if host and host.busy is None and computing + moving else 1.0
    return Reckoning(
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
    """Beside a device the host's work is Python and calls, all of which slows down; on a processor it is arithmetic
    too, which does not."""
    work, ceilings = profile.work, profile.ceilings
    if work is None or ceilings is None:
        return 0.0
    return min(max(work.operations * ceilings.cold, own * ceilings.cold_share), COLDEST * own)


def _limits(profile: Profile) -> tuple[float, float]:
    """Seconds in operations above and below the ridge of the roofline; by the profiler's clock."""
    ridge = profile.ceilings.ridge(profile.precision) if profile.ceilings else 0.0
    computing = sum(each.seconds for each in profile.operations if each.bytes and each.flops / each.bytes >= ridge)
    return computing, sum(each.seconds for each in profile.operations) - computing
