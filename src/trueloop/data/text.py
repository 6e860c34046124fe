"""Sentences as numbers: words by a vocabulary that only the training data make, pairs and pieces of words by hashing;
rows padded."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self, final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueloop.errors import BadData

__all__ = ["PADDING", "UNKNOWN", "Vocabulary", "padded_rows", "read_lines", "words_in"]

PADDING: Final = 0
"""The number of no word: it fills rows up."""
UNKNOWN: Final = 1
"""The number of every word that the training data do not know."""
_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
"""A word with its apostrophes and hyphens, or a single sign."""


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """The lines that hold anything. Raises BadData naming the file, and the line that cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadData(f"{path} cannot be read ({error.strerror}). Nothing was trained.") from None
    try:
        lines = [line.strip() for line in content.decode(encoding).split("\n")]
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData(f"{path}, line {line:,}: not {encoding} text ({error.reason}). Nothing was trained.") from None
    kept = [line for line in lines if line]
    if not kept:
        raise BadData(f"{path} holds no text. Nothing was trained.")
    return kept


def words_in(line: str) -> list[str]:
    """In small letters, signs by themselves."""
    return _WORD.findall(line.lower())


@final
@dataclass(frozen=True)
class Vocabulary:
    """Which number a word has. Pairs of neighbours and pieces of words share `buckets` numbers after the words': a word
    that the training data do not know still has pieces that they do."""

    numbers: dict[str, int]
    buckets: int = 0
    """0: words only."""
    pieces: tuple[int, int] = (3, 5)
    """Shortest and longest piece, in letters; the ends of a word count as one each."""

    @classmethod
    def of(cls, lines: Iterable[str], *, least: int = 1, buckets: int = 0) -> Self:
        """Words that occur at least so often; the most frequent first, and equal ones by the alphabet, so that it is
        the same each time."""
        counts = Counter(word for line in lines for word in words_in(line))
        kept = sorted(
            (word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word)
        )
        return cls({word: UNKNOWN + 1 + at for at, word in enumerate(kept)}, buckets)

    def plain(self) -> dict[str, Any]:
        """All of it, for a file; `read` is the way back."""
        return {"encoding": "words", "words": list(self.numbers), "buckets": self.buckets, "pieces": list(self.pieces)}

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError if `plain` did not make it."""
        shortest, longest = told["pieces"]
        return cls(
            {word: UNKNOWN + 1 + at for at, word in enumerate(told["words"])}, told["buckets"], (shortest, longest)
        )

    def __len__(self) -> int:
        """How many numbers there are, padding and unknown among them."""
        return UNKNOWN + 1 + len(self.numbers) + self.buckets

    def row(self, line: str) -> list[int]:
        """The numbers of a line's words, in order; then, each once, those of its pairs and pieces."""
        words = words_in(line)
        row = [self.numbers.get(word, UNKNOWN) for word in words]
        if not self.buckets:
            return row
        first = UNKNOWN + 1 + len(self.numbers)
        parts = {f"{left} {right}" for left, right in pairwise(words)} | {
            piece for word in set(words) for piece in self._pieces(word)
        }
        # Not hash(): Python gives strings another one in each process, and a resumed run would read other vectors.
        return row + sorted({first + zlib.crc32(part.encode()) % self.buckets for part in parts})

    def _pieces(self, word: str) -> Iterator[str]:
        marked = f"<{word}>"
        for length in range(self.pieces[0], self.pieces[1] + 1):
            yield from (marked[at : at + length] for at in range(len(marked) - length + 1))


def padded_rows(rows: Sequence[Sequence[int]]) -> Tensor:
    """int32 [rows, length of the longest]; what is missing is padding."""
    return pad_sequence([torch.tensor(row, dtype=torch.int32) for row in rows], batch_first=True, padding_value=PADDING)
