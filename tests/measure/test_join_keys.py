"""Keys that are looked up in another file: found as written, or only in a different spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueloop.measure.join_keys import MissedKeys, missed_keys
from trueloop.measure.tables import read_tables


def compared(
    folder: Path, keys: list[str], entries: list[str], names: tuple[str, str] = ("code", "code")
) -> MissedKeys | None:
    orders, zones = folder / "orders.csv", folder / "zones.csv"
    orders.write_text("\n".join([f"{names[0]},weight", *(f"{key},{row / 7:.3f}" for row, key in enumerate(keys))]))
    zones.write_text("\n".join([f"{names[1]},name", *(f"{key},zone {row}" for row, key in enumerate(entries))]))
    (table,), (lookup,) = (read_tables(str(path)) for path in (orders, zones))
    return missed_keys(table, lookup)


PADDED = [f"{number:05d}" for number in range(800, 4000, 40)]
NAMES = [f"Station {chr(65 + i % 26)}{i}" for i in range(60)]


@pytest.mark.parametrize(
    ("keys", "entries", "change"),
    [
        (PADDED * 3, [key.lstrip("0") for key in PADDED], "leading zeros"),
        ([key.lstrip("0") for key in PADDED], PADDED, "leading zeros"),
        ([key.lstrip("0") for key in PADDED], [f"{int(key)}.0" for key in PADDED], "a decimal point"),
        (NAMES * 2, [name.upper() for name in NAMES], "upper and lower case"),
        (NAMES * 2, [name.replace(" ", "  ") for name in NAMES], "blanks"),
        (NAMES * 2, [name.replace(" ", "_") for name in NAMES], "hyphens and underscores"),
    ],
)
def test_keys_in_a_different_spelling(tmp_path: Path, keys: list[str], entries: list[str], change: str) -> None:
    found = compared(tmp_path, keys, entries)
    assert found is not None
    assert (found.change, found.alike) == (change, 1.0)
    assert found.matched < 0.1


def test_a_part_of_the_keys(tmp_path: Path) -> None:
    """Only those below 1000 have lost a zero, or those of one shop are in lower case; a few name no row at all."""
    padded = [f"{number:04d}" for number in range(700, 1500, 10)]
    found = compared(tmp_path, [key.lstrip("0") for key in padded] * 3 + ["T01", "T02"], padded)
    assert found is not None
    assert found.change == "leading zeros"
    assert 0.5 < found.matched < 0.7
    mixed = NAMES[:45] + [name.lower() for name in NAMES[45:]]
    found = compared(tmp_path, mixed * 2 + ["unknown"], NAMES)
    assert found is not None
    assert found.change == "upper and lower case"
    assert 0.7 < found.matched < 0.8


def test_a_part_of_the_keys_is_of_something_else(tmp_path: Path) -> None:
    assert compared(tmp_path, PADDED * 3 + [f"9{key}" for key in PADDED], PADDED) is None
    few = [*PADDED * 3, *(f"9{key}" for key in PADDED), PADDED[0].lstrip("0"), PADDED[1].lstrip("0")]
    assert compared(tmp_path, few, PADDED) is None
    assert compared(tmp_path, PADDED * 3 + [f"T{number}" for number in range(4)], PADDED) is None


def test_the_names_of_the_columns_may_differ_in_their_ending(tmp_path: Path) -> None:
    assert compared(tmp_path, PADDED * 2, [key.lstrip("0") for key in PADDED], ("zone", "Zone_ID")) is not None
    assert compared(tmp_path, PADDED * 2, [key.lstrip("0") for key in PADDED], ("zone", "price")) is None


def test_two_files_that_count_their_own_rows(tmp_path: Path) -> None:
    entries = [str(number) for number in range(1, 81)]
    assert compared(tmp_path, [key.rjust(4, "0") for key in entries], entries, ("id", "id")) is None


def test_keys_that_are_found(tmp_path: Path) -> None:
    assert compared(tmp_path, PADDED * 3, PADDED) is None
    assert compared(tmp_path, PADDED[:60] * 3 + ["99999"] * 40, PADDED) is None


def test_keys_of_something_else(tmp_path: Path) -> None:
    assert compared(tmp_path, [f"{i:05d}" for i in range(50_000, 50_080)], [str(i) for i in range(100, 180)]) is None


def test_entries_that_would_become_one(tmp_path: Path) -> None:
    entries = [key.lstrip("0") for key in PADDED] + [f"{key.lstrip('0')}.0" for key in PADDED]
    assert compared(tmp_path, [f"{int(key)}.00" for key in PADDED], entries) is None


def test_codes_with_few_values_are_no_keys(tmp_path: Path) -> None:
    assert compared(tmp_path, ["01", "02", "03"] * 20, ["1", "2", "3"] * 20) is None
