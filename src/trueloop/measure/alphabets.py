"""Alphabets that a script spells out (ACGT), and the letters of a text that they know: as written, and in any case."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from trueloop.measure.tables import Table

__all__ = ["Letters", "alphabets", "known_letters"]

SMALLEST: Final = 3  # letters
LONGEST: Final = 40
SEQUENCE: Final = 20  # letters without a blank: sequences, not words
LEAST_CELLS: Final = 30
MOST_CELLS: Final = 3000
FOLDED: Final = 0.98  # of the letters are in the alphabet, if case does not count: the text is written in it
LOST: Final = 0.03  # of the letters are not, as written


class Letters(NamedTuple):
    column: str
    known: float  # share of the letters that are in the alphabet as written
    ignoring_case: float
    example: str  # a letter that is not
    entry: str


def alphabets(tree: ast.Module) -> set[frozenset[str]]:
    """Strings, lists and dictionaries of single characters, each once."""
    found = set()
    for node in ast.walk(tree):
        characters = list(_characters(node))
        if SMALLEST <= len(characters) <= LONGEST and len(set(characters)) == len(characters):
            found.add(frozenset(characters))
    return found


def _characters(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= LONGEST:
        yield from node.value
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
        cells = node.keys if isinstance(node, ast.Dict) else node.elts
        values = [cell.value for cell in cells if isinstance(cell, ast.Constant)]
        if len(values) == len(cells) and all(isinstance(value, str) and len(value) == 1 for value in values):
            yield from map(str, values)


def known_letters(known: set[frozenset[str]], table: Table) -> Letters | None:
    """Of a column of sequences that is written in one of the alphabets, if case does not count."""
    one_case = [each for each in known if all(c.isalpha() for c in each) and len({c.isupper() for c in each}) == 1]
    for column in table.columns if one_case else ():
        if column.words is None or column.kind == "digest":
            continue
        cells = [cell.strip() for cell in column.words]
        cells = [cell for cell in cells if re.fullmatch(rf"[A-Za-z*-]{{{SEQUENCE},}}", cell)][:MOST_CELLS]
        if len(cells) < LEAST_CELLS:
            continue
        counts = Counter("".join(cells))
        total = counts.total()
        if any(_share(counts, total, each) > 1 - LOST for each in known):
            continue
        for alphabet in sorted(one_case, key=len):
            folded = {case for letter in alphabet for case in (letter.lower(), letter.upper())}
            ignoring_case = _share(counts, total, frozenset(folded))
            if ignoring_case >= FOLDED:
                example = max((c for c in counts if c in folded and c not in alphabet), key=lambda c: counts[c])
                return Letters(column.name, _share(counts, total, alphabet), ignoring_case, example, example.swapcase())
    return None


def _share(counts: Counter[str], total: int, letters: frozenset[str]) -> float:
    return sum(counts[letter] for letter in letters) / total
