"""Events in, findings out: tells each event to the rules that read it, and keeps one finding per cause."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from trueloop.event import EVENTS, Event, RunEnded
from trueloop.finding import Finding
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import line_of

__all__ = ["Judge", "method_name"]


def method_name(event: type[Event]) -> str:
    """LossComputed -> on_loss_computed."""
    return "on_" + re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


METHOD: Final = {event: method_name(event) for event in EVENTS.values()}


class Judge:
    """Judges one run by the given rules."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.rules = tuple(rule() for rule in rules)
        self.failures: list[str] = []
        """Rules that broke while judging: tracebacks. They are retired, the others go on."""
        self._readers: dict[type[Event], list[tuple[Rule, Callable[[Event], Findings | None]]]] = {}
        for rule in self.rules:
            for event, method in METHOD.items():
                if hasattr(rule, method):
                    self._readers.setdefault(event, []).append((rule, getattr(rule, method)))
        self._told: set[type[Event]] = set()
        self._findings: dict[tuple[str, str, int], Finding] = {}

    @property
    def wanted(self) -> frozenset[type[Event]]:
        """The events that some rule reads: what no rule reads need not be watched."""
        return frozenset(self._readers)

    def tell(self, event: Event) -> list[Finding]:
        """The findings that are new with this event."""
        kind, fresh = type(event), []
        self._told.add(kind)
        for rule, read in self._readers.get(kind, ()):
            try:
                fresh += [finding for finding in read(event) or () if self._keep(finding)]
            except Exception:  # noqa: BLE001 - a broken rule must not end somebody's training
                self._retire(rule)
        return fresh

    def _retire(self, rule: Rule) -> None:
        self.failures.append(f"rule {rule.code} {rule.name} failed and was retired:\n{traceback.format_exc()}")
        for event, readers in self._readers.items():
            self._readers[event] = [pair for pair in readers if pair[0] is not rule]

    def _keep(self, finding: Finding) -> bool:
        place = finding.place
        key = (finding.code, place.path if place else "", place.line if place else 0)
        if known := self._findings.get(key):
            self._findings[key] = replace(known, count=known.count + 1)
            return False
        self._findings[key] = replace(finding, source=line_of(place))
        return True

    def findings(self) -> list[Finding]:
        """Most severe first; those that another finding explains are left out."""
        spoken = {finding.name for finding in self._findings.values()}
        quiet = {rule.name for rule in self.rules if spoken & set(rule.explained_by)}
        kept = [finding for finding in self._findings.values() if finding.name not in quiet]
        return sorted(kept, key=lambda f: (-f.severity, f.first_step, f.code, f.place.line if f.place else 0))

    def unjudged(self) -> list[tuple[str, str]]:
        """(code, because) of each rule that had nothing to judge."""
        told = self._told - {RunEnded}
        said = {
            rule: rule.because() if any(hasattr(rule, METHOD[e]) for e in told) else rule.unjudged
            for rule in self.rules
        }
        spoken = {finding.code for finding in self._findings.values()}
        return [(rule.code, because) for rule, because in said.items() if because and rule.code not in spoken]
