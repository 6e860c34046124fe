"""`trueloop train --baseline RUN`: the metrics of a good run, read from its folder, and the noise between equally good
runs. Imports no torch.

run.json of the new run then holds
    baseline    {"run", "metric", "value", "noise", "noise_from", "higher_is_better", "rows"}; a resume uses it again
    collapse    {"kind", "step", "first_step", "metric", "value", "expected", "noise", "sentence", "recovered_at"}, if
                the run fell below its baseline
"""

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

SPREAD: Final = 3.0  # Standard deviations that count as noise: about one healthy run in several hundred is further away
ENOUGH_RUNS: Final = 3  # Runs needed to trust the spread over seeds: two values are often close by chance
LAST: Final = 5  # Last evaluations of a baseline whose spread estimates its noise, where no other estimate exists
UNKNOWN: Final = 0.1  # of the value: noise of a baseline with too few evaluations; wide, to stop no run needlessly
# Recipe fields that may differ between runs that are compared over seeds
IMMATERIAL: Final = {
    *("seed", "name", "hooks", "trackers", "keep", "workers", "device", "log_every", "save_every", "statistics_every"),
    "on_collapse",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A baseline read from its folder. The noise needs the number of validation samples."""

    path: Path
    metric: str
    higher_is_better: bool
    value: float
    rows: tuple[tuple[int, float], ...]
    others: tuple[float, ...]  # Best values of runs with the same recipe and a different seed

    def with_noise(self, samples: int) -> Baseline:
        noise, words = self._noise(samples)
        path, higher = str(self.path.absolute()), self.higher_is_better
        return Baseline(path, self.metric, higher, self.value, noise, words, self.rows)

    def _noise(self, samples: int) -> tuple[float, str]:
        counted = self._counted(samples)
        if self.others:
            runs = (self.value, *self.others)
            among = SPREAD * statistics.stdev(runs)
            least = counted[0] if len(runs) < ENOUGH_RUNS else counted[0] / SPREAD
            if among >= least:
                words = f"best {self.metric} of {len(runs)} runs with different seeds"
                return among, f"{SPREAD:g} standard deviations of the {words}"
            return least, f"{counted[1]}; {len(runs)} runs with different seeds lie closer together than that"
        return counted

    def _counted(self, samples: int) -> tuple[float, str]:
        """Noise from the number of samples (accuracy) or from the last evaluations."""
        if self.metric == "accuracy":
            # Agresti-Coull: two more correct and two more wrong samples, so that an accuracy of 1 has an error above 0.
            share = (self.value * samples + 2) / (samples + 4)
            error = SPREAD * math.sqrt(share * (1 - share) / (samples + 4))
            words = f"{SPREAD:g} standard errors of an accuracy of {self.value:.4g} on {samples:,} validation samples"
            return error, words
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
        raise NotARun(f"The baseline {path} is still being trained: its best is still unknown. Nothing was trained.")
    if summary.collapse:
        raise NotARun(f"The baseline {path} has collapsed ({summary.collapse}) Nothing was trained: choose another.")
    if summary.metric != metric:
        raise NotARun(
            f"The baseline {path} uses metric={summary.metric or 'nothing'} and this recipe metric={metric}: they "
            "cannot be compared. Nothing was trained: give a baseline with the same metric, or --set metric=..."
        )
    if summary.best is None or not math.isfinite(summary.best):
        raise NotARun(f"The baseline {path} has no validation results. Nothing was trained: choose one with such data.")


def _validation(path: Path, metric: str) -> tuple[tuple[int, float], ...]:
    rows = [row for row in current_rows(read_rows(path, ("valid",))) if row.kind == "valid" and metric in row.values]
    return tuple((row.step, row.values[metric]) for row in rows if math.isfinite(row.values[metric]))


def _others(path: Path, about: Mapping[str, Any], metric: str) -> tuple[float, ...]:
    """Best values of finished runs in the same folder that differ in their seed; one per seed."""
    mine = about.get("recipe") or {}
    best: dict[Any, float] = {}
    for other in sorted(path.absolute().parent.iterdir()):
        if other.name == path.name or not (other / "run.json").is_file():
            continue
        try:
            summary, theirs = summary_of(other), read_about(other)
        except NotARun:
            continue  # a damaged run gives no value; `trueloop runs` lists it
        recipe = theirs.get("recipe") or {}
        same = _material(recipe) == _material(mine) and recipe.get("seed") != mine.get("seed")
        same = same and theirs.get("data") == about.get("data")
        finished = summary.status == "finished" and summary.metric == metric and not summary.collapse
        if same and finished and summary.best is not None and math.isfinite(summary.best):
            best.setdefault(recipe.get("seed"), float(summary.best))
    return tuple(best.values())


def _material(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if name not in IMMATERIAL}


def kept_baseline(folder: RunFolder) -> Baseline | None:
    """The baseline of a resumed run, from its run.json."""
    record = folder.about.get("baseline")
    if record is None:
        return None
    try:
        return Baseline.from_dict(record)
    except (KeyError, TypeError, ValueError) as error:
        folder.close()
        damage = f"{folder.path}/run.json is damaged: its baseline cannot be read ({error!r})"
        raise NotARun(f"{damage}. Nothing was run.") from None


@final
class Marks(Hook):
    """Writes the collapse of a run, and its recovery, into run.json."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None], *, continues: bool) -> None:
        self.folder, self.say, self.continues = folder, say, continues

    def started(self, start: Start) -> None:
        """Delete the mark of a collapse that is later than the checkpoint that the run resumes from."""
        before = self.folder.about.get("collapse")
        if before is not None and int(before.get("first_step", 0)) > start.from_step:
            del self.folder.about["collapse"]

    def collapsed(self, collapse: Collapse) -> None:
        before = self.folder.about.get("collapse")
        lasting = before is not None and before.get("recovered_at") is None
        first = before["first_step"] if before is not None and lasting else collapse.step
        infinite = (math.inf, -math.inf)
        values = asdict(collapse).items()
        record = {name: str(value) if value != value or value in infinite else value for name, value in values}
        self.folder.write(collapse={**record, "first_step": first, "recovered_at": None})
        if self.continues and not lasting:
            self.say(f"{collapse.sentence} The run is marked and continues (on_collapse=mark); this is not its best.")

    def logged(self, row: Row) -> None:
        before = self.folder.about.get("collapse")
        if before is None or before.get("recovered_at") is not None:
            return
        if row.kind == "valid" and row.step > before["step"]:
            self.folder.write(collapse={**before, "recovered_at": row.step})
            self.say(f"At step {row.step:,} the run is no longer below its baseline.")
