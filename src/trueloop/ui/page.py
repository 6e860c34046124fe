"""What a page is on the server: a name, a title and a function that gives its data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final
from urllib.parse import parse_qsl

from trueloop.errors import Misuse
from trueloop.ui.library import Library

__all__ = ["Page", "Query"]


@final
class Query:
    """The part of an address after the question mark. Raises Misuse for values that cannot be meant."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)

    @classmethod
    def parse(cls, text: bytes) -> "Query":
        # Names of folders need not be UTF-8: surrogates carry their bytes.
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, errors="surrogateescape", max_num_fields=2000)
        return cls(pairs)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def text(self, name: str, default: str = "") -> str:
        return next(iter(self.all(name)), default)

    def number(self, name: str, default: float | None = None) -> float | None:
        word = self.text(name)
        try:
            return float(word) if word else default
        except ValueError:
            raise Misuse(f"{name}={word[:50]!r} is not a number.") from None

    def count(self, name: str, default: int, most: int) -> int:
        value = self.number(name, default)
        return max(1, min(most, int(value))) if value is not None and abs(value) < 1e9 else default


@dataclass(frozen=True, slots=True)
class Page:
    """`data` answers `GET /api/NAME?...` as JSON; `static/pages/NAME.js` draws it.

    `place`: where the navigation has it. "top": beside Runs; "run": a tab of each run; "": nowhere (data of a page's
    part, such as its curves).
    """

    name: str
    title: str
    data: Callable[[Library, Query], Any]
    place: Literal["top", "run", ""] = "top"
