"""Relations between columns that hold exactly in every row of one file, and clearly not in another file of its kind."""

import re
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Invariant", "broken_invariants"]

LEAST: Final = 100  # rows of each file
MOST_ROWS: Final = 4000
MOST_COLUMNS: Final = 14
DISTINCT: Final = 10  # values of an amount
BROKEN: Final = 0.2  # of the rows, at least
MOSTLY: Final = 0.6  # of the rows are in the opposite order: noise turns at most half of them
BY_CHANCE: Final = 0.1  # of the rows, at least, would break it if they were paired at random
EXACT: Final = 2e-3  # of the spread of a sum: rounding
CLEARLY: Final = 0.05
SHARE: Final = 0.05  # of the spread of a sum that a part has at least
MOST_CODES: Final = 200
FEW: Final = 6  # values of a setting, such as a sampling rate
IDENTIFIER: Final = re.compile(r"(?:^|[_\W])(?i:id|idx|index|key|code|nr|no|number|uid)s?$|[a-z]I[dD]$")

Floats = NDArray[numpy.float64]
Columns = dict[str, Floats]


class Invariant(NamedTuple):
    """What holds in one table and not in the other."""

    kind: str  # order, sum, product, code, ratio
    columns: tuple[str, ...]
    holds: str
    fails: str
    in_first: bool = True  # it holds in the first table


def broken_invariants(first: Table, second: Table) -> list[Invariant]:
    """At most one of each kind, for two tables with the same columns."""
    if min(first.rows, second.rows) < LEAST:
        return []
    names = [c.name for c in first.columns if _is_amount(c) and c.name in second.names]
    names = [name for name in names if _is_amount(second.column(name))]
    a, b = ({name: _numbers(table.column(name)) for name in names[:MOST_COLUMNS]} for table in (first, second))
    found: dict[str, Invariant] = {}
    for here, there, in_first in ((a, b, True), (b, a, False)):
        for search in (_orders, _sums, _products, _ratios):
            for each in search(here, there):
                found.setdefault(each.kind, each._replace(in_first=in_first))
    code = _codes(first, second)
    return [*found.values(), *([code] if code else [])]


def _is_amount(column: Values) -> bool:
    """Not a place in an array, such as a point of a signal: these have no meaning of their own."""
    if column.name.endswith("]"):
        return False
    return column.numbers is not None and bool(numpy.isfinite(column.numbers).all())


def _numbers(column: Values) -> Floats:
    assert column.numbers is not None
    return column.numbers[:MOST_ROWS]


def _moving(here: Columns, there: Columns) -> list[str]:
    return [name for name in here if all(len(numpy.unique(side[name])) >= DISTINCT for side in (here, there))]


def _orders(here: Columns, there: Columns) -> Iterator[Invariant]:
    """The start is never after the end. Identifiers have no order that means something."""
    amounts = [name for name in _moving(here, there) if not (IDENTIFIER.search(name) or _counts_rows(here[name]))]
    for low, high in permutations(amounts, 2):
        a, b, c, d = here[low], here[high], there[low], there[high]
        if bool((a > b).any()):
            continue
        shuffled = numpy.mean([(a > numpy.roll(b, by * len(b) // 8)).mean() for by in range(1, 8)])
        share = float((c > d).mean())
        if shuffled >= BY_CHANCE and share >= MOSTLY:
            yield Invariant("order", (low, high), f"`{low}` is never above `{high}` in {len(a):,} rows",
                            f"`{low}` is above `{high}` in {share:.0%} of the rows")  # fmt: skip


def _counts_rows(values: Floats) -> bool:
    return bool((numpy.diff(values) == 1).all())


def _sums(here: Columns, there: Columns) -> Iterator[Invariant]:
    yield from _results("sum", "+", here, there)


def _products(here: Columns, there: Columns) -> Iterator[Invariant]:
    yield from _results("product", "*", here, there)


def _results(kind: str, sign: str, here: Columns, there: Columns) -> Iterator[Invariant]:
    moving = _moving(here, there)
    spreads = {name: (float(here[name].std()), float(there[name].std())) for name in moving}
    for one, other in combinations(moving, 2):
        result, again = (side[one] + side[other] if sign == "+" else side[one] * side[other] for side in (here, there))
        for total in moving:
            spread, their_spread = spreads[total]
            if total in (one, other) or abs(result[0] - here[total][0]) > EXACT * spread:
                continue
            if sign == "+" and min(spreads[one][0], spreads[other][0]) < SHARE * spread:
                continue
            if numpy.abs(result - here[total]).max() > EXACT * spread:
                continue
            share = float((numpy.abs(again - there[total]) > CLEARLY * their_spread).mean())
            if share >= BROKEN:
                text = f"`{total}` = `{one}` {sign} `{other}`"
                yield Invariant(kind, (total, one, other), f"{text} in {len(result):,} rows",
                                f"not so in {share:.0%} of the rows")  # fmt: skip


def _ratios(here: Columns, there: Columns) -> Iterator[Invariant]:
    """A setting of each row (a sampling rate) that another column follows exactly; in the other file it is constant."""
    for setting, amount in permutations(here, 2):
        x, y, u, v = here[setting], here[amount], there[setting], there[amount]
        values, counts = numpy.unique(x, return_counts=True)
        if not 2 <= len(values) <= FEW or counts.min() < SHARE * len(x) or bool((values <= 0).any()):
            continue
        ratio = y / x
        if ratio.max() - ratio.min() > 1e-9 * abs(ratio.max()) or len(numpy.unique(u)) != 1 or u[0] not in values:
            continue
        share = float((v / u != ratio[0]).mean())
        if share >= BROKEN and set(numpy.unique(v)) == set(numpy.unique(y)):
            yield Invariant("ratio", (setting, amount), f"`{amount}` / `{setting}` is {ratio[0]:g} in {len(x):,} rows",
                            f"`{setting}` is {u[0]:g} in all rows, and the ratio is different in {share:.0%} of "
                            "them")  # fmt: skip


def _codes(first: Table, second: Table) -> Invariant | None:
    """Names and their numbers: one number for one name in each file, but not the same ones."""
    words = [c.name for c in first.columns if c.words is not None and c.kind != "digest" and c.name in second.names]
    numbers = [c.name for c in first.columns if _is_amount(c) and c.name in second.names]
    for word in words[:MOST_COLUMNS]:
        for number in numbers[:MOST_COLUMNS]:
            here, there = (_mapping(table.column(word), table.column(number)) for table in (first, second))
            if here is None or there is None or here.keys() != there.keys():
                continue
            moved = sorted(name for name in here if here[name] != there[name])
            if len(moved) >= 2 and set(here.values()) == set(there.values()):
                ours, theirs = (", ".join(f"{name!r} is {each[name]}" for name in moved[:3]) for each in (here, there))
                return Invariant("code", (number, word), ours, theirs)
    return None


def _mapping(words: Values, numbers: Values) -> dict[str, int] | None:
    """Numbers without a gap, from 0 or 1, each of one name."""
    if words.words is None or not _is_amount(numbers):
        return None
    values = _numbers(numbers)
    pairs = set(zip(words.words[:MOST_ROWS], values.tolist(), strict=False))
    names, codes = {name for name, _ in pairs}, {code for _, code in pairs}
    if not 3 <= len(pairs) <= min(MOST_CODES, len(values) / 5) or not len(pairs) == len(names) == len(codes):
        return None
    if min(codes) not in (0, 1) or max(codes) - min(codes) != len(codes) - 1 or any(c != round(c) for c in codes):
        return None
    return {name: int(code) for name, code in pairs}
