"""What a rule is: a class that reads facts and yields findings.

A rule subscribes by having a method named after the event (`on_backward` reads `Backward`). It keeps what it needs
between events on itself: one instance judges one run. It never imports torch and never imports another rule.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from trueloop.event import Event, Place
from trueloop.finding import Finding, Severity

__all__ = ["Findings", "Page", "Rule"]

Findings = Iterator[Finding]

SECTIONS: Final = ("What it sees", "Why it hurts", "Evidence", "Use instead", "When it is fine")


class Rule(ABC):
    """One thing that can be wrong. Named after the wrong, not the cure."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    unjudged: ClassVar[str]
    """Why there was nothing to judge, said when none of its events arrived: 'no schedule was built'."""
    explained_by: ClassVar[tuple[str, ...]] = ()
    """Names of rules whose finding is the cause of this one's: where they speak, this one is quiet."""

    def because(self) -> str:
        """Why it could not judge though its events arrived; empty when it could. Rules that need more override it."""
        return ""

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
        """A finding of this rule, at the event's place unless another is given."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if severity is None else severity,
            place=place or event.place,
            message=message,
            why=self.page().why,
            fix=fix,
            evidence=dict(evidence),
            diff=diff,
            first_step=event.step,
        )

    @classmethod
    def page(cls) -> Page:
        from sys import modules

        return Page(modules[cls.__module__].__doc__ or "")


class Page:
    """The documentation of a rule, read from its file's docstring."""

    def __init__(self, docstring: str) -> None:
        self.title, _, rest = docstring.strip().partition("\n")
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
