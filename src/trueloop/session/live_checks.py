"""The always-on rules of `check`: records the events of a run, checks them and prints each new finding at once.

runs/NAME/events.jsonl   one event per line; `trueloop recheck runs/NAME` checks them again with the current rules
          report.json    the findings at the end of the run
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Final, Literal, TextIO, final

from trueloop.errors import NotARun
from trueloop.event import EpochStarted, Event, NotFinite, RunEnded
from trueloop.finding import Finding
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.report.evidence import where
from trueloop.report.json import render
from trueloop.results.check import NotApplicable, Outcome, Tally, Verdict
from trueloop.rules.catalogue import ALWAYS_ON, find_rule, select
from trueloop.rules.checker import Checker
from trueloop.rules.rule import Rule
from trueloop.run import event_to, read_events
from trueloop.usercode.allow import filter_findings, is_suppressed, locate_at_model
from trueloop.usercode.settings import Settings

__all__ = ["OBSERVED", "LiveChecks", "rules_for_runs"]

OBSERVED: Final = 0.05  # Share of the time that the rules may take where the step is the user's own

# Reason of the `RunEnded` event for each ending of a run
REASON: Final[Mapping[str, Literal["finished", "interrupted", "exception"]]] = {
    "finished": "finished",
    "early-stopped": "finished",
    "signal": "interrupted",
    "nonfinite": "interrupted",
    "collapsed": "interrupted",
    "failed": "exception",
    "hung": "interrupted",
}

BY_ENGINE: Final = ("no-seed-set",)  # What the engine does before the user's own step is observed


def rules_for_runs(settings: Settings, *, own_step: bool = False) -> tuple[type[Rule], ...]:
    """The rules that check a `trueloop train` run, with the user's settings; all of them where the step is the user's
    own. Raises UnknownRule for an unknown name."""
    rules = select(settings.select, settings.ignore)
    return tuple(rule for rule in rules if rule.name in ALWAYS_ON or (own_step and rule.name not in BY_ENGINE))


@dataclass
class _Record:
    """events.jsonl, flushed after every line: a crash loses nothing. A full disk ends the recording, not the run."""

    path: Path
    say: Callable[[str], None]
    failure: str = ""
    _file: TextIO | None = field(default=None, init=False)

    def begin(self, kept: Iterable[Event]) -> None:
        """Start a new file with the events that a resumed run keeps."""
        partial = self.path.with_name(f"{self.path.name}.writing")

        def rewrite() -> None:
            partial.write_text("".join(map(_line, kept)), encoding="utf-8", errors="backslashreplace")
            partial.replace(self.path)
            self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)

        self._try(rewrite)

    def write(self, event: Event) -> None:
        file = self._file
        if file is not None and not self.failure:
            self._try(lambda: file.write(_line(event)))

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._try(file.close)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            if not self.failure:
                reason = error.strerror or error
                self.failure = f"Events are no longer written to {self.path} ({reason}). Rules still check this run."
                self.say(self.failure)


def _line(event: Event) -> str:
    return json.dumps(event_to(event), allow_nan=False) + "\n"


@final
class LiveChecks(Hook):
    """A hook that checks the events of a run."""

    def __init__(
        self, folder: Path, say: Callable[[str], None], settings: Settings | None = None, *, own_step: bool = False
    ) -> None:
        self.folder, self.say = folder, say
        self.settings = settings or Settings()
        self.checker = Checker(rules_for_runs(self.settings, own_step=own_step))
        self.verdict: Verdict | None = None  # Set when the run has ended
        self._tally = Tally()
        self._record = _Record(folder / "events.jsonl", say)
        self._said: set[str] = set()
        self._own_step = own_step
        self._nonfinite: NotFinite | None = None  # seen in the user's own step; the engine may report it too
        self._began = monotonic()

    # -- called by the loop --

    def started(self, start: Start) -> None:
        kept = self._events_before(start.from_step)
        for event in kept:
            self._tally.hear(event)
            self._said |= {finding.code for finding in self.checker.check(event) if not _may_be_a_symptom(finding)}
        self._record.begin(kept)

    def event_emitted(self, event: Event) -> None:
        if self._own_step and isinstance(event, NotFinite):
            if event.place is not None:
                self._check_nonfinite()
                self._nonfinite = event
                return
            if self._nonfinite is not None:
                event, self._nonfinite = _merged(self._nonfinite, event), None
        self._check(event)

    def logged(self, row: Row) -> None:
        self._check_nonfinite()  # the engine has reported before this row what it kept away from the weights

    def _check_nonfinite(self) -> None:
        event, self._nonfinite = self._nonfinite, None
        if event is not None:
            self._check(event)

    def _check(self, event: Event) -> None:
        self._record.write(event)
        self._tally.hear(event)
        for finding in locate_at_model(self.checker.check(event), self._tally.home):
            if not _may_be_a_symptom(finding) and not is_suppressed(finding, self.settings):
                self._say(finding)

    def ended(self, ending: Ending) -> None:
        """Check the last events, print the remaining findings and write report.json."""
        if self.verdict is not None:
            return
        self._check_nonfinite()
        passes = self._tally.counts[EpochStarted]
        self.event_emitted(RunEnded(ending.step, None, REASON[ending.reason], passes, 0, 0))
        self._record.close()
        self.verdict = self._conclude(ending)
        for finding in self.verdict.findings:
            if finding.code not in self._said:
                self._say(finding)
        if self.verdict.failures:
            self.say(self.verdict.broken())
        try:
            (self.folder / "report.json").write_text(render(self.verdict), encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            self.say(f"{self.folder / 'report.json'} could not be written ({error.strerror or error}).")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far that the user's settings do not allow, most severe first."""
        return filter_findings(locate_at_model(self.checker.findings(), self._tally.home), self.settings)[0]

    # -- internals --

    def _events_before(self, step: int) -> list[Event]:
        """The recorded events of the steps before `step`; a resumed run repeats the later ones."""
        if not step or not self._record.path.is_file():
            return []
        try:
            events = read_events(self.folder)
            return [event for event in events if event.step < step and not isinstance(event, RunEnded)]
        except NotARun as error:
            self.say(f"{error} The rules check this run from step {step:,} on.")
            return []

    def _say(self, finding: Finding) -> None:
        self._said.add(finding.code)
        at = f" ({where(finding.place)})" if finding.place is not None else ""
        self.say(f"{finding.severity.word} {finding.code} {finding.name}{at}: {finding.message}")

    def _conclude(self, ending: Ending) -> Verdict:
        findings, allowed = filter_findings(locate_at_model(self.checker.findings(), self._tally.home), self.settings)
        unchecked = tuple(NotApplicable(code, because) for code, because in self.checker.not_applicable())
        return Verdict(
            findings=findings,
            watched=self._tally.watched(len(self.checker.rules) - len(unchecked), monotonic() - self._began),
            not_applicable=unchecked,
            outcome=Outcome(REASON[ending.reason], 0, ending.message),
            allowed=allowed,
            failures=tuple(self.checker.failures),
            notes=(self._record.failure,) if self._record.failure else (),
        )


def _merged(seen: NotFinite, reported: NotFinite) -> NotFinite:
    """One event of two: the user's line and the layer, as seen in the step; by the engine, whether it was skipped."""
    known = reported if seen.origin == "unknown" else seen
    place, rates = seen.place, reported.learning_rates
    return replace(known, step=reported.step, place=place, learning_rates=rates, skipped=reported.skipped)


def _may_be_a_symptom(finding: Finding) -> bool:
    """True if another rule may still name the cause: the finding then waits for the end of the run."""
    return bool(find_rule(finding.code).explained_by)
