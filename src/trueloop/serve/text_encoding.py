"""Text -> token numbers, as the artifact describes its encoding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trueloop.errors import BadArtifact

__all__ = ["Encode", "encoding_of"]

Encode = Callable[[str], Sequence[int]]


def encoding_of(preprocessing: Mapping[str, Any]) -> Encode | None:
    """None: the artifact has no encoding, and callers send numbers. Raises BadArtifact if it is damaged."""
    try:
        match preprocessing.get("encoding"):
            case "bytes":
                return lambda text: list(text.encode("utf-8", "surrogatepass"))
            case "words":
                from trueloop.data.text import Vocabulary

                return Vocabulary.read(preprocessing).row
            case "tokens" if all(isinstance(token, str) and len(token) == 1 for token in preprocessing["vocabulary"]):
                numbers = {letter: at for at, letter in enumerate(preprocessing["vocabulary"])}
                return lambda text: [numbers.get(letter, -1) for letter in text]  # -1 is rejected as an unknown token
            case _:
                return None
    except (KeyError, TypeError, ValueError):
        raise BadArtifact("The artifact's text encoding is damaged. Nothing was run. Export the run again.") from None
