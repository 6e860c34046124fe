"""One curve of several runs, over one axis; with a group, the mean of its runs and a band of one deviation."""

import math
from collections.abc import Sequence
from typing import Any, Final

from trueloop.ui.downsample import bucket_means, curve, smooth
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages.compare import names_of
from trueloop.ui.pages.curves import batch_of, places
from trueloop.ui.run_rows import id_of

__all__ = ["data"]

BUCKETS: Final = 200  # of the axis, in which the runs of a group are averaged
POINTS: Final = 600  # of a curve

Pair = tuple[Sequence[float], Sequence[float]]


def data(library: Library, query: Query) -> dict[str, Any]:
    """`series` is `kind/name`; `x`, `smooth`, `from`, `to` as in `curves`; `group` is a field of the runs."""
    kind, _, metric = query.text("series", "train/loss").partition("/")
    low, high, field = query.number("from"), query.number("to"), query.text("group")
    pairs: dict[str, Pair] = {}
    for name in names_of(query):
        pair = _pair(library, name, kind, metric, query.text("x", "step"), query.number("smooth") or 0.0)
        if pair is not None and len(pair[0]):
            pairs[name] = pair
    if not field:
        drawn = {id_of(name): curve(*pair, POINTS, low, high) for name, pair in pairs.items()}
        return {"runs": {name: {"x": each.x, "y": each.y} for name, each in drawn.items()}}
    members: dict[str, list[Pair]] = {}
    for name, pair in pairs.items():
        row = library.row(name)
        members.setdefault(str(row["fields"].get(field, row.get(field))), []).append(pair)
    return {"groups": {value: band(each, low, high) for value, each in members.items()}}


def _pair(library: Library, name: str, kind: str, metric: str, x: str, weight: float) -> Pair | None:
    columns, _ = library.columns(name)
    with columns.lock:
        pair = columns.column(kind, metric)
        at = places(columns, kind, metric, x, batch_of(library, name) if x == "samples" else None)
        if pair is None or at is None:
            return None
        return list(at), smooth(pair[1], weight) if 0 < weight < 1 else list(pair[1])


def band(pairs: Sequence[Pair], low: float | None, high: float | None) -> dict[str, Any]:
    """Mean and standard deviation over runs, at the middle of each bucket that has a value of every run."""
    begin = max(pair[0][0] for pair in pairs) if low is None else low
    end = min(pair[0][-1] for pair in pairs) if high is None else high
    fewest = min(len(pair[0]) for pair in pairs)
    number = max(1, min(BUCKETS, fewest))
    width = max(end - begin, 0.0) / number
    if width == 0.0:
        return {"x": [], "mean": [], "low": [], "high": [], "n": len(pairs)}
    # The edges stand between the points: the first and the last point are the middle of a bucket.
    edges = [begin - width / 2 + index * width for index in range(number + 2)]
    sides = [bucket_means(*pair, edges) for pair in pairs]
    answer: dict[str, Any] = {"x": [], "mean": [], "low": [], "high": [], "n": len(pairs)}
    for index in range(len(edges) - 1):
        values = [side[index] for side in sides]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            continue
        mean = math.fsum(known) / len(known)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)) if len(known) > 1 else 0.0
        for key, value in (("x", (edges[index] + edges[index + 1]) / 2), ("mean", mean)):
            answer[key].append(value)
        answer["low"].append(mean - std)
        answer["high"].append(mean + std)
    return answer
