"""One run of a sweep: its name, and what its folder says about it. No torch."""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from trueloop.errors import Misuse, NotARun
from trueloop.results.sweep import TrialResult, TrialState
from trueloop.session.folder import read_about
from trueloop.session.runs import RunSummary, summary_of
from trueloop.track.metrics import current_rows, read_rows

__all__ = ["HALVED", "Todo", "Trial", "Validation", "trial_name", "trials_of"]

LONGEST: Final = 120  # Characters of a folder's name
HALVED: Final = "halved_at"  # In run.json: the step at which --halving ended the run
DIVERGED: Final = ("nonfinite", "collapsed")  # What run.json says of a run that the setting itself has ended

Todo = Literal["train", "resume", "wait", "nothing"]


@dataclass(frozen=True, slots=True)
class Validation:
    metric: str = ""
    higher_is_better: bool = True
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    folder: Path  # of its run
    values: Mapping[str, str]  # what the sweep varies, without the seed
    seed: int
    settings: Mapping[str, str]  # everything that --set gets

    def todo(self) -> Todo:
        """What its folder asks for. Raises Misuse if it holds a run of other settings."""
        if not (self.folder / "run.json").is_file():
            return "train"
        about, summary = self._read()
        recorded = (about.get("origin") or {}).get("settings")
        if recorded != dict(self.settings):
            raise Misuse(_other_settings(self, recorded if isinstance(recorded, dict) else {}))
        if summary.status == "running":
            return "wait"
        return "resume" if summary.status in ("killed", "stopped") and HALVED not in about else "nothing"

    def result(self, log: str = "", found: bool = False) -> TrialResult:
        """`log`: the last line that its process printed; `found`: a rule found an error in it."""
        if not (self.folder / "run.json").is_file():
            return TrialResult(self.name, self.seed, "failed" if log else "unfinished", message=log)
        about, summary = self._read()
        message, state = "", _state(about, summary)
        if state in ("failed", "diverged"):
            message = summary.message or log or str(about.get("status"))
        elif found:
            message = f"a rule found an error: `trueloop recheck {self.folder}`"
        return TrialResult(self.name, self.seed, state, summary.best, summary.test or {}, message.partition("\n")[0])

    def validation(self) -> Validation:
        """Its validation values so far."""
        if not (self.folder / "run.json").is_file():
            return Validation()
        about = read_about(self.folder)
        metric = str(about.get("metric") or "")
        rows = current_rows(read_rows(self.folder, ("valid",))) if (self.folder / "metrics.jsonl").is_file() else []
        values = [row.values[metric] for row in rows if metric in row.values]
        return Validation(metric, bool(about.get("higher_is_better", metric not in ("", "loss"))), values)

    def _read(self) -> tuple[dict[str, Any], RunSummary]:
        try:
            return read_about(self.folder), summary_of(self.folder)
        except NotARun as error:
            raise Misuse(f"{error} Remove {self.folder}, or choose another --group.") from None


def _state(about: Mapping[str, Any], summary: RunSummary) -> TrialState:
    if summary.status == "finished":
        return "finished"
    if HALVED in about:
        return "halved"
    if about.get("status") in DIVERGED:
        return "diverged"
    return "failed" if summary.status in ("failed", "hung", "damaged", "collapsed") else "unfinished"


def _other_settings(trial: Trial, recorded: Mapping[str, Any]) -> str:
    names = [name for name in {**recorded, **trial.settings} if recorded.get(name) != trial.settings.get(name)]
    differ = ", ".join(
        f"{name}={recorded.get(name, 'not set')}, now {trial.settings.get(name, 'not set')}" for name in names
    )
    return (
        f"{trial.folder} was trained with other settings ({differ}). Nothing was run: type the command as before to "
        "continue, or choose another --group."
    )


def trials_of(
    settings: list[dict[str, str]], seeds: list[int], base: Mapping[str, str], group: str, runs: Path
) -> Iterator[Trial]:
    """Every setting with the first seed, then every setting with the next."""
    for seed in seeds:
        for values in settings:
            name = trial_name(group, values, seed)
            yield Trial(name, runs / name, values, seed, {**base, **values, "seed": str(seed)})


def trial_name(group: str, values: Mapping[str, str], seed: int) -> str:
    words = [f"{name}={value}" for name, value in values.items() if name != "seed"]
    name = "-".join([group, *(re.sub(r"[^\w.=+-]", "_", word) for word in words), f"seed={seed}"])
    if len(name) <= LONGEST and not any(re.search(r"[^\w.=+-]", word) for word in words):
        return name
    return f"{name[: LONGEST - 9]}-{zlib.crc32(repr((sorted(values.items()), seed)).encode()):08x}"
