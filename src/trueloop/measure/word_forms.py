"""Words of texts beside a vocabulary of other forms of the same words: stems and full words, or another spelling.

A vocabulary that was made from a text has no entry that the text never uses, and a vocabulary of a large corpus has
all of its common words. Where many words are missing, and most of them begin as an entry that no text ever uses, the
vocabulary was made from these words after they had been cut, or before. Where they have the letters of such an entry,
the one joins the parts of a word in a different way (`olive-oil`, `olive_oil`), has lost its accents, or has them as
signs of their own (NFD).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from trueloop.measure.tables import Table
from trueloop.measure.vocabulary import Vocabulary

__all__ = ["OtherForms", "other_forms", "other_spelling", "other_words"]

MOST_CELLS: Final = 20_000
LEAST_WORDS: Final = 500  # of a text
SENTENCE: Final = 3  # words of a cell, in the mean
NAME: Final = 1.5  # the same, of names of few words: for letters that agree, not for beginnings
MISSING: Final = 0.2  # of the words, at least, are not in the vocabulary
UNUSED: Final = 0.15  # of the entries, at least, are in no text
FOLLOW: Final = 0.7  # of the missing words begin as an unused entry
BY_CHANCE: Final = 0.35  # of the same words with the first letter of another one do so, at most
SHORTEST: Final = 3  # letters
ENDING: Final = 6  # letters
FEWEST_SPELLED: Final = 6  # different words that are spelled in a different way
SPELLED: Final = 0.05  # of the words, at least
PIECES: Final = re.compile(r"^(\u2581|\u0120|##).|(</w>|@@)$")  # how tokenizers mark pieces of words


class OtherForms(NamedTuple):
    missing: float  # share of the words that are not in the vocabulary
    follow: float  # share of these that begin as an entry that no text uses
    unused: float  # share of the entries
    example: str
    entry: str


def other_words(vocabulary: Vocabulary, tables: Iterable[Table]) -> tuple[OtherForms | None, str, bool]:
    """Other forms in the texts of a vocabulary, the first of these, and whether they are spelled differently."""
    others = [table for table in tables if table.path != vocabulary.path]
    names, texts = (
        {table.path: words for table in others if (words := _words_of(vocabulary, table, least))}
        for least in (NAME, SENTENCE)
    )
    cells = [cell for table in others for column in table.columns for cell in column.words or ()]
    elsewhere = {part for cell in dict.fromkeys(cells) for part in (cell, *cell.split())}
    spelled = other_spelling(vocabulary.entries, (w for words in names.values() for w in words), elsewhere)
    found = spelled or other_forms(vocabulary.entries, (w for words in texts.values() for w in words))
    return found, next(iter(names), ""), spelled is not None


def _words_of(vocabulary: Vocabulary, table: Table, least: float) -> list[str]:
    """Of the column with the most words, in lower case if the vocabulary is, with signs inside of them; empty if no
    column has so many words in a cell, in the mean."""
    lower = all(entry == entry.lower() for entry in vocabulary.entries)
    best: list[str] = []
    for column in table.columns if not vocabulary.characters else ():
        cells = (column.words or [])[:MOST_CELLS] if column.kind != "digest" else []
        split = (part for cell in cells for part in re.split(r"[\s,;|/]+", cell.lower() if lower else cell))
        words = [word for part in split if re.search(r"[^\W\d_]", word := part.strip(".:!?\"'()[]{}*"))]
        if len(words) >= max(LEAST_WORDS, least * len(cells), len(best) + 1):
            best = words
    return best


def other_forms(entries: Iterable[str], words: Iterable[str]) -> OtherForms | None:
    """`words`: all words of the texts, in the case of the entries."""
    words = [part for word in words for part in re.findall(r"[^\W\d_]+", word)]
    listed = {entry for entry in entries if entry.isalpha()}
    counts = Counter(word for word in words if word.isalpha())
    missing = {word: count for word, count in counts.items() if word not in listed}
    unused = {entry for entry in listed if entry not in counts and len(entry) >= SHORTEST}
    total, lost = counts.total(), sum(missing.values())
    if not listed or lost < MISSING * max(1, total) or len(unused) < UNUSED * len(listed):
        return None
    begins = {entry[:length] for entry in unused for length in range(SHORTEST, len(entry) + 1)}
    follow = sum(count for word, count in missing.items() if _form(word, unused, begins)) / lost
    names = sorted(missing)
    others = [other[0] + word[1:] for word, other in zip(names, names[len(names) // 2 :] + names, strict=False)]
    chance = sum(_form(word, unused, begins) for word in others) / len(others)
    if follow < FOLLOW or chance > BY_CHANCE:
        return None
    example = max(sorted(word for word in missing if _form(word, unused, begins)), key=lambda word: missing[word])
    nearest = max(sorted(unused), key=lambda entry: _common(entry, example))
    return OtherForms(lost / total, follow, len(unused) / len(listed), example, nearest)


def other_spelling(entries: Iterable[str], words: Iterable[str], elsewhere: Iterable[str] = ()) -> OtherForms | None:
    """Words that are not in the vocabulary, however they are taken apart, beside entries of the same letters.
    `elsewhere`: cells and words of other columns, which the script may look up."""
    listed = set(entries)
    if any(PIECES.search(entry) for entry in listed):
        return None
    counts = Counter(words)
    used = {part for word in counts for part in (word, *_parts(word))}
    missing = {word: count for word, count in counts.items()
               if word not in listed and not any(listed.issuperset(parts) for parts in _ways(word))}  # fmt: skip
    unused = {entry for entry in listed - used - set(elsewhere) if len(_letters(entry)) >= SHORTEST}
    by_letters = {_letters(entry): entry for entry in sorted(unused)}
    spelled = {word: entry for word in missing
               if (entry := by_letters.get(_letters(word))) and entry.lower() != word.lower()}  # fmt: skip
    total, lost = counts.total(), sum(missing.values())
    share = sum(missing[word] for word in spelled) / max(1, lost)
    if len(spelled) < FEWEST_SPELLED or lost < SPELLED * total or share < FOLLOW:
        return None
    example = max(sorted(spelled), key=lambda word: missing[word])
    return OtherForms(lost / total, share, len(unused) / len(listed), example, spelled[example])


def _letters(word: str) -> str:
    """Its letters and digits, without accents; empty if it has no letter."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", word.casefold()) if sign.isalnum())
    return plain if any(sign.isalpha() for sign in plain) else ""


def _ways(word: str) -> list[list[str]]:
    """How scripts take a word with signs apart."""
    return [parts for form in (r"\w+", r"[^\W_]+", r"[^\W\d_]+", r"[\w']+") if (parts := re.findall(form, word))]


def _parts(word: str) -> list[str]:
    return [part for parts in _ways(word) for part in parts]


def _form(word: str, unused: set[str], begins: set[str]) -> bool:
    """The word without its ending is an entry; or an entry without its ending is the word; an i may stand for a y."""
    for length in range(max(SHORTEST, len(word) - ENDING), len(word) + 1):
        if word[:length] in unused:
            return True
        if word[length - 1] == "y" and word[: length - 1] + "i" in unused:
            return True
    stem = word[:-1] + "y" if word.endswith("i") else word
    return len(word) >= SHORTEST and (word in begins or stem in begins)


def _common(entry: str, word: str) -> int:
    """Letters at the beginning that are the same."""
    return next((index for index, pair in enumerate(zip(entry, word, strict=False)) if pair[0] != pair[1]), len(entry))
