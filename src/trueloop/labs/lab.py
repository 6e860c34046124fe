"""What a lab is made of: the code that is shown, a measurement, an answer, and perhaps an exercise."""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from trueloop.labs.attempt import Attempt
from trueloop.results.document import Column, Part, Table
from trueloop.results.lab import Sentence

__all__ = ["Exercise", "Lab", "NotHere", "Page"]

M = TypeVar("M")


class NotHere(Exception):
    """Something that the lab needs is missing on this machine; the message is a sentence."""


@dataclass
class Page:
    """What an answer writes on."""

    parts: list[Part] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> None:
        """Columns whose first value is a number are aligned right."""
        cells = tuple(tuple(row) for row in rows)
        first = cells[0] if cells else ()
        numeric = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in first]
        heads = tuple(Column(name, "number" if at else "text") for name, at in zip(columns, numeric, strict=True))
        self.parts.append(Table(title, heads, cells, note))

    def show(self, part: Part) -> None:
        """Any part of a document: `Plot`, `Bars`, `Code`, `Text` of trueloop.results.document."""
        self.parts.append(part)

    def says(self, sentence: str, holds: bool) -> None:
        """A sentence of the answer, and whether the measurement bears it out."""
        self.sentences.append(Sentence(sentence, bool(holds)))


@dataclass(frozen=True, slots=True)
class Exercise:
    skeleton: str  # a Python file; its docstring is the task
    check: Callable[[Attempt], None]


@dataclass(frozen=True, kw_only=True)
class Lab(Generic[M]):
    code: tuple[Callable[..., Any], ...]  # functions and classes that the reader sees
    measure: Callable[[], M]  # returns numbers: a dataclass, or a dict of plain values
    answer: Callable[[Page, M], None]
    needs: str = ""  # gpu, package NAME, program NAME
    seconds: int = 20  # at most, on a CPU
    exercise: Exercise | None = None

    def source(self) -> str:
        """As the reader should see it: without comments for checkers of code."""
        whole = "\n\n".join(inspect.getsource(each).rstrip() for each in self.code)
        return re.sub(r" *# (type: ignore|noqa|fmt:).*", "", whole)
