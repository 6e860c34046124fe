"""Which of several runs is better, and is the difference larger than its noise? As in `trueloop sweep`. No torch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from trueloop.results.sweep import Setting, Sweep, TrialResult, TrialState, spread_text
from trueloop.session.runs import RunSummary

__all__ = ["Verdict", "verdict_of"]

NAMED: Final = 3  # Fields in the label of a setting, at most; runs that differ in more are called by name
NOT_SETTINGS: Final = ("seed", "--seed", "name", "hooks", "trackers", "keep", "workers", "log_every", "save_every")
"""Fields that differ between runs of one setting."""


@dataclass(frozen=True, slots=True)
class Verdict:
    text: str = ""  # Empty: there is nothing to compare
    advice: str = ""  # What would settle it
    method: str = ""


def verdict_of(runs: Sequence[RunSummary], varied: Sequence[str] = ()) -> Verdict:
    """`varied`: the fields that make a setting; empty: all that differ, but for the seed."""
    metrics = {run.metric for run in runs if run.metric and run.best is not None}
    if len(metrics) != 1:
        return Verdict()
    metric = metrics.pop()
    names = list(varied) or _differing([run.settings for run in runs])
    settings = _settings([run for run in runs if run.metric in (metric, "")], names)
    higher = next(run.higher_is_better for run in runs if run.metric == metric)
    sweep = Sweep(runs[0].recipe, "", str(runs[0].path.parent), metric, higher, settings)
    compared = sweep.comparisons()
    best = sweep.chosen()
    if best is None or len(settings) < 2 or not compared:
        return Verdict()
    if any(p is None for _, _, p in compared):
        ahead = f"{best.label} has the best {metric}, {spread_text(best)}"
        return Verdict(f"{ahead}, but one run of a setting shows no noise: train each with several seeds.")
    return Verdict(f"{sweep.verdict()}.", sweep.advice(), sweep.method())


def _differing(sides: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields that all runs have, with more than one value."""
    common = [name for name in sides[0] if all(name in side for side in sides)]
    return [name for name in common if name not in NOT_SETTINGS and any(side[name] != sides[0][name] for side in sides)]


def _settings(runs: Sequence[RunSummary], names: Sequence[str]) -> tuple[Setting, ...]:
    found: dict[str, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(repr([run.settings.get(name) for name in names]), []).append(run)
    # Trials are paired by seed, where each run of a setting has its own.
    paired = all(None not in seeds and len({*seeds}) == len(seeds) for seeds in map(_seeds, found.values()))
    number = count()
    return tuple(
        Setting(
            _label(members[0], names),
            tuple(
                _trial(run, seed if paired and seed is not None else next(number))
                for run, seed in zip(members, _seeds(members), strict=True)
            ),
        )
        for members in found.values()
    )


def _label(run: RunSummary, names: Sequence[str]) -> dict[str, str]:
    return {name: str(run.settings.get(name)) for name in names} if len(names) <= NAMED else {"run": run.name}


def _seeds(runs: Sequence[RunSummary]) -> list[int | None]:
    seeds = [str(run.settings.get("seed", run.settings.get("--seed"))) for run in runs]
    return [int(seed) if seed.isdecimal() else None for seed in seeds]


def _trial(run: RunSummary, seed: int) -> TrialResult:
    state: TrialState = "finished" if run.status == "finished" else "unfinished"
    value = run.best if run.best is not None and math.isfinite(run.best) else None
    return TrialResult(run.name, seed, state, value)
