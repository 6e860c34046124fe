"""Vocabulary files, and the words of a text that they know: as written, and if upper and lower case are the same."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from trueloop.measure.tables import Table

__all__ = ["Coverage", "Vocabulary", "case_setting", "coverage", "read_vocabularies"]

MOST_BYTES: Final = 2**22
LEAST_ENTRIES: Final = 20
LEAST_WORDS: Final = 200  # of a text, with letters
MOST_WORDS: Final = 50_000
UNIQUE: Final = 0.98  # of the entries
_AROUND: Final = ".,:;!?\"'()"
SPECIAL: Final = re.compile(r"[<\[](unk|pad|s|eos|bos|cls|oov|blank)[>\]]", re.IGNORECASE)
SETTING: Final = r"lower|lowercase|lower_case|do_lower_case|do_lower|to_lower|lowercased|uncased|lowercasing"
KNOWN: Final = 0.8  # of the words, if case does not count: the vocabulary is that of this text


class Vocabulary(NamedTuple):
    path: str
    entries: frozenset[str]
    characters: bool  # its entries are single characters


class Coverage(NamedTuple):
    """How many of the words of a column are in a vocabulary."""

    column: str
    known: float
    ignoring_case: float
    lowered: float  # if the text is changed to lower case
    example: str  # a frequent word that is not in it
    entry: str  # of the vocabulary, in a different case


def read_vocabularies(path: str) -> list[Vocabulary]:
    """Lists of unique words, with an entry for unknown words or for padding: one per line, or in json."""
    if os.path.getsize(path) > MOST_BYTES or path.endswith((".npz", ".npy", ".pt", ".pth", ".bin", ".pkl")):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            lists = list(_lists(json.load(file))) if path.endswith(".json") else [_first_words(file.read())]
    except (ValueError, RecursionError):  # not utf-8, or not json that can be read
        return []
    return [Vocabulary(path, frozenset(words), _are_characters(words)) for words in lists if _is_vocabulary(words)]


def _first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def _lists(content: Any, depth: int = 0) -> Iterator[list[str]]:
    """["<pad>", "the", ...], {"<pad>": 0, "the": 1, ...}, or several of them by name."""
    if isinstance(content, list) and all(isinstance(word, str) for word in content):
        yield content
    elif isinstance(content, dict) and content and all(type(number) is int for number in content.values()):
        yield list(content)
    elif isinstance(content, dict) and depth < 2:
        for value in content.values():
            yield from _lists(value, depth + 1)


def _is_vocabulary(words: list[str]) -> bool:
    if len(words) < LEAST_ENTRIES or len(set(words)) < UNIQUE * len(words):
        return False
    return any(SPECIAL.fullmatch(word) for word in words)


def _are_characters(words: list[str]) -> bool:
    return sum(len(word) == 1 for word in words) > len(words) / 2


def case_setting(text: str) -> tuple[str, bool] | None:
    """The key of a configuration that says whether text is changed to lower case, and its value."""
    found = re.findall(rf"\"?\b({SETTING})\b\"?\s*[:=]\s*(true|false)\b", text, re.IGNORECASE)
    return (found[0][0], found[0][1].lower() == "true") if len(found) == 1 else None


def coverage(vocabulary: Vocabulary, table: Table) -> Coverage | None:
    """Of the column that the vocabulary belongs to, if case does not count. None if it belongs to no column."""
    folded = {word.lower(): word for word in vocabulary.entries}
    best: Coverage | None = None
    for column in table.columns:
        if column.words is None or column.kind == "digest":
            continue
        words = _words(column.words, vocabulary)
        if len(words) < LEAST_WORDS or len(set(words)) < min(LEAST_ENTRIES, len(vocabulary.entries) / 2):
            continue
        known = sum(word in vocabulary.entries for word in words) / len(words)
        ignoring_case = sum(word.lower() in folded for word in words) / len(words)
        if ignoring_case >= KNOWN and (best is None or known > best.known):
            example = next((w for w in words if w not in vocabulary.entries and w.lower() in folded), "")
            lowered = sum(word.lower() in vocabulary.entries for word in words) / len(words)
            best = Coverage(column.name, known, ignoring_case, lowered, example, folded.get(example.lower(), ""))
    return best


def _words(cells: list[str], vocabulary: Vocabulary) -> list[str]:
    """Those with letters, in which case shows; without the signs around them, unless the vocabulary has them so."""
    words: list[str] = []
    for cell in cells:
        if vocabulary.characters:
            words += cell.replace(" ", "")
        else:
            words += (w if w in vocabulary.entries else w.strip(_AROUND) for w in cell.split())
        if len(words) > MOST_WORDS:
            break
    return [word for word in words if word.lower() != word.upper()]
