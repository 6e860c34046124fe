"""DAT141 lookup-misses-keys: the keys of one file are in the file that they are looked up in, but spelled differently.

What it sees
------------
The data files that the script opened are read once more at the end of the run. A column of one file has the name of a
column that is unique in another file, so that its keys can be looked up there. As written, at most 90 % of the rows
find their key; with leading zeros (or case, blanks, `12.0` for `12`, hyphens, accents) disregarded, 95 % or more do,
and at least four of five of the keys that are missed as written.

Why it hurts
------------
A lookup with a default (`table.get(key, fallback)`, a left join) does not fail: most rows get the fallback, and the
model is trained without the columns of the other file.

Evidence
--------
The column, both files, the share of the rows whose key is found as written and after the change, one key in both
spellings.

Use instead
-----------
    key = row["postcode"].zfill(5)               # one spelling, where each file is read
    missing = sum(key not in table for key in keys) / len(keys)
    assert missing < 0.05, f"{missing:.0%} of the keys are not in the table"

When it is fine
---------------
Not reported: where the script changes the spelling of keys (`zfill`, `lower`, `strip`, `int` of that column), or reads
with functions that make numbers of both (`pandas.read_csv` without `dtype`); fewer than 20 different keys; files in
which two keys become one by the change.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from trueloop.event import KeysMissed, RunEnded, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["LookupMissesKeys"]

_CHANGED_BY: Final = {
    "leading zeros": r"zfill|rjust|lstrip|:0>?\d|%0\d|to_numeric|re\.sub|astype",
    "upper and lower case": r"lower|upper|casefold|capitalize|title|swapcase|IGNORECASE",
    "blanks": r"strip|replace|re\.sub|skipinitialspace|\.split\(\)",
    "a decimal point": r"to_numeric|removesuffix|rstrip|astype|split\(['\"]\.|partition|re\.sub|replace",
    "the form of accented letters": r"unicodedata|unidecode|encode",
    "hyphens and underscores": r"replace|re\.sub|translate|re\.split|partition|split\(['\"][-_]",
    "quotes": r"strip|replace|re\.sub|translate|eval|quotechar|shlex",
}
"""Words in the source of a script that changes keys in this way."""
_NUMBERS: Final = ("leading zeros", "a decimal point")
_MAKES_NUMBERS: Final = r"loadtxt|genfromtxt|read_csv|read_table|fromstring|polars|pyarrow"


class LookupMissesKeys(Rule, code="DAT141", severity=Severity.WARNING):
    not_applicable = "no two data files with a common key were read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[KeysMissed]] = {}

    def on_keys_missed(self, event: KeysMissed) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        if not any(_changes_keys(path, event) for path in paths):
            self._found.setdefault((event.lookup, event.column), []).append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for events in self._found.values():
            event = max(events, key=lambda each: each.rows)
            others = [f"`{each.file}`" for each in events if each is not event]
            yield self.finding(
                event,
                f"{1 - event.matched:.0%} of the {event.rows:,} rows of `{event.file}` do not find their "
                f"`{event.column}` in `{event.lookup}`, spelled differently ({event.change}): `{event.file}` has "
                f"{event.example!r}, `{event.lookup}` {event.entry!r}. Otherwise {event.alike:.0%} would find it."
                + (f" The same holds for {', '.join(others)}." if others else ""),
                fix="Bring the keys of both files to one spelling when they are read, and count the keys that are not "
                "found.",
                evidence={"column": event.column, "file": event.file, "lookup": event.lookup,
                          "found": round(event.matched, 3), "found after the change": round(event.alike, 3)},
            )  # fmt: skip


def _changes_keys(path: str, event: KeysMissed) -> bool:
    source = source_of(path)
    text = "\n".join(source.lines)
    if re.search(_CHANGED_BY[event.change], text):
        return True
    if event.change not in _NUMBERS:
        return False
    if re.search(_MAKES_NUMBERS, text) and "dtype=str" not in text.replace(" ", ""):
        return True
    return any(_may_be_key(argument, event.column, source.tree) for argument in _as_numbers(source.tree))


def _as_numbers(tree: ast.Module) -> Iterator[ast.expr]:
    """What the script makes numbers of, with `int` or `float`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if name in ("int", "float") and node.args:
                yield node.args[0]
            elif name == "map" and len(node.args) > 1 and getattr(node.args[0], "id", "") in ("int", "float"):
                yield ast.Name("values")


def _may_be_key(argument: ast.expr, column: str, tree: ast.Module) -> bool:
    """The column itself, or a variable or a cell that may hold it."""
    constants = {node.value for node in ast.walk(argument) if isinstance(node, ast.Constant)}
    if column in constants:
        return True
    if isinstance(argument, ast.Name):
        return True
    if not isinstance(argument, ast.Subscript) or any(isinstance(value, str) for value in constants):
        return False
    columns = _columns_of(argument.slice, tree)
    return columns is None or column in columns


def _columns_of(index: ast.expr, tree: ast.Module) -> set[str] | None:
    """The names that a variable goes through, in `[row[c] for c in COLUMNS]`; None if they are unknown."""
    if not isinstance(index, ast.Name):
        return None
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.comprehension, ast.For))]
    lists = [_constants(each.iter, tree) for each in loops if getattr(each.target, "id", "") == index.id]
    known = [names for names in lists if names is not None]
    return set().union(*known) if known and len(known) == len(lists) else None


def _constants(listed: ast.expr, tree: ast.Module) -> set[str] | None:
    """The strings of a list, or of the one list that has this name."""
    if isinstance(listed, ast.Name):
        values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
                  and any(getattr(target, "id", "") == listed.id for target in node.targets)]  # fmt: skip
        return _constants(values[0], tree) if len(values) == 1 and not isinstance(values[0], ast.Name) else None
    if not isinstance(listed, (ast.List, ast.Tuple)):
        return None
    names = [node.value for node in listed.elts if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return set(names) if len(names) == len(listed.elts) else None
