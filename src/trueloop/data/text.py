"""Text as token IDs: words by a vocabulary of the training data, word pairs and subwords by hashing; rows padded."""

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

PADDING: Final = 0  # Token ID of padding
UNKNOWN: Final = 1  # Token ID of every word outside the vocabulary
_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")  # A word with its apostrophes and hyphens, or a punctuation mark


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """The non-empty lines. Raises BadData naming the file and the line that cannot be read."""
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
    """Lower-case words and punctuation marks."""
    return _WORD.findall(line.lower())


@final
@dataclass(frozen=True)
class Vocabulary:
    """Token IDs of words. Word pairs and subwords share `buckets` IDs after them, for words that are unknown."""

    numbers: dict[str, int]
    buckets: int = 0  # 0: words only
    pieces: tuple[int, int] = (3, 5)  # shortest and longest subword in characters; both ends of a word count

    @classmethod
    def of(cls, lines: Iterable[str], *, least: int = 1, buckets: int = 0) -> Self:
        """Words with at least `least` occurrences, by frequency, then alphabetically: the same every time."""
        counts = Counter(word for line in lines for word in words_in(line))
        frequent = (word for word, count in counts.items() if count >= least)
        kept = sorted(frequent, key=lambda word: (-counts[word], word))
        return cls({word: UNKNOWN + 1 + at for at, word in enumerate(kept)}, buckets)

    def plain(self) -> dict[str, Any]:
        """As plain values for a file; the inverse of `read`."""
        return {"encoding": "words", "words": list(self.numbers), "buckets": self.buckets, "pieces": list(self.pieces)}

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError if `plain` did not write it."""
        shortest, longest = saved["pieces"]
        numbers = {word: UNKNOWN + 1 + at for at, word in enumerate(saved["words"])}
        return cls(numbers, saved["buckets"], (shortest, longest))

    def __len__(self) -> int:
        """Number of token IDs, including padding and unknown."""
        return UNKNOWN + 1 + len(self.numbers) + self.buckets

    def row(self, line: str) -> list[int]:
        """Token IDs of a line's words in order, then of its pairs and subwords, each once."""
        words = words_in(line)
        row = [self.numbers.get(word, UNKNOWN) for word in words]
        if not self.buckets:
            return row
        first = UNKNOWN + 1 + len(self.numbers)
        parts = {f"{left} {right}" for left, right in pairwise(words)}
        parts |= {piece for word in set(words) for piece in self._pieces(word)}
        # Not hash(): it differs from process to process, and a resumed run would read different embeddings.
        return row + sorted({first + zlib.crc32(part.encode()) % self.buckets for part in parts})

    def _pieces(self, word: str) -> Iterator[str]:
        marked = f"<{word}>"
        for length in range(self.pieces[0], self.pieces[1] + 1):
            yield from (marked[at : at + length] for at in range(len(marked) - length + 1))


def padded_rows(rows: Sequence[Sequence[int]]) -> Tensor:
    """int32 [rows, longest row], padded."""
    return pad_sequence([torch.tensor(row, dtype=torch.int32) for row in rows], batch_first=True, padding_value=PADDING)
