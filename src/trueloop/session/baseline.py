"""`trueloop train --baseline RUN`: the numbers of a good run, read from its folder, and how far apart equally good runs
lie. No torch.

run.json of the new run then holds
    baseline    {"run", "metric", "value", "noise", "noise_from", "higher_is_better", "rows"}: a resume is held against
    the same numbers
    collapse    {"kind", "step", "first_step", "metric", "value", "expected", "noise", "sentence", "recovered_at"}, if
    it fell below
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from trueloop.engine.collapse import Baseline
from trueloop.errors import NotARun
from trueloop.hook import Collapse, Hook, Row, Start
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import METRICS
from trueloop.session.folder import RunFolder, find_run, read_about
from trueloop.session.runs import RunSummary, summary_of
from trueloop.track.metrics import current_rows, read_rows

__all__ = ["Found", "Marks", "kept_baseline", "read_baseline"]

SPREAD: Final = 3.0
"""Standard deviations that count as noise: one healthy run in some hundreds lies further off."""
ENOUGH_RUNS: Final = 3
"""From which the spread over seeds is taken at its word: two values are close by luck too often."""
LAST: Final = 5
"""Evaluations at the end of a baseline whose spread stands for its noise where nothing better is known."""
UNKNOWN: Final = 0.1
"""Share of its value that a baseline's noise is taken for, when it has been evaluated too rarely to say: wide, so that
nothing is stopped for no reason."""
IMMATERIAL: Final = frozenset(
    {
        "seed",
        "name",
        "hooks",
        "trackers",
        "keep",
        "workers",
        "device",
        "log_every",
        "save_every",
        "statistics_every",
        "on_collapse",
    }
)
"""Fields in which runs of one recipe with other seeds may differ."""


@dataclass(frozen=True, slots=True)
class Found:
    """A baseline as its folder has it; the noise waits for the number of validation samples."""

    path: Path
    metric: str
    higher_is_better: bool
    value: float
    rows: tuple[tuple[int, float], ...]
    others: tuple[float, ...]
    """The best values of runs of the same recipe with other seeds."""

    def with_noise(self, samples: int) -> Baseline:
        noise, words = self._noise(samples)
        return Baseline(
            str(self.path.absolute()), self.metric, self.higher_is_better, self.value, noise, words, self.rows
        )

    def _noise(self, samples: int) -> tuple[float, str]:
        counted = self._counted(samples)
        if self.others:
            runs = (self.value, *self.others)
            among = SPREAD * statistics.stdev(runs)
            least = counted[0] if len(runs) < ENOUGH_RUNS else counted[0] / SPREAD
            if among >= least:
                return (
                    among,
                    f"{SPREAD:g} standard deviations of the best {self.metric} of {len(runs)} runs with different seeds",
                )
            return least, f"{counted[1]}; {len(runs)} runs with different seeds lie closer together than that"
        return counted

    def _counted(self, samples: int) -> tuple[float, str]:
        """Without other seeds: what the number of samples, or the baseline's own unrest, says."""
        if self.metric == "accuracy":
            # Two more right and two more wrong ones (Agresti and Coull): without them an accuracy of 1 would have no
            # error at all.
            share = (self.value * samples + 2) / (samples + 4)
            error = SPREAD * math.sqrt(share * (1 - share) / (samples + 4))
            return (
                error,
                f"{SPREAD:g} standard errors of an accuracy of {self.value:.4g} on {samples:,} validation samples",
            )
        last = [value for _, value in self.rows[-LAST:] if math.isfinite(value)]
        if len(last) < ENOUGH_RUNS:
            return UNKNOWN * abs(self.value), f"a tenth of its value: it has been evaluated {len(self.rows)} times only"
        return SPREAD * statistics.stdev(last), f"{SPREAD:g} standard deviations of its last {len(last)} evaluations"


def read_baseline(word: str | Path, runs: Path, recipe: Recipe) -> Found:
    """Raises NotARun with a sentence, before anything is trained."""
    path = find_run(str(word), runs, undone="trained")
    summary, about = summary_of(path), read_about(path)
    metric = recipe.metric or ("loss" if recipe.loss is not None else METRICS[recipe.task][0])
    _refuse(path, summary, metric)
    assert summary.best is not None
    higher = summary.higher_is_better
    return Found(path, metric, higher, summary.best, _validation(path, metric), _others(path, about, metric))


def _refuse(path: Path, summary: RunSummary, metric: str) -> None:
    if summary.status == "running":
        raise NotARun(f"The baseline {path} is still being trained: its best is not known yet. Nothing was trained.")
    if summary.collapse:
        raise NotARun(
            f"The baseline {path} has collapsed itself ({summary.collapse}) Nothing was trained: choose a good run."
        )
    if summary.metric != metric:
        raise NotARun(
            f"The baseline {path} was chosen by {summary.metric or 'nothing'}, and this recipe is by {metric}: they cannot be compared. "
            "Nothing was trained: give a baseline with the same metric, or --set metric=..."
        )
    if summary.best is None or not math.isfinite(summary.best):
        raise NotARun(
            f"The baseline {path} has no validation: nothing can fall below it. Nothing was trained: choose a run that has."
        )


def _validation(path: Path, metric: str) -> tuple[tuple[int, float], ...]:
    rows = [row for row in current_rows(read_rows(path, ("valid",))) if row.kind == "valid" and metric in row.values]
    return tuple((row.step, row.values[metric]) for row in rows if math.isfinite(row.values[metric]))


def _others(path: Path, about: Mapping[str, Any], metric: str) -> tuple[float, ...]:
    """Of finished runs in the same folder that differ in their seed; one for each seed."""
    mine = about.get("recipe") or {}
    found: dict[Any, float] = {}
    for other in sorted(path.absolute().parent.iterdir()):
        if other.name == path.name or not (other / "run.json").is_file():
            continue
        try:
            summary, theirs = summary_of(other), read_about(other)
        except NotARun:
            continue  # a damaged neighbour says nothing about noise; `trueloop runs` tells of it
        recipe = theirs.get("recipe") or {}
        same = (
            _material(recipe) == _material(mine)
            and theirs.get("data") == about.get("data")
            and recipe.get("seed") != mine.get("seed")
        )
        if (
            same
            and summary.status == "finished"
            and summary.metric == metric
            and not summary.collapse
            and _sound(summary.best)
        ):
            found.setdefault(recipe.get("seed"), float(summary.best or 0.0))
    return tuple(found.values())


def _sound(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _material(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if name not in IMMATERIAL}


def kept_baseline(folder: RunFolder) -> Baseline | None:
    """What a run that goes on was held against."""
    told = folder.about.get("baseline")
    if told is None:
        return None
    try:
        return Baseline.from_dict(told)
    except (KeyError, TypeError, ValueError) as error:
        folder.close()
        raise NotARun(
            f"{folder.path}/run.json is damaged: its baseline cannot be read ({error!r}). Nothing was run."
        ) from None


@final
class Marks(Hook):
    """Writes into run.json that a run has collapsed, and when it was good again."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None], *, goes_on: bool) -> None:
        self.folder, self.say, self.goes_on = folder, say, goes_on

    def started(self, start: Start) -> None:
        """A run that went back behind its collapse has not collapsed yet."""
        before = self.folder.about.get("collapse")
        if before is not None and int(before.get("first_step", 0)) > start.from_step:
            del self.folder.about["collapse"]

    def collapsed(self, collapse: Collapse) -> None:
        before = self.folder.about.get("collapse")
        lasting = before is not None and before.get("recovered_at") is None
        first = before["first_step"] if before is not None and lasting else collapse.step
        told = {
            name: str(value) if value != value or value in (math.inf, -math.inf) else value
            for name, value in asdict(collapse).items()
        }
        self.folder.write(collapse={**told, "first_step": first, "recovered_at": None})
        if self.goes_on and not lasting:
            self.say(f"{collapse.sentence} The run is marked and goes on (on_collapse=mark); this is not its best.")

    def logged(self, row: Row) -> None:
        before = self.folder.about.get("collapse")
        if (
            row.kind == "valid"
            and before is not None
            and before.get("recovered_at") is None
            and row.step > before["step"]
        ):
            self.folder.write(collapse={**before, "recovered_at": row.step})
            self.say(f"At step {row.step:,} the run is no longer below its baseline.")
