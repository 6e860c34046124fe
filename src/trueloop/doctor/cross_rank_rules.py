"""The rules that compare ranks, applied to the facts of all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from trueloop.event import EVENTS, Event, RankFact, RunEnded
from trueloop.finding import Finding
from trueloop.results.check import NotApplicable
from trueloop.rules.checker import Checker, method_name
from trueloop.rules.rule import Rule
from trueloop.usercode.allow import filter_findings
from trueloop.usercode.settings import Settings

__all__ = ["CrossRankResult", "CrossRankRules"]


@final
@dataclass(frozen=True, slots=True)
class CrossRankResult:
    """What comparing the ranks found."""

    findings: tuple[Finding, ...] = ()
    allowed: int = 0
    codes: frozenset[str] = frozenset()  # The rules that were applied, or could not be
    unjudged: tuple[NotApplicable, ...] = ()
    failures: tuple[str, ...] = ()


@final
class CrossRankRules:
    """The rules that compare ranks. Each rank's own checker has them too, but sees one rank only."""

    def __init__(self, rules: Iterable[type[Rule]], settings: Settings) -> None:
        readings = [method_name(event) for event in EVENTS.values() if issubclass(event, RankFact)]
        self.rules = tuple(rule for rule in rules if any(hasattr(rule, reading) for reading in readings))
        self.settings = settings

    def check(self, facts: Iterable[Event]) -> CrossRankResult:
        checker = Checker(self.rules)
        steps = 0
        for fact in facts:
            checker.check(fact)
            steps = max(steps, fact.step)
        checker.check(RunEnded(steps, None, "finished", 0, 0, 0))
        findings, allowed = filter_findings(checker.findings(), self.settings)
        unjudged = tuple(NotApplicable(code, because) for code, because in checker.not_applicable())
        codes = frozenset(rule.code for rule in self.rules)
        return CrossRankResult(findings, allowed, codes, unjudged, tuple(checker.failures))
