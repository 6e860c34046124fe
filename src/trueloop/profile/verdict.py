"""What bounds the run: facts in, one sentence out. Pure: no torch, so that every branch is tested without a machine to
show it on."""

from __future__ import annotations

from typing import Final

from trueloop.profile.reckon import Reckoning, reckon
from trueloop.results.profile import Bound, HotLine, Kind, Profile

__all__ = ["BUSY", "LAUNCHED", "PYTHON", "ROOF", "WAITS", "WRAPPED", "bound_of", "python_lines"]

WAITS: Final = 0.3
"""Share of the step from which on waiting (for data, a copy, other ranks) is what bounds it: without it the run is 1.4
times as fast."""
BUSY: Final = 0.7
"""Share of the step that a device computes, from which on the host is not what bounds it."""
PYTHON: Final = 0.5
"""Share of the host's own work that is Python, from which on it is what bounds the run: most of it. First of all Python
between the calls: what lies around operations inside of forward, backward and optimizer is part of launching them,
where they are many."""
WRAPPED: Final = 0.75
"""The same of all Python where a device waits for launches: Python around many small kernels alone is about half of the
host's work."""
LAUNCHED: Final = 0.35
"""Share of the operations' time that their number alone explains: this many times the measured cost of a small one."""
ROOF: Final = 0.5
"""Share of the operations' time that the roofline explains, from which on they are not too small."""


def bound_of(profile: Profile) -> Bound | None:
    """None if no step was timed."""
    if profile.steps is None or not profile.steps.seconds:
        return None
    sums = reckon(profile)
    waits: dict[Kind, float] = {"data": sums.data, "copy": sums.copy, "communication": sums.communication}
    worst = max(waits, key=lambda kind: waits[kind])
    busy = profile.busy_share
    awaited = busy is None or busy < BUSY or worst != "data"
    if waits[worst] / sums.step >= WAITS and waits[worst] > sums.python and awaited:
        return _waiting(profile, worst, waits[worst] / sums.step)
    if busy is not None and profile.host is not None:
        return _on_device(profile, sums, busy)
    return _on_processor(profile, sums)


def python_lines(profile: Profile) -> list[HotLine]:
    """Lines that could be taken out of the loop: between the calls of model and optimizer, or inside of a forward that
    the user wrote."""
    calls = {line.place for line in profile.lines if line.phase in ("backward", "optimizer") or not _between(line)}
    return [line for line in profile.lines if _between(line) and line.place not in calls]


def _between(line: HotLine) -> bool:
    return line.phase == "python" or (line.phase == "forward" and line.place.function.endswith(".forward"))


def _waiting(profile: Profile, kind: Kind, share: float) -> Bound:
    match kind:
        case "data":
            loader = profile.loading
            how = (
                ""
                if loader is None
                else " with no workers"
                if not loader.workers
                else f" with {loader.workers} workers"
            )
            said = f"the loop waits for data in {share:.0%} of each step: the loader{how} is slower than the model."
            evidence: dict[str, object] = {"waiting": share}
            if loader is not None:
                evidence |= {"loader": loader.place, "workers": loader.workers, "batch_bytes": loader.batch_bytes}
            if (line := next((line for line in profile.lines if line.phase == "data"), None)) is not None:
                evidence |= {"line": line.place, "line_share": line.share}
        case "copy":
            said = f"copying batches to the device takes {share:.0%} of each step, and the device computes nothing meanwhile."
            evidence = {"copying": share, "device_busy": profile.busy_share}
        case _:
            said = (
                f"{share:.0%} of each step is spent exchanging data with other ranks, with nothing computed meanwhile."
            )
            evidence = {"exchanging": share, "ranks": profile.machine.ranks}
    return Bound(kind, f"{kind}-bound: {said}", evidence)


def _on_device(profile: Profile, sums: Reckoning, busy: float) -> Bound:
    assert profile.host is not None
    evidence: dict[str, object] = {
        "device_busy": busy,
        "kernels": round(profile.host.launches),
        "python": sums.python / sums.step,
    }
    if busy < BUSY:
        own = sums.python + sums.operations
        if own and (sums.between / own >= PYTHON or sums.python / own >= WRAPPED):
            return _python(profile, sums, evidence)
        said = f"the device computes in {busy:.0%} of each step; the host cannot launch its {profile.host.launches:,.0f} kernels faster."
        return Bound("launch", f"launch-bound: {said}", evidence)
    return _by_roofline(profile, sums, evidence)


def _on_processor(profile: Profile, sums: Reckoning) -> Bound:
    own = sums.python + sums.operations
    evidence: dict[str, object] = {"python": sums.python / sums.step, "operations": sums.operations / sums.step}
    if own and sums.between / own >= PYTHON:
        return _python(profile, sums, evidence)
    work = profile.work
    if work is not None and sums.operations and work.source == "counted":
        launched, roof = sums.launch / sums.operations, work.roof / sums.operations
        evidence |= {"operations_per_step": work.operations, "by_their_number": launched, "by_the_roofline": roof}
        if launched >= LAUNCHED and roof < ROOF:
            said = f"{work.operations:,} operations per step are so small that starting them takes {launched:.0%} of their time."
            return Bound("launch", f"launch-bound: {said}", evidence)
    if own and sums.python / own >= PYTHON:
        return _python(profile, sums, evidence)
    return _by_roofline(profile, sums, evidence)


def _python(profile: Profile, sums: Reckoning, evidence: dict[str, object]) -> Bound:
    line = next(iter(python_lines(profile)), None)
    if line is not None:
        evidence |= {"line": line.place, "line_share": line.share}
    said = f"{sums.python / sums.step:.0%} of each step is Python outside of torch's operations."
    return Bound("python", f"Python-bound: {said}", evidence)


def _by_roofline(profile: Profile, sums: Reckoning, evidence: dict[str, object]) -> Bound:
    total = sums.computing + sums.moving
    share = sums.computing / total if total else 0.0
    evidence |= {"above_the_ridge": share, "mfu": profile.mfu}
    if profile.work is not None:
        evidence["intensity"] = profile.work.intensity
    if not total or share >= 0.5:
        reach = (
            ""
            if profile.mfu is None
            else f" The step reaches {profile.mfu:.0%} of the arithmetic that this machine was seen to do."
        )
        return Bound(
            "compute",
            f"compute-bound: {share:.0%} of the operations' time goes to those that are limited by arithmetic.{reach}",
            evidence,
        )
    said = f"{1 - share:.0%} of the operations' time goes to those that move more than they compute."
    return Bound("memory", f"memory-bound: {said}", evidence)
