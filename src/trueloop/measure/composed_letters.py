"""Accented letters as one character or as a letter and a mark: do two texts write the same letters differently?

The two forms look the same and are different characters. A text of one program has one of them.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["Forms", "different_forms"]

MOST: Final = 20_000  # cells
LEAST: Final = 20  # accented letters of each text
OTHERS: Final = 0.02  # of them are in the other form, at most
SAME: Final = 0.7  # of the letters of each text are letters of the other one


class Forms(NamedTuple):
    here: str  # an example
    there: str


def different_forms(first: Iterable[str], second: Iterable[str], least: int = LEAST) -> Forms | None:
    """Whether one of two texts has its accented letters composed, and the other one apart."""
    (one, one_apart), (other, other_apart) = (_accented(cells) for cells in (first, second))
    if min(one.total() + one_apart.total(), other.total() + other_apart.total()) < least:
        return None
    if _mostly(one_apart, one) and _mostly(other, other_apart) and _alike(one_apart, other):
        return Forms(*_examples(one_apart, other)[::-1])
    if _mostly(one, one_apart) and _mostly(other_apart, other) and _alike(one, other_apart):
        return Forms(*_examples(other_apart, one))
    return None


def _accented(cells: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Letters that are written as one character, and letters that are written apart."""
    composed: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for cell, _ in zip(cells, range(MOST), strict=False):
        if cell.isascii():
            continue
        written = Counter(cell)
        for letter, count in Counter(unicodedata.normalize("NFC", cell)).items():
            if len(unicodedata.normalize("NFD", letter)) > 1:
                composed[letter] += min(count, written[letter])
                apart[letter] += count - min(count, written[letter])
    return +composed, +apart


def _mostly(letters: Counter[str], others: Counter[str]) -> bool:
    return letters.total() > 0 and others.total() <= OTHERS * letters.total()


def _alike(one: Counter[str], other: Counter[str]) -> bool:
    return all(sum(a[letter] for letter in b) >= SAME * a.total() for a, b in ((one, other), (other, one)))


def _examples(apart: Counter[str], composed: Counter[str]) -> tuple[str, str]:
    """Of the most frequent common letter: composed, apart."""
    letter = max(sorted(apart.keys() & composed.keys()), key=lambda each: min(apart[each], composed[each]))
    return ascii(letter), ascii(unicodedata.normalize("NFD", letter))
