"""The result of a rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from trueloop.event import Place

__all__ = ["SITE", "Finding", "Severity", "rule_page"]

SITE: Final = "https://trueloop.example/"  # `site_url` of mkdocs.yml


def rule_page(code: str) -> str:
    """The address of a rule's page."""
    return f"{SITE}rules/{code}.html"


class Severity(IntEnum):
    """How bad it is; larger is worse, so that severities compare."""

    ADVICE = 1  # It could be better
    WARNING = 2  # Very likely wrong, or wasteful
    ERROR = 3  # The result is wrong

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, at one place, with this run's numbers."""

    code: str
    name: str
    severity: Severity
    place: Place | None
    message: str  # One sentence with this run's numbers
    why: str  # Why it hurts, from the rule's page
    fix: str  # What to write instead
    evidence: Mapping[str, object] = field(default_factory=dict)
    diff: str = ""  # A unified diff that `patch -p0` applies, where the fix can be written mechanically
    source: str = ""  # The user's source line
    first_step: int = 0
    count: int = 1  # How often it was seen at this place
