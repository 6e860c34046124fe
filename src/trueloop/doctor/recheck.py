"""A recorded run + rules -> verdict. Needs no torch, because events are plain data; new rules can check old runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from trueloop.event import EpochStarted, Event, Forward, RankFact, RunEnded
from trueloop.results.check import NotApplicable, Outcome, Tally, Verdict
from trueloop.rules.catalogue import ALWAYS_ON
from trueloop.rules.checker import Checker
from trueloop.rules.rule import Rule
from trueloop.run import read_events, read_run
from trueloop.usercode.allow import filter_findings, locate_at_model
from trueloop.usercode.settings import Settings

__all__ = ["check_recorded_run"]


def check_recorded_run(folder: Path, rules: Iterable[type[Rule]], settings: Settings) -> Verdict:
    """Apply the rules to the run recorded in a folder."""
    about = read_run(folder)
    ours = about.get("kind") == "train"
    chosen = [rule for rule in rules if not ours or rule.name in ALWAYS_ON]
    checker, tally = Checker(chosen), Tally(str(about.get("script", "")))
    end: RunEnded | None = None
    for event in read_events(folder):
        tally.hear(event)
        if isinstance(event, RunEnded):
            end = event
        else:
            checker.check(event)
    for fact in _facts_of_other_ranks(folder):
        checker.check(fact)
    checker.check(_missing_end(tally) if end is None else end)
    found = locate_at_model(checker.findings(), tally.home) if ours else checker.findings()
    findings, allowed = filter_findings(found, settings)
    unjudged = tuple(NotApplicable(code, because) for code, because in checker.not_applicable())
    outcome = Outcome("interrupted", 0, "the recording breaks off")
    if end is not None:
        outcome = Outcome(end.reason, 0, str(about.get("exception") or about.get("message") or ""))
    return Verdict(
        findings=findings,
        watched=tally.watched(len(checker.rules) - len(unjudged)),
        step_summary=tally.step_summary,
        not_applicable=unjudged,
        outcome=outcome,
        allowed=allowed,
        failures=tuple(checker.failures),
    )


def _facts_of_other_ranks(folder: Path) -> Iterator[Event]:
    """Facts of the other ranks, recorded beside the first, for the rules that compare ranks."""
    for other in sorted(folder.glob("rank-*")):
        yield from (event for event in read_events(other) if isinstance(event, RankFact))


def _missing_end(tally: Tally) -> Event:
    """The end event that a killed run could not record: some rules report only there."""
    return RunEnded(tally.steps, None, "interrupted", tally.counts[EpochStarted], tally.counts[Forward], 0)
