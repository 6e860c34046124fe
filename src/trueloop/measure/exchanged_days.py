"""Dates with day and month exchanged wherever that gives a date: a spreadsheet has read them in the wrong order.

Rows in the order of time show it. As written their dates run back again and again; with day and month exchanged in all
dates up to the 12th they do not.
"""

import re
from collections.abc import Iterable
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["ExchangedDays", "exchanged_days"]

LEAST: Final = 60  # rows
BACK: Final = 0.03  # of the steps from date to date run back, as written: of every day, 0.06
FEW: Final = 6  # steps back
STILL: Final = 0.1  # of them do so after the exchange: several series in one file begin anew
LATE: Final = 0.2  # of the dates have a day after the 12th: they cannot be exchanged
_DATE: Final = re.compile(r"(?:(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}))(?:[T ].*)?")


class ExchangedDays(NamedTuple):
    rows: int  # whose day and month are exchanged
    example: str
    before: int  # steps back, as written
    after: int  # with day and month exchanged


def exchanged_days(cells: list[str]) -> ExchangedDays | None:
    parts = [_parts(cell) for cell in cells if cell]
    if len(parts) < LEAST or not all(parts):
        return None
    fields = [each for each in parts if each is not None]
    if not all(_is_date(*each) for each in fields):
        fields = [(year, day, month) for year, month, day in fields]  # 31/12/2020
        if not all(_is_date(*each) for each in fields):
            return None
    turned = [(year, day, month) if day <= 12 else (year, month, day) for year, month, day in fields]
    changed = [index for index, (one, other) in enumerate(zip(fields, turned, strict=True)) if one != other]
    late = sum(day > 12 for _, _, day in fields)
    before, after = _steps_back(fields), _steps_back(turned)
    steps = sum(one != other for one, other in pairwise(fields))
    if not changed or late < LATE * len(fields) or before < max(FEW, BACK * steps) or after > STILL * before:
        return None
    return ExchangedDays(len(changed), [cell for cell in cells if cell][changed[0]], before, after)


def _parts(cell: str) -> tuple[int, int, int] | None:
    """Year and the two other numbers, as they stand."""
    found = _DATE.fullmatch(cell.strip())
    if found is None:
        return None
    year, one, other = (found[1], found[2], found[3]) if found[1] else (found[6], found[4], found[5])
    return int(year), int(one), int(other)


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _steps_back(dates: Iterable[tuple[int, int, int]]) -> int:
    return sum(after < before for before, after in pairwise(dates))
