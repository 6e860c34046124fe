"""From text to the tokens of a language model, and back: as `facts.more["text"]` of the recipe's data says.

    {"encoding": "bytes"}            each byte of the UTF-8 text is a token
    {"characters": "\\n abc..."}      the number of a character is its place here
    {"tokenizer": "folder"}          a folder (or the name) of a tokenizer of Hugging Face
    {"tokenizer": tokenizer}         an object with encode(text) and decode(tokens), such as tiktoken's

Without any of these: a tokenizer in the folder that a model of Hugging Face came from; else tokens are written as
numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from torch import nn

from trueloop.errors import MissingExtra, Misuse

__all__ = ["TextCoding", "coding_of"]


class TextCoding(ABC):
    name: str

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Raises Misuse."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str: ...


@final
class _Bytes(TextCoding):
    name = "bytes"

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token < 256).decode("utf-8", "replace")


@final
class _Characters(TextCoding):
    name = "characters"

    def __init__(self, characters: Sequence[str]) -> None:
        self.characters = list(characters)
        self.numbers = {character: number for number, character in enumerate(self.characters)}

    def encode(self, text: str) -> list[int]:
        unknown = sorted(set(text) - self.numbers.keys())
        if unknown:
            raise Misuse(f"--prompt has characters that the model never saw: {unknown[:5]!r}. Nothing was generated.")
        return [self.numbers[character] for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.characters[token] if token < len(self.characters) else "\ufffd" for token in tokens)


@final
class _Tokenizer(TextCoding):
    """Of Hugging Face, of tiktoken, or your own."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.tokenizer, self.name = tokenizer, name

    def encode(self, text: str) -> list[int]:
        found = self.tokenizer.encode(text)
        return [int(token) for token in getattr(found, "ids", found)]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens)))


@final
class _Numbers(TextCoding):
    name = "numbers"

    def encode(self, text: str) -> list[int]:
        words = text.replace(",", " ").split()
        if not words or not all(word.isascii() and word.isdecimal() for word in words):
            raise Misuse(
                'This run names no tokenizer, so --prompt is a list of token numbers, such as "3 17 4". Nothing was '
                "generated: give --tokenizer FOLDER, or let the recipe's data return "
                'Facts(more={"text": {"tokenizer": "FOLDER"}}).'
            )
        return [int(word) for word in words]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens)) + " "


def coding_of(text: Any, model: nn.Module, tokenizer: str | None = None) -> TextCoding:
    """`text`: `facts.more["text"]`, where there is one. `tokenizer`: what the user named instead. Raises Misuse."""
    if tokenizer is not None:
        return _loaded(tokenizer, f"--tokenizer {tokenizer}")
    if isinstance(text, Mapping):
        if text.get("encoding") == "bytes":
            return _Bytes()
        if text.get("characters"):
            return _Characters(text["characters"])
        own = text.get("tokenizer")
        if isinstance(own, (str, Path)):
            return _loaded(str(own), "the recipe's tokenizer")
        if own is not None and hasattr(own, "encode") and hasattr(own, "decode"):
            return _Tokenizer(own, type(own).__name__)
    folder = str(getattr(model, "name_or_path", "") or "")
    here = folder and any((Path(folder) / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return _loaded(folder, f"the tokenizer in {folder}") if here else _Numbers()


def _loaded(name: str, what: str) -> TextCoding:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        said = f"{what} needs the package transformers, which is not installed"
        raise MissingExtra(f"{said}: pip install transformers") from None
    try:
        return _Tokenizer(AutoTokenizer.from_pretrained(name), name)
    except Exception as error:  # noqa: BLE001 - transformers raises many kinds
        why = str(error).strip().partition("\n")[0].rstrip(".")[:200]
        raise Misuse(f"{what} cannot be loaded: {why}. Nothing was generated.") from None
