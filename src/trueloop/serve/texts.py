"""Text as the numbers that the model has learned from, by what the artifact says of its encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trueloop.errors import BadArtifact

__all__ = ["Encode", "encoding_of"]

Encode = Callable[[str], Sequence[int]]


def encoding_of(preprocessing: Mapping[str, Any]) -> Encode | None:
    """None: the artifact does not say, and callers send numbers. Raises BadArtifact if what it says makes no sense."""
    try:
        match preprocessing.get("encoding"):
            case "bytes":
                return lambda text: list(text.encode("utf-8", "surrogatepass"))
            case "words":
                from trueloop.data.text import Vocabulary

                return Vocabulary.read(preprocessing).row
            case "tokens" if all(isinstance(token, str) and len(token) == 1 for token in preprocessing["vocabulary"]):
                return _letters(preprocessing["vocabulary"])
            case _:
                return None
    except (KeyError, TypeError, ValueError):
        raise BadArtifact(
            "The artifact's preprocessing of text is damaged. Nothing was run. Export the run again."
        ) from None


def _letters(vocabulary: Sequence[str]) -> Encode:
    numbers = {letter: at for at, letter in enumerate(vocabulary)}
    return lambda text: [numbers.get(letter, -1) for letter in text]  # -1 is refused: no letter that it knows
