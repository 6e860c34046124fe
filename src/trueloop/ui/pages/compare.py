"""Runs side by side: what differs in recipe, machine, code and results, and from which step on the losses differ."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from trueloop.errors import Misuse, NotARun
from trueloop.hook import Row
from trueloop.results.plain import as_plain
from trueloop.session.comparison import compare_read
from trueloop.session.verdict import verdict_of
from trueloop.ui.library import Library
from trueloop.ui.metric_columns import MetricColumns
from trueloop.ui.page import Query
from trueloop.ui.pages.runs import differing
from trueloop.ui.run_rows import LONGEST, flat, is_running, read_about, sampled_rows, short, summary_in

__all__ = ["cells", "data", "names_of"]

MOST_RUNS: Final = 60
MOST_ROWS: Final = 200_000
"""Rows of a run that are compared for the first difference; later ones are left out, and the page says so."""


def names_of(query: Query) -> list[str]:
    names = list(dict.fromkeys(query.all("run")))
    if not 2 <= len(names) <= MOST_RUNS:
        raise Misuse(f"Choose 2 to {MOST_RUNS} runs in the table of runs; {len(names)} were named.")
    return names


def data(library: Library, query: Query) -> dict[str, Any]:
    names, group = names_of(query), query.text("group")
    folders = [library.folder(name) for name in names]
    abouts = [read_about(folder) for folder in folders]
    rows, cut = [], []
    series: dict[str, None] = {}
    for name in names:
        columns, complete = library.columns(name)
        with columns.lock:
            rows.append(_rows(columns))
            series |= dict.fromkeys(_series(columns))
        if not complete or len(rows[-1]) >= MOST_ROWS:
            cut.append(name)
    summaries = tuple(
        summary_in(folder, about, sampled_rows(folder), held=is_running(folder))
        for folder, about in zip(folders, abouts, strict=True)
    )
    try:
        found = compare_read(summaries, abouts, rows)
        verdict = verdict_of(summaries, [group] if group else ())
    except (AttributeError, TypeError, ValueError, KeyError) as error:  # a stranger's run.json has other types
        raise NotARun(f"run.json of one of these runs is damaged ({str(error)[:120]}). Nothing was compared.") from None
    shown = [library.row(name) for name in names]
    sides: dict[str, Any] = {"recipe": cells(found.recipe), "machine": cells(found.machine), "results": found.results}
    sides |= {"code": found.code, "verdict": asdict(verdict)}
    losses = [{**asdict(each), "sentence": each.sentence(names[0])} for each in found.partings]
    plain = as_plain({**sides, "losses": losses, "labels": found.labels, "cut": cut})
    fields = differing([row["fields"] for row in shown])
    grouped = groups(shown, group)
    return {**plain, "runs": shown, "fields": fields, "series": list(series), "groups": grouped}


def cells(values: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """One value of each run by field. A mapping becomes a field for each of its names that differs."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, each in values.items():
        sides = [dict(flat({name: value})) for value in each]
        for inner in dict.fromkeys(inner for side in sides for inner in side):
            row = tuple(short(side.get(inner)) for side in sides)
            if any(value != row[0] for value in row):
                found[str(inner)[:LONGEST]] = row
    return found


def _series(columns: MetricColumns) -> Iterator[str]:
    for kind in ("train", "valid"):
        table = columns.tables.get(kind)
        yield from (f"{kind}/{name}" for name in (table.columns if table else ()) if name not in ("seconds", "epoch"))


def _rows(columns: MetricColumns) -> list[Row]:
    """Rows of training and validation; only the values that are compared."""
    rows: list[Row] = []
    for kind in ("train", "valid"):
        pair = columns.column(kind, "loss")
        if pair is None:
            continue
        names = ("seconds", "samples_per_second")
        others = {name: found for name in names if (found := columns.at_rows(kind, "loss", name)) is not None}
        for number in range(min(MOST_ROWS, len(pair[1]))):
            values = {"loss": pair[1][number], **{name: found[number] for name, found in others.items()}}
            rows.append(Row("train" if kind == "train" else "valid", pair[0][number], 0.0, values))
    return sorted(rows, key=lambda row: row.step)


# -- groups --


def groups(runs: Sequence[Mapping[str, Any]], field: str) -> list[dict[str, Any]]:
    """Runs with the same value of a field: mean, standard deviation and number of their best metric."""
    if not field:
        return []
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        value = run["fields"].get(field, run.get(field))
        found.setdefault((str(value), str(run.get("metric") or "")), []).append(run)
    return [
        {"value": value, "metric": metric, "runs": [run["id"] for run in members], **_spread(members)}
        for (value, metric), members in found.items()
    ]


def _spread(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    bests = [run["best"] for run in runs if isinstance(run.get("best"), float) and math.isfinite(run["best"])]
    if not bests:
        return {"n": 0, "mean": None, "std": None, "higher": True}
    mean = math.fsum(bests) / len(bests)
    std = math.sqrt(math.fsum((best - mean) ** 2 for best in bests) / (len(bests) - 1)) if len(bests) > 1 else None
    return {"n": len(bests), "mean": mean, "std": std, "higher": bool(runs[0].get("higher", True))}
