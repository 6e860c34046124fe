"""Units that differ by less than a column's own spread: a column follows from another as in a second file only if
it is converted.

A different distribution alone proves nothing: another site has other distances. But a cost per distance is the same at
both, unless one of them counts miles.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy
from numpy.typing import NDArray

from trueloop.measure.correlation import correlation_of_arrays
from trueloop.measure.distributions import distance
from trueloop.measure.table_differences import Difference, mostly
from trueloop.measure.tables import Table
from trueloop.measure.unit_names import fits_name

__all__ = ["conversions", "in_two_units"]

LEAST: Final = 80  # rows of each part
DISTINCT: Final = 20  # values
DIFFERENT: Final = 3.0  # distance of two samples, in units of chance (Kolmogorov-Smirnov): p < 1e-7
SAME: Final = 1.7  # p > 0.006
RELATED: Final = 0.5  # correlation with the column that it is judged by, in both files
AS_BEFORE: Final = 1.3  # squared errors of a fit of the first file in the second, over those of the second's own fit
WORSE: Final = 1.6  # the same without the conversion, over those with it
SURELY: Final = 6.0  # standard deviations of the difference of the squared errors
MOST_COLUMNS: Final = 16
CONVERSIONS: Final[dict[str, tuple[float, float]]] = {
    "degrees Celsius and Fahrenheit": (1.8, 32.0), "degrees Celsius and kelvin": (1.0, 273.15),
    "miles and km": (1.609344, 0.0), "kg and pounds": (2.20462, 0.0), "cm and inches": (2.54, 0.0),
    "feet and m": (3.28084, 0.0), "m/s and km/h": (3.6, 0.0), "knots and m/s": (1.94384, 0.0),
    "kcal and kJ": (4.184, 0.0), "radians and degrees": (57.29578, 0.0), "mmol/L and mg/dL": (18.016, 0.0),
    "gallons and liters": (3.78541, 0.0), "fractions and percent": (100.0, 0.0), "a factor of 1,000": (1000.0, 0.0),
    "a factor of 10": (10.0, 0.0), "minutes and seconds": (60.0, 0.0), "kW and horsepower": (1.34102, 0.0),
    "hectares and acres": (2.47105, 0.0), "grams and ounces": (28.3495, 0.0),
}  # fmt: skip

Floats = NDArray[numpy.float64]
Rows = NDArray[numpy.int64]


def conversions(
    first: Table, second: Table, rows: Rows | None = None, others: Rows | None = None
) -> Iterator[Difference]:
    """Columns of the second table, or of other rows, that relate to a further column as in the first if converted."""
    names = [c.name for c in first.columns if c.numbers is not None and c.name in second.names]
    names = [name for name in names if second.column(name).numbers is not None][:MOST_COLUMNS]
    a, b = _columns(first, names, rows), _columns(second, names, others)
    if len(names) < 2 or min(map(len, (*a.values(), *b.values()))) < LEAST:
        return
    apart = {name: _apart(a[name], b[name]) for name in names}
    partners = [name for name in names if apart[name] < SAME and numpy.unique(a[name]).size >= DISTINCT]
    for name in names:
        alone = min(_new_in_a_row(side[name]) for side in (a, b))
        if apart[name] * alone**0.5 < DIFFERENT or min(len(numpy.unique(side[name])) for side in (a, b)) < DISTINCT:
            continue
        for units, (scale, offset) in CONVERSIONS.items():
            if not fits_name(name, units):
                continue
            for converted in ((b[name] - offset) / scale, b[name] * scale + offset):
                if _apart(a[name], converted) > SAME:
                    continue
                if any(_fits(a[name], a[other], b[name], converted, b[other]) for other in partners):
                    yield Difference("units", name, mostly(a[name]), mostly(b[name]), scale, units)


def in_two_units(values: Floats, others: Floats, further: Iterable[Floats | None]) -> bool:
    """Whether all further parts have the amounts of one of two parts: prices differ from city to city, and by chance
    two cities differ by a factor between two units."""
    return all(part is None or min(_apart(values, part), _apart(others, part)) < SAME for part in further)


def _fits(x: Floats, y: Floats, raw: Floats, converted: Floats, target: Floats) -> bool:
    """Whether y follows from x in the second file as in the first, if x is converted, and not otherwise."""
    if min(abs(correlation_of_arrays(x, y)), abs(correlation_of_arrays(converted, target))) < RELATED:
        return False
    middle, spread = x.mean(), x.std()
    curve = numpy.polyfit((x - middle) / spread, y, 2)
    own = numpy.polyfit((converted - middle) / spread, target, 2)
    as_is, after, best = (
        (target - numpy.polyval(fit, (values - middle) / spread)) ** 2
        for fit, values in ((curve, raw), (curve, converted), (own, converted))
    )
    worse = as_is - after
    surely = worse.mean() > SURELY * worse.std() / (len(worse) * _new_in_a_row(worse)) ** 0.5
    return bool(after.mean() < AS_BEFORE * best.mean() and as_is.mean() > WORSE * after.mean() and surely)


def _new_in_a_row(values: Floats) -> float:
    """The share of the rows that say something new: an hour is like the hour before, and weeks differ by chance."""
    like = max(0.0, correlation_of_arrays(values[:-1], values[1:]))
    return (1 - like) / (1 + like)


def _columns(table: Table, names: list[str], rows: Rows | None) -> dict[str, Floats]:
    """Rows in which all of them are numbers."""
    columns = [values for name in names if (values := table.column(name).numbers) is not None]
    if not columns:
        return {}
    matrix = numpy.stack(columns, 1)
    matrix = matrix if rows is None else matrix[rows]
    matrix = matrix[numpy.isfinite(matrix).all(1)]
    return dict(zip(names, matrix.T, strict=True))


def _apart(a: Floats, b: Floats) -> float:
    return float(distance(a, b) * numpy.sqrt(len(a) * len(b) / (len(a) + len(b))))
