"""Two runs or more, side by side: what was asked for, what came of it, and from which step on they part. No torch."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trueloop.hook import Row
from trueloop.session.folder import read_about, reading_run
from trueloop.session.runs import KINDS, RunSummary, fields_of, summary_of
from trueloop.track.metrics import current_rows, read_rows
from trueloop.usercode.definitions import definitions_that_differ

__all__ = ["Comparison", "Parting", "compare_read", "compared", "parting"]

Values = tuple[Any, ...]  # One for each run, in their order; None where a run has none


@dataclass(frozen=True, slots=True)
class Parting:
    """Where another run's losses leave the first one's. Floats are compared as they are: to the last bit."""

    other: str
    compared: int  # Losses that both runs logged for the same steps, up to and with the first that differs
    step: int | None = None  # The first at which they differ; None: they never do
    kind: Literal["train", "valid"] = "train"
    here: float = 0.0
    there: float = 0.0

    def sentence(self, first: str) -> str:
        """`first`: the run that the other is compared with."""
        if not self.compared:
            return f"{self.other} and {first}: no loss was logged for the same steps by both."
        if self.step is None:
            return f"{self.other} and {first}: bit-identical in all {self.compared:,} losses that both logged."
        word = "training" if self.kind == "train" else "validation"
        why = f"{self.other} and {first}: the {word} loss differs from step {self.step:,} on:"
        return f"{why} {self.there!r} and {self.here!r} ({self.there - self.here:+.3g})."


@dataclass(frozen=True, slots=True)
class Comparison:
    runs: tuple[RunSummary, ...]
    labels: tuple[str, ...]  # Their names; their paths where names are shared
    recipe: Mapping[str, Values]  # Fields of the recipe that differ
    machine: Mapping[str, Values]  # Facts of the machine that differ
    results: Mapping[str, Values]
    partings: tuple[Parting, ...]  # Of each run but the first
    code: Mapping[str, str]  # Diffs from the first run's code: "label: definition" -> diff


def compared(paths: Sequence[Path]) -> Comparison:
    """Runs by their folders."""
    rows = [current_rows(read_rows(path, ("train", "valid"))) for path in paths]
    with reading_run(paths[-1]):
        return compare_read(tuple(map(summary_of, paths)), [read_about(path, KINDS) for path in paths], rows)


def compare_read(
    runs: tuple[RunSummary, ...], abouts: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Row]]
) -> Comparison:
    """Runs that were read: their summaries, what run.json says, their rows of training and validation."""
    data = [{"--data": about["data"]} if about.get("data") else {} for about in abouts]
    recipes = [{**_fields(about), **given} for about, given in zip(abouts, data, strict=True)]
    if len({repr(recipe.get("seed")) for recipe in recipes}) == 1:  # the seed chooses the samples of the digest
        recipes = [{**recipe, **_samples(about)} for recipe, about in zip(recipes, abouts, strict=True)]
    names = tuple(run.name for run in runs)
    labels = names if len(set(names)) == len(names) else tuple(str(run.path) for run in runs)
    return Comparison(
        runs=runs,
        labels=labels,
        recipe=_differing(recipes),
        machine=_differing([about.get("machine") or {} for about in abouts]),
        results=_results(runs, rows),
        code=dict(_code(labels, abouts)),
        partings=tuple(parting(label, rows[0], others) for label, others in zip(labels[1:], rows[1:], strict=True)),
    )


def _fields(about: Mapping[str, Any]) -> dict[str, Any]:
    """Of the recipe, or of the script: its arguments, and the commit of its code."""
    git = about.get("git") or {}
    more = {"script": about.get("script"), "commit": git.get("commit"), "uncommitted changes": git.get("dirty")}
    return {**fields_of(about), **(more if about.get("kind") == "check" else {})}


def _samples(about: Mapping[str, Any]) -> dict[str, str]:
    """What the run was trained on, split by split: other samples under the same file name are seen here."""
    splits = about.get("data_fingerprint")
    return {
        f"data: {name}": f"{split.get('samples')} samples, digest {split['digest'][:8]}"
        for name, split in (splits.items() if isinstance(splits, dict) else ())
        if isinstance(split, dict) and isinstance(split.get("digest"), str)
    }


def _code(labels: Sequence[str], abouts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    first = abouts[0].get("code")
    for label, about in zip(labels[1:], abouts[1:], strict=True):
        if first is not None and about.get("code") is not None:
            for name, diff in definitions_that_differ(first, about["code"]).items():
                yield f"{label}: {name}", diff


def _differing(sides: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    names = dict.fromkeys(name for side in sides for name in side)
    values = {name: tuple(side.get(name) for side in sides) for name in names}
    return {name: each for name, each in values.items() if any(value != each[0] for value in each)}


def _results(runs: Sequence[RunSummary], rows: Sequence[Sequence[Row]]) -> dict[str, Values]:
    metrics = dict.fromkeys(run.metric for run in runs if run.metric)
    tests = dict.fromkeys(name for run in runs for name in run.test or {})
    results: dict[str, Values] = {"status": tuple(run.status for run in runs), "steps": tuple(run.step for run in runs)}
    for metric in metrics:
        results[f"best {metric}"] = tuple(run.best if run.metric == metric else None for run in runs)
    for name in tests:
        results[f"test {name}"] = tuple((run.test or {}).get(name) for run in runs)
    if any(run.findings is not None for run in runs):
        results["findings"] = tuple(None if run.findings is None else sum(run.findings.values()) for run in runs)
    results["last training loss"] = tuple(next(_values(reversed(side), "loss"), None) for side in rows)
    results["seconds"] = tuple(run.seconds for run in runs)
    results["samples per second"] = tuple(
        statistics.median(rates) if (rates := list(_values(side, "samples_per_second"))) else None for side in rows
    )
    return results


def _values(rows: Sequence[Row] | Iterator[Row], name: str) -> Iterator[float]:
    return (row.values[name] for row in rows if row.kind == "train" and name in row.values)


def parting(other: str, here: Sequence[Row], there: Sequence[Row]) -> Parting:
    """A training loss is the mean since the row before: it is compared only where both rows begin and end alike."""
    left, right = _losses(here), _losses(there)
    common = [key for key in left if key in right]
    for count, key in enumerate(common, 1):
        # Equal texts are equal floats, bit by bit; nan equals nan here.
        if repr(left[key]) != repr(right[key]):
            kind: Literal["train", "valid"] = "train" if key[2] == "train" else "valid"
            return Parting(other, count, key[0], kind, left[key], right[key])
    return Parting(other, len(common))


def _losses(rows: Sequence[Row]) -> dict[tuple[int, int, str], float]:
    """(step, the step of the row before, kind) -> loss, in the order of steps; training before validation."""
    found: dict[tuple[int, int, str], float] = {}
    before = 0
    for row in sorted(rows, key=lambda row: (row.step, row.kind != "train")):
        if "loss" in row.values:
            found[row.step, before if row.kind == "train" else 0, row.kind] = row.values["loss"]
        if row.kind == "train":
            before = row.step
    return found
