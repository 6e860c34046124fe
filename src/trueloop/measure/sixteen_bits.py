"""Counts that fill the range of 16-bit integers, from end to end, though they are stored in a larger type.

All files of a data set may have been written by one faulty export: no other file contradicts them. But a count has no
negative values, and no amount ends at 32,767 by itself, with as many numbers there as anywhere else.
"""

import re
from collections.abc import Iterator
from typing import Final

import numpy
from numpy.typing import NDArray

from trueloop.measure.splits import kind_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table, Values

__all__ = ["counts_beyond_range"]

BITS: Final = 16
SIZE: Final = 2.0**BITS
LEAST: Final = 200  # numbers
REACHED: Final = 0.98  # of the range
EDGE: Final = 1 / 16  # of the range
FILLED: Final = 0.5  # of the mean density, in each end
MOST_EQUAL: Final = 0.02  # of the numbers
LARGER: Final = frozenset(("text", "int32", "int64", "uint32", "float32", "float64"))
COUNTED: Final = re.compile(
    r"counts?|counter|num|number|totals?|amount|sum|population|inhabitants|sales|revenue|price|cost|steps|particles"
    r"|votes|views|visits|clicks|impressions|photons|cells|reads|hits|flux|energy|volume|weight|mass|mileage|distance"
    r"|length|area|power|pressure|salary|income|intensity|concentration|turnover|load"
)
SIGNED: Final = re.compile(
    r"delta|diff|difference|change|net|residual|offset|balance|error|anomaly|growth|log|z|centered|relative|phase|angle"
    r"|heading|bearing|azimuth|direction|hash|seed|id|key|code|crc|checksum|random"
)


def counts_beyond_range(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """The first table of each kind of file whose column counts something and has wrapped around in all of them."""
    reported: set[tuple[str, str]] = set()
    for table in tables:
        for column in table.columns:
            key = kind_of(table.path), column.name
            if key in reported or not _counts_something(column):
                continue
            alike = [c.numbers for t in tables if kind_of(t.path) == key[0] for c in t.columns
                     if c.name == column.name and c.numbers is not None]  # fmt: skip
            if _fills(numpy.concatenate(alike)):
                reported.add(key)
                negative = float(numpy.mean(numpy.concatenate(alike) < 0))
                here = f"{negative:.0%} of its values are negative, and they fill the range of such integers evenly"
                yield Difference("overflowed", column.name, here, "", 0.0, f"{BITS} bits"), table, table


def _counts_something(column: Values) -> bool:
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.name).lower())
    counted = any(map(COUNTED.fullmatch, words)) or words[:1] == ["n"]
    return counted and not any(map(SIGNED.fullmatch, words)) and column.kind in LARGER and column.numbers is not None


def _fills(values: NDArray[numpy.float64]) -> bool:
    """Whole numbers from one end of the range to the other, with no pile of equal numbers and no thin ends."""
    if len(values) < LEAST or not bool(numpy.isfinite(values).all()) or bool((values != numpy.round(values)).any()):
        return False
    low, high = -SIZE / 2, SIZE / 2 - 1
    if values.min() < low or values.max() > high or values.max() - values.min() < REACHED * SIZE:
        return False
    ends = float((values < low + EDGE * SIZE).mean()), float((values > high - EDGE * SIZE).mean())
    most = float(numpy.unique(values, return_counts=True)[1].max()) / len(values)
    return min(ends) >= FILLED * EDGE and most <= MOST_EQUAL
