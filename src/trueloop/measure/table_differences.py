"""What differs between columns of one name in two files: units, codes, formats, a constant, the order of columns."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.composed_letters import different_forms
from trueloop.measure.distributions import distance
from trueloop.measure.exchanged_days import exchanged_days
from trueloop.measure.lost_points import lost_points
from trueloop.measure.rounded_times import rounded_times
from trueloop.measure.tables import Table, Values
from trueloop.measure.unit_names import fits_name

__all__ = ["Difference", "differences", "distance", "forms_differ", "group_differences", "mostly", "single_file"]

LEAST: Final = 40  # rows in each file
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
FAR: Final = 5.0  # times larger: another unit, whatever it is
APART: Final = 3.0  # interquartile ranges, on a logarithmic scale: the two columns hardly overlap
KNOWN_APART: Final = 1.0  # the same for a factor between two units that are both in use
ALIKE: Final = 0.35  # interquartile ranges: difference of the quantiles of one shape
SAME_SCALE: Final = 0.2  # logarithm of the ratio of two interquartile ranges
NEAR: Final = 0.04  # of a factor between two units
UNITS: Final = {
    25.4: "mm and inches", 2.54: "cm and inches", 0.3048: "m and feet", 1.609344: "miles and km",
    2.20462: "kg and pounds", 3.6: "m/s and km/h", 1.852: "knots and km/h", 1.94384: "m/s and knots",
    4.184: "kcal and kJ", 57.29578: "radians and degrees", 28.3495: "ounces and grams", 3.78541: "gallons and liters",
    18.016: "mmol/L and mg/dL", 10.0: "a factor of 10", 100.0: "fractions and percent", 1000.0: "a factor of 1,000",
    60.0: "minutes and seconds", 3600.0: "hours and seconds", 24.0: "days and hours",
    365.25: "years and days", 1e6: "a factor of 1,000,000",
}  # fmt: skip
TEMPERATURES: Final = "degrees Celsius and Fahrenheit and kelvin"
STUCK: Final = 0.9  # share of the most frequent value of a column that does not move
MOVING: Final = 0.65  # the same of one that does
RARE: Final = 0.1  # or that value is rare in it: rain is mostly 0
DISTINCT: Final = 10  # values of a measured quantity
MOST_CODES: Final = 100
EXPECTED: Final = 10  # rows with a code that a table lacks: fewer may be missing by chance
COARSE: Final = 15  # whole numbers that are left of a measured quantity
PART: Final = 0.1  # of the rows
OFTEN: Final = 0.2
WRAPPED: Final = (2.0**8, 2.0**16)  # numbers that 8 and 16 bits count
FULL: Final = 0.9  # of the range is reached
TURNS: Final = 4  # ranges of the bits that a column reaches over
BEYOND: Final = 0.05  # of the values: those that do not fit
DIFFERENT: Final = 0.5  # distance of two distributions (Kolmogorov-Smirnov)
EQUAL: Final = 0.12
MOST_MOVED: Final = 24  # columns
DENSE: Final = 0.5  # of the numbers that float32 has in a range

Floats = NDArray[numpy.float64]


class Difference(NamedTuple):
    kind: str  # as in `event/files.py`: order, exchanged, constant, units, ...
    column: str
    here: str  # what the first table has
    there: str
    factor: float = 0.0
    units: str = ""  # that differ by this factor


def differences(first: Table, second: Table) -> list[Difference]:
    """Of two tables with the same columns, each difference that no sample of one population has."""
    if min(first.rows, second.rows) < LEAST:
        return []
    pairs = [(column, second.column(column.name)) for column in first.columns if column.name in second.names]
    found = [difference for pair in pairs if (difference := _compare(*pair)) is not None]
    if first.named and second.named and first.names != second.names and set(first.names) == set(second.names):
        moved = next(name for name, other in zip(first.names, second.names, strict=True) if name != other)
        found.append(Difference("order", moved, ", ".join(first.names), ", ".join(second.names)))
    return found + _exchanged(first, second)


def group_differences(table: Table, rows: NDArray[numpy.int64], others: NDArray[numpy.int64]) -> list[Difference]:
    """Between two parts of one table: only codes and formats, because amounts may depend on the group."""
    found = []
    for column in table.columns:
        parts = [_part(column, each) for each in (rows, others)]
        difference = _compare(*parts) if column.kind != "digest" else None
        if difference is not None and difference.kind in ("base", "percent", "comma", "date", "accents"):
            found.append(difference)
    return found


def single_file(table: Table) -> list[Difference]:
    """What needs no second file: dates that sort wrongly as text or have the day first, numbers that float32 rounds
    or that lost their decimal point."""
    found = []
    for column in table.columns:
        if column.numbers is not None and (times := rounded_times(column.numbers)) is not None:
            found.append(Difference("times", column.name, f"{times.step:,}", f"{times.equal:.0%}"))
        if column.words is not None and column.kind != "digest" and not table.lines:
            kind = _date_format(column.words)
            if kind not in (None, "year-month-day") and len(set(column.words)) >= DISTINCT:
                found.append(Difference("text date", column.name, f"{kind} ({column.words[0]})", ""))
            swapped = exchanged_days(column.words)
            if swapped is not None:
                found.append(Difference("day month", column.name, f"{swapped.rows:,} dates such as {swapped.example}",
                                        f"{swapped.before:,} times", 0.0, f"{swapped.after:,}"))  # fmt: skip
            first = _first_part(column.words)
            if first is not None:
                found.append(Difference(first[0], column.name, first[1], ""))
        elif column.numbers is not None and column.kind in ("text", "float64"):
            values = column.numbers[numpy.isfinite(column.numbers)]
            if (lost := lost_points(values)) is not None:
                found.append(Difference("point", column.name, f"{lost.share:.1%} of the values, {_range(lost.large)}",
                                        _range(lost.usual), 0.0, f"{10**lost.decimals:,}"))  # fmt: skip
            exact, left = (len(numpy.unique(v)) for v in (values, values.astype(numpy.float32)))
            if len(values) >= LEAST and not _whole(values) and left < exact / 2 and numpy.abs(values).max() > 2**24:
                found.append(Difference("precision", column.name, f"{exact:,} different values around {values[0]:.10g}",
                                        f"{left:,} are left"))  # fmt: skip
        elif column.numbers is not None and column.kind == "float32":
            found += _collapsed(column.name, column.numbers)
    return found


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:g} to {ends[1]:g}"


def _collapsed(name: str, values: Floats) -> list[Difference]:
    """Consecutive whole numbers that are too large for float32: neighbors have become one number."""
    if not numpy.isfinite(values).all() or values.min() < 2**24 or not _whole(values):
        return []
    low, high = float(values.min()), float(values.max())
    step = float(numpy.spacing(numpy.float32(low)))
    left = len(numpy.unique(values))
    if left < DISTINCT or left < DENSE * (high - low) / step:  # measured amounts are far apart
        return []
    numbers = f"{high - low + 1:,.0f} whole numbers from {low:.0f} to {high:.0f}"
    return [Difference("collapsed", name, numbers, f"{left:,}", step)]


def _first_part(cells: list[str]) -> tuple[str, str] | None:
    """Whether dates such as 31/01/2020 begin with the day or with the month, if some of them show it."""
    parts = [re.match(r"(\d{1,2})([/.-])(\d{1,2})\2\d{2,4}\b", cell) for cell in cells if cell]
    if len(parts) < LEAST or not all(parts):
        return None
    numbers = [(int(found[1]), int(found[3])) for found in parts if found is not None]
    largest = [max(pair[index] for pair in numbers) for index in (0, 1)]
    both = sum(max(pair) <= 12 and pair[0] != pair[1] for pair in numbers) / len(numbers)
    example = next((cell for cell, pair in zip(filter(None, cells), numbers, strict=True) if max(pair) > 12), "")
    if both < OFTEN / 2 or (largest[0] > 12) == (largest[1] > 12) or max(largest) > 31:
        return None
    return "day first" if largest[0] > 12 else "month first", example


def _part(column: Values, rows: NDArray[numpy.int64]) -> Values:
    if column.numbers is not None:
        return Values(column.name, column.numbers[rows])
    words = [(column.words or [])[row] for row in rows]
    return Values(column.name, None, words)


def _compare(first: Values, second: Values) -> Difference | None:
    if "digest" in (first.kind, second.kind):
        return None
    if first.kind == second.kind == "channel":
        a, b = (column.numbers for column in (first, second))
        if a is None or b is None or not (numpy.isfinite(a).all() and numpy.isfinite(b).all()):
            return None
        found = _constant(a, b) or _units(a, b, first.name)
        return None if found is None else found._replace(column=first.name)
    if first.numbers is not None and second.numbers is not None:
        a, b = (column[numpy.isfinite(column)] for column in (first.numbers, second.numbers))
        if min(len(a), len(b)) < LEAST:
            return None
        found = _direction(a, b) or _constant(a, b) or _base(a, b) or _percent(a, b) or _wrapped(a, b)
        found = found or _rounded(a, b) or _units(a, b, first.name)
    elif first.words is not None and second.words is not None:
        found = _spelled(first.words, second.words)
    else:
        found = _comma(first, second)
    return None if found is None else found._replace(column=first.name)


# -- numbers --


def _constant(a: Floats, b: Floats) -> Difference | None:
    (value, often), (_, other) = _mode(a), _mode(b)
    if often < other:
        turned = _constant(b, a)
        return None if turned is None else turned._replace(here=turned.there, there=turned.here)
    moves = other <= MOVING or (b == value).mean() <= RARE
    if often < STUCK or not moves or len(numpy.unique(b)) < DISTINCT or _whole(b):
        return None
    inside = b.min() <= value <= b.max()
    return Difference("constant", "", f"{value:g} in {often:.0%} of the rows", mostly(b)) if inside else None


def _direction(a: Floats, b: Floats) -> Difference | None:
    """A time that runs forward in one file and backward in the other."""
    signs = [_monotone(values) for values in (a, b)]
    if set(signs) != {1, -1}:
        return None
    words = {1: "rises from row to row", -1: "falls from row to row"}
    return Difference("direction", "", words[signs[0]], words[signs[1]])


def _monotone(values: Floats) -> int:
    steps = numpy.diff(values)
    return 1 if bool((steps > 0).all()) else -1 if bool((steps < 0).all()) else 0


def _base(a: Floats, b: Floats) -> Difference | None:
    """Codes that begin at 0 in one file and at 1 in the other, and are otherwise the same."""
    codes, others = numpy.unique(a), numpy.unique(b)
    if not _whole(a) or not _whole(b) or not 2 <= len(codes) == len(others) <= MOST_CODES:
        return None
    if {codes[0], others[0]} != {0.0, 1.0} or not numpy.array_equal(codes - codes[0], others - others[0]):
        return None
    if min(len(a), len(b)) < 3 * len(codes) or not (_is_missed(codes, a, b) and _is_missed(others, b, a)):
        return None
    return Difference("base", "", f"{codes[0]:g} to {codes[-1]:g}", f"{others[0]:g} to {others[-1]:g}")


def _is_missed(codes: Floats, a: Floats, b: Floats) -> bool:
    """The code at an end that only `a` has is frequent there, so `b` does not lack it by chance, as a count may."""
    end = codes[0] if codes[0] == 0 else codes[-1]
    return bool((a == end).mean() * len(b) >= EXPECTED)


def _percent(a: Floats, b: Floats) -> Difference | None:
    """Fractions and percent in one column: of one file only."""
    if _top(a) < _top(b):
        turned = _percent(b, a)
        return None if turned is None else turned._replace(here=turned.there, there=turned.here)
    fractions = b.min() >= 0 and b.max() <= 1 and len(numpy.unique(b)) >= DISTINCT
    if not fractions or a.min() < 0 or not 20 < a.max() <= 100:
        return None
    small = a <= 1
    share = 1 - small.mean()
    if not PART <= share <= 1 - PART or distance(a[small], b) > EQUAL + 1 / len(b) ** 0.5:
        return None
    if distance(a[~small] / 100, b) > 2 * EQUAL + 1 / len(b) ** 0.5:
        return None
    return Difference("percent", "", f"{share:.0%} of the values are above 1, up to {a.max():g}", mostly(b), share)


def _wrapped(a: Floats, b: Floats) -> Difference | None:
    """Whole numbers that are negative in one file only, where they were too large for the bits of a signed integer; or
    numbers with fractions, some of them negative, that were stored in unsigned integers."""
    if a.min() >= 0:
        turned = None if b.min() >= 0 else _wrapped(b, a)
        turned = turned or (_began_anew(b, a) if a.max() > b.max() else None)
        found = None if turned is None else turned._replace(here=turned.there, there=turned.here)
        return found or _began_anew(a, b)
    if b.min() < 0 or not _whole(b):
        return None
    if found := _began_anew(a, b):
        return found
    cast = not _whole(a)  # fractions are cut off first
    a = numpy.trunc(a) if cast else a
    for numbers in WRAPPED:
        inside = a.min() >= -numbers / 2 and a.max() < numbers / 2 and b.max() < numbers
        beyond = (b >= numbers / 2).mean()
        if not inside or beyond < BEYOND or (a < 0).mean() < BEYOND:
            continue
        reach = 2 * numpy.abs(a).max() + 2  # no number lies between those that are small and those that were negative
        gap = reach < numbers / 4 and not ((b > reach) & (b < numbers - reach)).any()
        slack = 1.4 * (1 / len(a) + 1 / len(b)) ** 0.5  # two samples of one population are closer than this
        near = NEAR + slack
        if (
            (gap or not cast)
            and distance(a % numbers, b % numbers) < near
            and distance(a, b) > (1 if cast else 2) * near
        ):
            bits = "8 bits" if numbers == WRAPPED[0] else "16 bits"
            return Difference(
                "wrapped", "", f"{(a < 0).mean():.0%} negative values", f"values up to {b.max():g}", 0.0, bits
            )
    return None


def _began_anew(a: Floats, b: Floats) -> Difference | None:
    """Whole numbers that leave the range of 8 or 16 bits and begin at its other end again, perhaps several times, in
    the first file only."""
    if b.min() < 0 or not _whole(a) or not _whole(b):
        return None
    for numbers, share in product(WRAPPED, (0.0, 0.5)):
        low = -share * numbers
        high = low + numbers
        full = a.min() >= low and low + FULL * numbers <= a.max() < high and (a.min() < 0) == (low < 0)
        if not full or (b >= numbers).mean() < BEYOND or b.max() >= TURNS * numbers:
            continue
        near = NEAR + 1.4 * (1 / len(a) + 1 / len(b)) ** 0.5
        unit = b * ((a.max() - a.min()) / b.max()) + a.min()
        if distance(a, (b - low) % numbers + low) < near and min(
            distance(a, other) for other in (b, unit, b.clip(low, high - 1))
        ) > 2 * near:  # fmt: skip
            bits = "8 bits" if numbers == WRAPPED[0] else "16 bits"
            here = f"{(a < 0).mean():.0%} negative values" if low else f"values up to {a.max():g}"
            return Difference("wrapped", "", here, f"values up to {b.max():g}", 0.0, bits)
    return None


def _rounded(a: Floats, b: Floats) -> Difference | None:
    """Whole numbers in one file, where the other has decimals, on one scale."""
    if len(numpy.unique(a)) < len(numpy.unique(b)):
        turned = _rounded(b, a)
        return None if turned is None else turned._replace(here=turned.there, there=turned.here)
    few = len(numpy.unique(b))
    fractions = (a != numpy.round(a)).mean() > STUCK
    if not fractions or not _whole(b) or not 2 <= few <= COARSE or len(numpy.unique(a)) < DISTINCT * few:
        return None
    alike = abs(a.mean() - b.mean()) < 0.5 * a.std() and 0.5 < b.std() / max(1e-9, a.std()) < 2
    return (
        Difference("rounded", "", f"{len(numpy.unique(a))} different values", f"{few} whole numbers") if alike else None
    )


def _units(a: Floats, b: Floats, name: str) -> Difference | None:
    if len(numpy.unique(a)) < DISTINCT or len(numpy.unique(b)) < DISTINCT or _counts(a) or _counts(b):
        return None
    units = {factor: units for factor, units in UNITS.items() if fits_name(name, units)}
    return _scaled(a, b, units) or (_temperature(a, b) if fits_name(name, TEMPERATURES) else None)


def _scaled(a: Floats, b: Floats, units: dict[float, str]) -> Difference | None:
    """The same shape on a logarithmic scale, elsewhere."""
    if (a > 0).mean() < 0.95 or (b > 0).mean() < 0.95:
        return None
    logs, others = numpy.log(a[a > 0]), numpy.log(b[b > 0])
    quantiles, elsewhere = numpy.quantile(logs, QUANTILES), numpy.quantile(others, QUANTILES)
    spread = max(1e-9, quantiles[3] - quantiles[1])
    shift = float(elsewhere[2] - quantiles[2])
    noise = 3 * spread * (1 / len(a) + 1 / len(b)) ** 0.5
    if numpy.abs((elsewhere - quantiles) - shift).max() > ALIKE * spread + noise:
        return None
    factor = float(numpy.exp(abs(shift)))
    unit = min(units, key=lambda known: abs(numpy.log(known if known > 1 else 1 / known) - abs(shift)))
    distance = abs(numpy.log(unit if unit > 1 else 1 / unit) - abs(shift))
    known, named = distance <= NEAR + noise / 3, distance <= NEAR  # a wrong name would mislead
    if abs(shift) >= (KNOWN_APART if known else APART) * spread and factor >= (1.5 if known else FAR):
        return Difference("units", "", mostly(a), mostly(b), factor, units[unit] if named else "")
    return None


def _temperature(a: Floats, b: Floats) -> Difference | None:
    """Celsius in one file, Fahrenheit or Kelvin in the other."""
    (low, middle, high), (low_b, middle_b, high_b) = (numpy.quantile(c, (0.25, 0.5, 0.75)) for c in (a, b))
    spread, other = max(1e-9, high - low), max(1e-9, high_b - low_b)
    for scale, offset in ((1.0, 273.15), (1.8, 32.0)):
        for (m, s), (n, t) in (((middle, spread), (middle_b, other)), ((middle_b, other), (middle, spread))):
            same = abs(numpy.log(t / s) - numpy.log(scale)) < SAME_SCALE and abs(n - (scale * m + offset)) < ALIKE * t
            if same and abs(n - m) > 1.5 * max(s, t):
                return Difference("units", "", mostly(a), mostly(b), scale, "degrees of temperature")
    return None


# -- words --


def _spelled(first: list[str], second: list[str]) -> Difference | None:
    turns = [1 if a < b else -1 for cells in (first, second) for a, b in (cells[:2],)]
    ordered = [all((x < y) == (turn > 0) and x != y for x, y in pairwise(cells))
               for cells, turn in zip((first, second), turns, strict=True)]  # fmt: skip
    if all(ordered) and turns[0] != turns[1]:
        return Difference("direction", "", f"{first[0]} to {first[-1]}", f"{second[0]} to {second[-1]}")
    found = _separator(first, second) or _padding(first, second) or _dates(first, second) or _spelling(first, second)
    return found or forms_differ(first, second)


def forms_differ(first: Iterable[str], second: Iterable[str]) -> Difference | None:
    """Texts with the same accented letters, composed in one and apart in the other."""
    forms = different_forms(first, second)
    return None if forms is None else Difference("accents", "", *forms)


def _separator(first: list[str], second: list[str]) -> Difference | None:
    """Several values in a cell, separated by one sign in one file and by another in the other."""
    vocabulary = [{word for cell in cells for word in re.findall(r"\w+", cell)} for cells in (first, second)]
    if len(vocabulary[0] & vocabulary[1]) < 0.6 * min(map(len, vocabulary)):
        return None
    signs = [_signs(cells) for cells in (first, second)]
    for sign, often in signs[0].items():
        if often >= OFTEN and not signs[1].get(sign):
            for other, again in signs[1].items():
                if again >= OFTEN and not signs[0].get(other):
                    return Difference("separator", "", f"{sign!r} in {often:.0%} of the cells",
                                      f"{other!r} in {again:.0%}")  # fmt: skip
    return None


def _signs(cells: list[str]) -> dict[str, float]:
    """The share of the cells that have a sign between words."""
    counts = Counter(sign for cell in cells for sign in set(re.findall(r"(?<=\w)\s*([|;,/+&])\s*(?=\w)", cell)))
    return {sign: count / len(cells) for sign, count in counts.items()}


def _padding(first: list[str], second: list[str]) -> Difference | None:
    """Numbers in names with leading zeros in one file only: sorted by name, f10 comes before f2."""
    shapes = [_digits(cells) for cells in (first, second)]
    if None in shapes or shapes[0] == shapes[1]:
        return None
    return Difference("padding", "", f"for example {sorted(set(first))[:3]}", f"for example {sorted(set(second))[:3]}")


def _digits(cells: list[str]) -> bool | None:
    """Whether the numbers in names have leading zeros; None if the names do not tell."""
    found = [re.fullmatch(r"(\D*)(\d+)(\D*)", cell) for cell in cells]
    if not all(found):
        return None
    runs = [match[2] for match in found if match is not None]
    if len({(m[1], m[3]) for m in found if m is not None}) > 1:
        return None
    lengths = {len(run) for run in runs}
    if len(lengths) == 1:
        return True if any(run.startswith("0") and len(run) > 1 for run in runs) else None
    return False if not any(run.startswith("0") and len(run) > 1 for run in runs) else None


_DATES: Final = {
    "year-month-day": r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*", "day.month.year": r"\d{1,2}\.\d{1,2}\.\d{4}.*",
    "month/day/year": r"\d{1,2}/\d{1,2}/\d{4}.*", "day-month-year": r"\d{1,2}-\d{1,2}-\d{4}.*",
}  # fmt: skip


def _dates(first: list[str], second: list[str]) -> Difference | None:
    kinds = [_date_format(cells) for cells in (first, second)]
    if None in kinds or kinds[0] == kinds[1]:
        return None
    return Difference("date", "", f"{kinds[0]} ({first[0]})", f"{kinds[1]} ({second[0]})")


def _date_format(cells: list[str]) -> str | None:
    filled = [cell for cell in cells if cell]
    return next((n for n, p in _DATES.items() if filled and all(re.fullmatch(p, c) for c in filled)), None)


def _spelling(first: list[str], second: list[str]) -> Difference | None:
    """Names that are the same but for case, spaces and signs."""
    names, others = set(first), set(second)
    if not 2 <= len(others) <= MOST_CODES or not 2 <= len(names) <= MOST_CODES:
        return None
    new = others - names
    plain = {_plain(name) for name in names}
    if len(new) < DIFFERENT * len(others) or any(_plain(name) not in plain for name in new):
        return None
    example = min(new)
    same = next(name for name in sorted(names) if _plain(name) == _plain(example))
    if unicodedata.normalize("NFC", same) == unicodedata.normalize("NFC", example):
        return Difference("accents", "", ascii(same), ascii(example))
    return Difference("spelling", "", repr(same), repr(example))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFC", name)).lower()


def _comma(first: Values, second: Values) -> Difference | None:
    """Numbers in one file, and in the other words that are numbers with a decimal comma."""
    words = (first.words or second.words or [])[:1000]
    turned = [cell for cell in words if re.fullmatch(r"-?\d+,\d+", cell)]
    if len(turned) < OFTEN * max(1, len(words)) or not all(re.fullmatch(r"-?\d*(,\d+)?", cell) for cell in words):
        return None
    sides = (f"{turned[0]!r}", "numbers with a point")
    return Difference("comma", "", *(sides if first.words is not None else sides[::-1]))


# -- two columns --


def _exchanged(first: Table, second: Table) -> list[Difference]:
    """Columns each of which has the distribution of another of them, and not its own."""
    pairs = [(c, second.column(c.name)) for c in first.columns if c.name in second.names]
    moved = [(a.name, a.numbers, b.numbers) for a, b in pairs if a.numbers is not None and b.numbers is not None]
    moved = [(name, a, b) for name, a, b in moved if _varies(a) and _varies(b) and distance(a, b) > DIFFERENT]
    if not 2 <= len(moved) <= MOST_MOVED:
        return []
    slack = (1 / first.rows + 1 / second.rows) ** 0.5
    places = {}
    for name, _, b in moved:
        near = [other for other, a, _ in moved if other != name and distance(a, b) < EQUAL + slack]
        if len(near) != 1:
            return []
        places[name] = near[0]
    if set(places.values()) != set(places):
        return []
    names = " and ".join(f"`{name}`" for name in places)
    here, there = (_ranges([part[i] for part in moved]) for i in (1, 2))
    return [Difference("exchanged", names, here, there)]


def _varies(values: Floats) -> bool:
    return bool(numpy.isfinite(values).all()) and len(numpy.unique(values)) >= DISTINCT and not _counts(values)


def _ranges(columns: list[Any]) -> str:
    return "; ".join(mostly(values) for values in columns[:3])


def _mode(values: Floats) -> tuple[float, float]:
    unique, counts = numpy.unique(values, return_counts=True)
    best = int(counts.argmax())
    return float(unique[best]), float(counts[best] / len(values))


def _whole(values: Floats) -> bool:
    return bool((values == numpy.round(values)).all())


def _counts(values: Floats) -> bool:
    """A counter: row numbers, ids, times."""
    steps = numpy.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all()) or (
        _whole(values) and len(numpy.unique(values)) == len(values) == values.max() - values.min() + 1
    )


def _top(values: Floats) -> float:
    return float(numpy.quantile(values, 0.99))


def mostly(values: Floats) -> str:
    low, high = numpy.quantile(values, (0.05, 0.95))
    return f"mostly {low:.4g} to {high:.4g}"
