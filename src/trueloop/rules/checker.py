"""Events in, findings out: passes each event to the rules that read it, and keeps one finding per cause."""

import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from trueloop.event import EVENTS, Event, RunEnded
from trueloop.finding import Finding
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import line_of

__all__ = ["Checker", "method_name"]


def method_name(event: type[Event]) -> str:
    """LossComputed -> on_loss_computed."""
    return "on_" + re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


METHOD: Final = {event: method_name(event) for event in EVENTS.values()}


class Checker:
    """Applies rules to one run."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.rules = tuple(rule() for rule in rules)
        self.failures: list[str] = []  # tracebacks of rules that raised: such a rule is disabled, the others continue
        self._readers: dict[type[Event], list[tuple[Rule, Callable[[Event], Findings | None]]]] = {}
        for rule in self.rules:
            for event, method in METHOD.items():
                if hasattr(rule, method):
                    self._readers.setdefault(event, []).append((rule, getattr(rule, method)))
            for event in rule.applies_after:
                self._readers.setdefault(event, [])
        self._events: set[type[Event]] = set()
        self._findings: dict[tuple[str, str, int], Finding] = {}

    @property
    def needed_events(self) -> frozenset[type[Event]]:
        """The events that some rule reads. Observers for the others need not be installed."""
        return frozenset(self._readers)

    def check(self, event: Event) -> list[Finding]:
        """The findings that are new with this event."""
        kind, new = type(event), []
        self._events.add(kind)
        for rule, read in self._readers.get(kind, ()):
            try:
                found = read(event)
                if found is not None:
                    new += [finding for finding in found if self._is_new(finding)]
            except Exception:  # noqa: BLE001 - an exception in a rule must not stop the user's training
                self._disable(rule)
        return new

    def _disable(self, rule: Rule) -> None:
        self.failures.append(f"rule {rule.code} {rule.name} raised and was disabled:\n{traceback.format_exc()}")
        for event, readers in self._readers.items():
            self._readers[event] = [pair for pair in readers if pair[0] is not rule]

    def _is_new(self, finding: Finding) -> bool:
        place = finding.place
        key = (finding.code, place.path if place else "", place.line if place else 0)
        if known := self._findings.get(key):
            self._findings[key] = replace(known, count=known.count + 1)
            return False
        self._findings[key] = replace(finding, source=line_of(place))
        return True

    def findings(self) -> list[Finding]:
        """Most severe first, without findings that another finding explains."""
        reported = {finding.name for finding in self._findings.values()}
        explained = {rule.name for rule in self.rules if reported & set(rule.explained_by)}
        kept = [finding for finding in self._findings.values() if finding.name not in explained]
        return sorted(kept, key=lambda f: (-f.severity, f.first_step, f.code, f.place.line if f.place else 0))

    def not_applicable(self) -> list[tuple[str, str]]:
        """(code, reason) of each rule that could not be applied."""
        events = self._events - {RunEnded}
        reported = {finding.code for finding in self._findings.values()}
        applied = {rule for rule in self.rules for e in events if hasattr(rule, METHOD[e]) or e in rule.applies_after}
        reasons = [(r.code, r.why_not_checked() if r in applied else r.not_applicable) for r in self.rules]
        return [(code, reason) for code, reason in reasons if reason and code not in reported]
