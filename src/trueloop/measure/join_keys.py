"""Keys of one file that name rows of another file: as they are written, and after a change of their spelling."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["MissedKeys", "missed_keys"]

LEAST: Final = 20  # different keys of each file
MOST: Final = 50_000  # rows
UNIQUE: Final = 0.99  # of the rows of the file that is looked up have a key of their own
MISSED: Final = 0.9  # of the rows find their key as it is written, at most
FOUND: Final = 0.95  # after the change, at least
OF_MISSED: Final = 0.8  # of the rows that do not find their key find it after the change, at least
COUNTERS: Final = ("id", "index", "idx", "row", "number", "nr", "no", "n", "key")  # each file counts its own rows

_CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "leading zeros": lambda key: key.lstrip("0") or "0" if key.isdigit() else key,
    "upper and lower case": str.lower,
    "blanks": lambda key: re.sub(r"\s+", "", key),
    "a decimal point": lambda key: key[:-2] if re.fullmatch(r"-?\d+\.0", key) else key,
    "the form of accented letters": lambda key: unicodedata.normalize("NFKC", key),
    "hyphens and underscores": lambda key: re.sub(r"[\s_-]+", "-", key),
    "quotes": lambda key: key.strip("'\""),
}


class MissedKeys(NamedTuple):
    """A column of the first table whose keys are in the second table only in a different spelling."""

    column: str
    matched: float  # share of the rows of the first table whose key is in the second one
    alike: float  # the same, after the change
    change: str
    example: str  # key of the first table
    entry: str  # of the second one


def missed_keys(table: Table, lookup: Table) -> MissedKeys | None:
    """Of the columns that both tables have, one of which names the rows of the second table."""
    if not (table.named and lookup.named and lookup.complete):
        return None
    named = {_plain(column.name): column for column in lookup.columns}
    for column in table.columns:
        same = named.get(_plain(column.name))
        keys, entries = (None, None) if same is None else (_keys(column), _keys(same))
        if keys is None or entries is None or len(set(entries)) < max(LEAST, UNIQUE * len(entries)):
            continue
        if _plain(column.name) in COUNTERS and all(key.isdigit() for key in entries):
            continue
        found = _missed(keys, set(entries))
        if found is not None:
            return found._replace(column=column.name)
    return None


def _plain(name: str) -> str:
    """Item_ID and item name the same."""
    return re.sub(r"(?<=\w)(id|code|key|no)$", "", re.sub(r"[\W_]+", "", name).lower())


def _keys(column: Values) -> list[str] | None:
    """Words, or whole numbers as they are written."""
    if column.kind == "digest":
        return None
    if column.numbers is None:
        keys = column.words or []
    elif column.spelled is not None:
        keys = column.spelled
    elif column.kind == "text" and _are_whole(column.numbers):
        keys = [str(int(number)) for number in column.numbers[:MOST]]
    else:
        return None
    return [key for key in keys[:MOST] if key]


def _are_whole(numbers: NDArray[numpy.float64]) -> bool:
    return bool(numpy.isfinite(numbers).all()) and bool((numbers == numpy.round(numbers)).all())


def _missed(keys: list[str], entries: set[str]) -> MissedKeys | None:
    if len(set(keys)) < LEAST or len(set(keys) & entries) == len(set(keys)):
        return None
    matched = sum(key in entries for key in keys) / len(keys)
    if matched > MISSED:
        return None
    for name, change in _CHANGES.items():
        changed = {change(entry): entry for entry in entries}
        alike = sum(change(key) in changed for key in keys) / len(keys)
        found = alike >= max(FOUND, matched + OF_MISSED * (1 - matched))
        if found and len(changed) >= UNIQUE * len(entries):  # two entries do not become one
            example = next(key for key in keys if key not in entries and change(key) in changed)
            return MissedKeys("", matched, alike, name, example, changed[change(example)])
    return None
