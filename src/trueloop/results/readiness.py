"""The result of `ready`: statements, each with the evidence it was read from, and one verdict. No torch here.

    0.99 = [run.json#best]                                     a value of a file
    1.2 % = (100 * median([metrics.jsonl?train#data_wait]))    computed from values

A number is in a statement only as a `Figure`: it records which values of which files it was computed from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import median
from string import Formatter
from typing import Any, Final, Literal

__all__ = ["SECTIONS", "Figure", "Readiness", "Shown", "Statement", "Status", "condensed", "middle_of"]
__all__ += ["stated", "verdict_of"]

Status = Literal["good", "note", "risk", "missing", "bad"]
"""note: a neutral fact. missing: nothing was recorded or tested that could answer it."""
Verdict = Literal["ready", "ready with risks", "not ready"]
SECTIONS: Final = (
    *("model", "data", "contract", "validation", "checkpoints", "reproducibility"),
    *("failure detection", "performance", "findings", "larger data"),
)  # In the order of the note

_ADDRESS: Final = re.compile(r"\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, and how to find it: addresses in brackets, and the computation."""

    value: Any
    source: str

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __add__(self, other: Figure | float) -> Figure:
        return self._with("+", other, lambda a, b: a + b)

    def __sub__(self, other: Figure | float) -> Figure:
        return self._with("-", other, lambda a, b: a - b)

    def __mul__(self, other: Figure | float) -> Figure:
        return self._with("*", other, lambda a, b: a * b)

    def __truediv__(self, other: Figure | float) -> Figure:
        return self._with("/", other, lambda a, b: a / b)

    def _with(self, sign: str, other: Figure | float, compute: Any) -> Figure:
        value, source = (other.value, other.source) if isinstance(other, Figure) else (other, repr(other))
        return Figure(compute(self.value, value), f"({self.source} {sign} {source})")

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_ADDRESS.findall(self.source)))


def middle_of(values: Figure) -> Figure:
    """The median of a figure with several numbers."""
    return Figure(median(values.value), f"median({values.source})")


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure as printed in a sentence."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of the note."""

    section: str
    status: Status
    text: str
    links: tuple[str, ...] = ()
    """Addresses of the evidence, relative to the note: metrics.jsonl:12#accuracy, run.json#machine.torch."""
    shown: tuple[Shown, ...] = ()  # every figure of the text, in order
    command: str = ""  # what to type: to produce missing evidence, or to reduce a risk
    essential: bool = False  # without it the verdict is `not ready`

    def and_see(self, *links: str) -> Statement:
        """With more evidence, from which no figure comes."""
        return replace(self, links=tuple(dict.fromkeys((*self.links, *links))))

    def advising(self, command: str) -> Statement:
        """With what to type about it."""
        return replace(self, command=command)


def stated(section: str, status: Status, template: str, /, **figures: Figure) -> Statement:
    """A statement whose numbers are figures: '{best:.4f} at step {step:,}'."""
    text = ""
    shown: list[Shown] = []
    links: list[str] = []
    for literal, name, spec, _ in Formatter().parse(template):
        text += literal
        if name is not None:
            figure = figures[name]
            shown.append(Shown(format(figure, spec or ""), figure.source))
            links += figure.addresses
            text += shown[-1].text
    return Statement(section, status, text, tuple(dict.fromkeys(links)), tuple(shown))


def condensed(links: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Links into the same part of a file, merged into one to their common part -> the links."""
    files: dict[str, list[str]] = {}
    for link in links:
        file = link.partition("#")[0]
        of_a_line = ":" in file or "?" in file
        files.setdefault(file if of_a_line else "#".join((file, *_keys(link)[:1])), []).append(link)
    made = {}
    for inside in files.values():
        file = inside[0].partition("#")[0]
        shared = [
            keys[0]
            for keys in takewhile(
                lambda keys: len(set(keys)) == 1, zip(*(_keys(link) for link in inside), strict=False)
            )
        ]
        made[f"{file}#{'.'.join(shared)}" if shared else file] = tuple(inside)
    return made


def _keys(link: str) -> list[str]:
    return [key for key in link.partition("#")[2].split(".") if key]


@dataclass(frozen=True, slots=True)
class Readiness:
    subject: str  # as the user named it
    statements: tuple[Statement, ...]

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.statements)

    def of(self, *statuses: Status) -> tuple[Statement, ...]:
        return tuple(each for each in self.statements if each.status in statuses)

    def reasons(self) -> tuple[Statement, ...]:
        """The statements that prevent a better verdict, the most severe first."""
        grave = tuple(each for each in self.statements if _is_severe(each))
        return (*grave, *(each for each in self.of("risk", "missing") if each not in grave))

    def plain(self) -> dict[str, Any]:
        return {"subject": self.subject, "verdict": self.verdict, "statements": self.statements}

    def closing(self) -> str:
        """'31 lines: 18 good, 2 risks, 4 missing, 7 facts'."""
        statuses: tuple[Status, ...] = ("bad", "risk", "missing", "good", "note")
        words = {"risk": "at risk", "note": "plain facts"}
        counts = ((len(self.of(status)), words.get(status, status)) for status in statuses)
        return f"{len(self.statements)} lines: {', '.join(f'{count} {word}' for count, word in counts if count)}"


def verdict_of(statements: Sequence[Statement]) -> Verdict:
    """not ready: a statement is bad, an essential one (validation, checkpoint, a planned end) is missing, or there are
    none. ready with risks: any other is a risk or missing. ready: every statement is good or a plain fact."""
    if not statements or any(map(_is_severe, statements)):
        return "not ready"
    return "ready with risks" if any(each.status in ("risk", "missing") for each in statements) else "ready"


def _is_severe(statement: Statement) -> bool:
    return statement.status == "bad" or (statement.essential and statement.status == "missing")
