"""A rule is a class that reads events and yields findings.

A rule subscribes to an event by having a method named after it: `on_backward` reads `Backward`. Each instance checks
one run and keeps its state on itself. A rule imports neither torch nor another rule.
"""

from __future__ import annotations

import ast
from abc import ABC
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from sys import modules
from typing import ClassVar, Final

from trueloop.event import Event, Place
from trueloop.finding import Finding, Severity
from trueloop.usercode.source import Source, shown_place, source_of

__all__ = ["Finding", "Findings", "Page", "Rule", "Severity", "call_at", "facts", "on_line", "path_and_line", "plural"]
__all__ += ["statement_at"]

Findings = Iterator[Finding]

SECTIONS: Final = ("What it sees", "Why it hurts", "Evidence", "Use instead", "When it is fine")


class Rule(ABC):
    """One mistake in a training script. The file's name is the rule's: it describes the mistake, not its fix."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    not_applicable: ClassVar[str]  # shown when none of its events arrived: 'no learning rate schedule was created'
    applies_after: ClassVar[tuple[type[Event], ...]] = ()  # events that make it apply, though it does not read them
    explained_by: ClassVar[tuple[str, ...]] = ()  # rules that report the cause: when one does, this rule does not
    fix_keeps_result: ClassVar[bool] = False  # its diff leaves the trained weights and what is saved as they are

    def __init_subclass__(cls, *, code: str, severity: Severity) -> None:
        if cls.__bases__ != (Rule,):
            raise TypeError(f"{cls.__name__} must inherit from Rule alone: no rule builds on another")
        cls.code, cls.severity = code, severity
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def why_not_checked(self) -> str:
        """Why the rule could not check the run although its events arrived; empty when it could."""
        return ""

    @cached_property
    def _counts(self) -> Counter[Hashable]:
        return Counter()

    def count(self, *key: Hashable) -> int:
        """How many times this rule has counted this key, this call included."""
        self._counts[key] += 1
        return self._counts[key]

    def finding(
        self,
        event: Event,
        message: str,
        *,
        fix: str,
        evidence: Mapping[str, object],
        place: Place | None = None,
        diff: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        """A finding of this rule, at the event's place by default. Places in the evidence become 'file.py:12'."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if severity is None else severity,
            place=place or event.place,
            message=message,
            why=self.page().why,
            fix=fix,
            evidence={key: path_and_line(v) if isinstance(v, Place) else v for key, v in evidence.items()},
            diff=diff,
            first_step=event.step,
        )

    @classmethod
    def page(cls) -> Page:
        return Page(modules[cls.__module__].__doc__ or "")


def facts(event: object, *names: str, **computed: object) -> dict[str, object]:
    """Evidence in the order of the names: 'batch model=name' reads `event.batch`, and `event.name` as the model; a name
    that is computed takes that value."""
    read: dict[str, object] = {}
    for key, _, path in (word.partition("=") for word in " ".join(names).split()):
        value = computed[key] if key in computed else attrgetter(path or key)(event)
        read[key] = list(value) if isinstance(value, tuple) else value
    return read | computed


def statement_at(place: Place | None) -> tuple[Source, ast.stmt | None]:
    """The source of a place and its statement; an empty source and None without a place."""
    source = source_of(place.path if place else "")
    return source, source.statement(place.line if place else 0)


def call_at(place: Place | None, function: str) -> tuple[Source, ast.Call | None]:
    """The source of a place and the call of a function in its statement; None if there is not exactly one."""
    source = source_of(place.path if place else "")
    calls = source.calls(place.line if place else 0, function)
    return source, calls[0] if len(calls) == 1 else None


def path_and_line(place: Place | None) -> str:
    """'train.py:12', 'book.ipynb, cell 3, line 12'; empty without a place."""
    return "" if place is None else shown_place(place)


def on_line(place: Place | None, near: Place | None = None) -> str:
    """' on line 12', or ' at other.py:12' in a different file than `near`; empty without a place."""
    if place is None:
        return ""
    return f" on line {place.line}" if near is None or near.path == place.path else f" at {path_and_line(place)}"


def plural(count: int, noun: str) -> str:
    """'1 batch', '1,200 batches'."""
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count:,} {noun}{ending}"


class Page:
    """The documentation of a rule, read from the docstring of its file."""

    def __init__(self, docstring: str) -> None:
        title, _, rest = docstring.strip().partition("\n\n")
        self.title = " ".join(title.split())
        self.sections: dict[str, str] = {}
        heading = ""
        for line in rest.splitlines():
            if line.strip() in SECTIONS:
                heading = line.strip()
            elif heading and not set(line.strip()) <= {"-"}:
                self.sections[heading] = f"{self.sections.get(heading, '')}{line}\n"
            elif heading:
                self.sections[heading] = self.sections.get(heading, "") + ("\n" if not line.strip() else "")

    @property
    def why(self) -> str:
        """The first paragraph of 'Why it hurts', on one line."""
        first = self.sections.get("Why it hurts", "").strip().split("\n\n")[0]
        return " ".join(first.split())
