"""The result of `check`: what was found in a run, how much of it was watched, and which rules did not apply.

The sentences that all reports share are written here, so that every format says the same.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from statistics import median
from typing import Any, Final, Literal

from trueloop.event import (
    Backward,
    EpochStarted,
    EvaluationCurve,
    Event,
    Forward,
    LossAgainstChance,
    LossCurve,
    ModelSeen,
    Place,
    RunEnded,
    RunStarted,
    Stepped,
    StepProgram,
)
from trueloop.finding import Finding, Severity
from trueloop.results.plain import as_plain, place_keys
from trueloop.results.step_summary import step_summary
from trueloop.usercode.fingerprint import fingerprints

__all__ = ["CrashExplanation", "ExitCode", "Learning", "NotApplicable", "Outcome", "Tally", "Verdict", "Watched"]
__all__ += ["counted", "span"]


class ExitCode(IntEnum):
    """Every exit code of trueloop. A script that fails by itself keeps its own code, and the report says so."""

    CLEAN = 0  # No problem: nothing found at or above --fail-on
    FINDINGS = 1
    """Findings at or above --fail-on, a claim that fails, an export that is not verified, an error in your own code."""
    TRUELOOP_FAILED = 3  # A part of trueloop failed, or a package is not installed
    MISUSE = 4  # The command, a setting, a recipe or the data are wrong; nothing was run
    STOPPED = 5  # A run stopped itself (NaN or Inf, collapse, hang), or a file cannot be written
    LOST_PEER = 6  # This process lost the other processes of its run; the one that failed reports why
    INTERRUPTED = 130  # Ctrl-C (SIGINT). In general 128 + N: signal N ended it.
    TERMINATED = 143  # SIGTERM


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the script itself ended."""

    reason: Literal["finished", "cut", "exception", "interrupted", "exit", "hung"]
    """cut: ended early by --steps or --fail-fast; hung: ended by trueloop, because the ranks waited for each other."""
    exit_code: int = 0
    exception: str = ""  # `RuntimeError: mat1 and mat2 ...`, or what interrupted the script, in one line

    def sentence(self) -> str:
        """How the script ended, as opposed to what was found; empty when it simply finished."""
        own = f" Exit code {self.exit_code} is the script's own." if self.exit_code else ""
        match self.reason:
            case "exception":
                return f"The script itself failed: {self.exception or 'an exception'}.{own}"
            case "interrupted":
                why = self.exception or "KeyboardInterrupt"
                return f"The run was interrupted ({why}); the report covers the steps before that.{own}"
            case "exit" if self.exit_code:
                return f"The script itself ended with sys.exit({self.exit_code}).{own}"
            case "cut":
                return "The run was ended early, as requested."
            case "hung":
                return "trueloop ended the run: its ranks waited for each other and made no progress."
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class Learning:
    """What became of the loss that backward was called on most often."""

    first: float  # median of the first losses
    last: float  # median of the last quarter
    chance: float | None  # loss of the best constant prediction; None: not known for this loss
    stuck: bool  # one optimizer, many steps, and the loss is where it began
    evaluation: tuple[float, int, float] | None = None  # the lowest evaluation loss, its step, and the last one

    def sentence(self) -> str:
        """'loss 2.31 at the start, 0.12 at the end; chance 2.30'."""
        chance = "" if self.chance is None else f"; chance {self.chance:.4g}"
        trend = ": it did not fall" if self.stuck else ""
        beside = ""
        if self.evaluation is not None:
            best, step, last = self.evaluation
            lowest = f", lowest {best:.4g} at step {step:,}" if best < 0.99 * last else ""
            beside = f"; evaluation loss {last:.4g} at the end{lowest}"
        return f"loss {self.first:.4g} at the start, {self.last:.4g} at the end{chance}{trend}{beside}"


@dataclass(frozen=True, slots=True)
class Watched:
    """How much of the run was seen."""

    script: str
    steps: int
    backwards: int
    batches: int  # calls of models
    epochs: int  # passes over loaders
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    rules: int  # rules that applied: they had the events they need
    unwatched_steps: int = 0
    seconds: float = 0.0
    learning: Learning | None = None  # None: fewer than ten losses were read

    @property
    def anything(self) -> bool:
        """Was there a model or an optimizer at all?"""
        return bool(self.steps or self.batches)

    def sentence(self) -> str:
        """'40 steps of Net, 40 batches and 2 passes over loaders'."""
        of = f" of {', '.join(self.models)}" if self.models else ""
        parts = [counted(self.steps, "step") + of]
        parts += [counted(self.batches, "batch", "batches")] if self.batches or not self.epochs else []
        parts += [counted(self.epochs, "pass over a loader", "passes over loaders")] if self.epochs else []
        skipped = f" ({counted(self.unwatched_steps, 'step')} not watched, to stay within the budget)"
        return f"{', '.join(parts[:-1])} and {parts[-1]}{skipped if self.unwatched_steps else ''}"


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A rule that did not have the events it needs."""

    code: str
    because: str


LEAST_LOSSES: Final = 10
MAIN_SHARE: Final = 0.8  # of the backward calls, for a line whose loss is the training loss
STUCK_AFTER: Final = 50  # losses
MOST_PROGRAMS: Final = 3  # training steps whose summary is made: the first are still warming up
FALLEN: Final = 0.98


class Tally:
    """Counts, event by event, what the closing line says was watched."""

    KINDS = frozenset(
        {Backward, EpochStarted, EvaluationCurve, Forward, LossAgainstChance, LossCurve, ModelSeen, Stepped}
    )
    """The counted events: they are observed whichever rules are selected."""

    def __init__(self, script: str = "") -> None:
        self.script = script
        self.counts: Counter[type[Event]] = Counter()
        self.models: dict[str, None] = {}
        self.optimizers: dict[str, None] = {}
        self.home: Place | None = None  # where the first model is defined, or built
        self.steps = 0
        self.unwatched_steps = 0
        self.step_summary: tuple[str, ...] = ()  # of a recorded training step
        self._programs = 0
        self._curve: LossCurve | None = None
        self._chance: dict[int, LossAgainstChance] = {}
        self._evaluations: list[EvaluationCurve] = []

    def hear(self, event: Event) -> None:
        kind = type(event)
        self.counts[kind] += 1
        self.steps = max(self.steps, event.step)
        if kind is Forward or kind is Backward:  # first: there is one of each in every step
            return
        match event:
            case ModelSeen():
                self.models[event.name] = None
                self.home = self.home or event.defined or event.place
            case Stepped():
                self.optimizers[event.name] = None
                self.steps = max(self.steps, event.step + 1)
            case RunStarted():
                self.script = self.script or event.script
            case RunEnded():
                self.unwatched_steps = event.unwatched_steps
            case StepProgram(phase="training") if self._programs < MOST_PROGRAMS:
                self._programs += 1
                self.step_summary = step_summary(event)
            case LossCurve():
                self._curve = event
            case EvaluationCurve():
                self._evaluations.append(event)
            case LossAgainstChance():
                self._chance[event.calls] = event
            case _:
                pass

    def watched(self, rules: int, seconds: float = 0.0) -> Watched:
        counts = self.counts[Backward], self.counts[Forward], self.counts[EpochStarted]
        names = tuple(self.models), tuple(self.optimizers)
        return Watched(self.script, self.steps, *counts, *names, rules, self.unwatched_steps, seconds, self._learning())

    def _learning(self) -> Learning | None:
        curve = self._curve
        if curve is None or curve.count < LEAST_LOSSES or not curve.first:
            return None
        likely = self._chance.get(curve.count)  # of the loss function whose calls are those of backward
        first = median(curve.first)
        alone = curve.optimizers == 1 and curve.share > MAIN_SHARE and not curve.below_zero
        stuck = alone and curve.count >= STUCK_AFTER and curve.end > FALLEN * first
        chance = None if likely is None else likely.chance or None
        return Learning(first, curve.end, chance, stuck, self._evaluation())

    def _evaluation(self) -> tuple[float, int, float] | None:
        """Of the evaluation that was repeated most often; of two, the worse: the other is of the training set."""
        curves = [curve for curve in self._evaluations if len(curve.losses) >= 2]
        if not curves:
            return None
        losses = max(curves, key=lambda curve: (len(curve.losses), curve.losses[-1][1])).losses
        step, best = min(losses, key=lambda pair: pair[1])
        return best, step, losses[-1][1]


@dataclass(frozen=True, slots=True)
class CrashExplanation:
    """What the exception that ended the script means, in the user's terms."""

    kind: str  # `layer-shape`, `in-place` ...: the file of trueloop/crash that recognized it
    message: str  # one sentence with this run's names and numbers
    details: tuple[str, ...]  # where each part came from
    fix: str
    place: Place | None  # the line to change where that is known, otherwise the user's line that crashed
    diff: str = ""  # A unified diff that `patch -p0` applies, where the fix can be written mechanically


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    findings: tuple[Finding, ...]
    watched: Watched
    not_applicable: tuple[NotApplicable, ...]
    outcome: Outcome
    overhead: float | None = None
    """What watching cost, as a share (0.04: four percent): of an unwatched step if measured, else of the run."""
    overhead_measured: bool = False  # True: watched against unwatched steps; False: time spent inside the observers
    allowed: int = 0  # findings that the user has allowed by a comment or a setting
    known: int = 0  # findings that the baseline holds; `findings` are the others
    baseline: str = ""  # the file of --baseline; empty: there is none
    failures: tuple[str, ...] = ()  # tracebacks of trueloop's own failures
    reported_elsewhere: bool = False  # Another rank of the run prints the report; this one only keeps its exit code
    notes: tuple[str, ...] = ()  # what else a reader must know: 'the report of rank 1 is missing: its process died'
    crash: CrashExplanation | None = None  # what the script's own exception means, if it is of a known kind
    facts: tuple[Event, ...] = ()  # what this rank reports about itself, for the rules that compare ranks
    run_folder: str = ""  # where the run is kept; empty: it is not
    step_summary: tuple[str, ...] = ()  # a recorded training step in a few lines; empty: none was recorded
    unwatched: tuple[str, ...] = ()  # commands of Python programs that the script started and that could not be watched
    summary: str = ""  # the closing line where no run was watched; empty: it is built from the numbers above

    def __repr__(self) -> str:
        return f"<Verdict: {self.closing()}>"

    def worst(self) -> Severity | None:
        return max((finding.severity for finding in self.findings), default=None)

    def exit_code(self, fail_on: Severity | None) -> int:
        """The script's own failure first, then trueloop's, then the findings."""
        if self.outcome.exit_code:
            return self.outcome.exit_code
        if self.failures:
            return ExitCode.TRUELOOP_FAILED
        if self.outcome.reason == "hung":
            return ExitCode.FINDINGS  # also with --fail-on never: the script did not finish
        if fail_on is not None and self.unwatched and not self.watched.anything:
            return ExitCode.FINDINGS  # the training was elsewhere, and nobody has checked it
        worst = self.worst()
        found = fail_on is not None and worst is not None and worst >= fail_on
        return ExitCode.FINDINGS if found else ExitCode.CLEAN

    @property
    def added_seconds(self) -> float | None:
        """What watching added to the run."""
        if self.overhead is None:
            return None
        if not self.overhead_measured:
            return self.overhead * self.watched.seconds
        steps = max(1, self.watched.steps)
        share = self.overhead * (steps - self.watched.unwatched_steps) / steps
        return self.watched.seconds * share / (1 + share)

    # -- sentences --

    def headline(self) -> str:
        """'2 errors and 1 warning', 'nothing found', or that no training was seen."""
        if not self.findings:
            if self.outcome.reason == "exception":
                return "the script failed; nothing else was found"
            if not self.watched.anything:
                unseen = "no model was called and no optimizer stepped"
                if not self.unwatched:
                    return f"nothing to check: {unseen}"
                more = f" (and {len(self.unwatched) - 1} more)" if len(self.unwatched) > 1 else ""
                return f"nothing was checked: {unseen}, and `{self.unwatched[0]}`{more} could not be watched"
            learning = self.watched.learning
            stuck = learning is not None and learning.stuck
            nothing = "nothing new found" if self.known else "nothing found"
            return "no known cause found, but the loss did not fall" if stuck and not self.known else nothing
        found = Counter(finding.severity for finding in self.findings)
        parts = [counted(found[severity], *_PLURAL[severity]) for severity in sorted(found, reverse=True)]
        return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]

    def closing_lines(self) -> tuple[str, ...]:
        """What was found in how much of a run; how many rules applied, and the time that checking added."""
        if self.summary:
            return (self.summary,)
        if not self.watched.anything:
            failed = self.outcome.reason == "exception"
            why = UNWATCHED_PROGRAM if self.unwatched else UNSEEN_TRAINING
            return (f"{self.headline()} before its first step" if failed else f"{self.headline()}; {why}",)
        total = self.watched.rules + len(self.not_applicable)
        parts = [f"{self.watched.rules} of {counted(total, 'rule')} applied"]
        parts += [f"{counted(self.allowed, 'finding')} allowed"] if self.allowed else []
        parts += [f"{counted(self.known, 'known finding')} in {self.baseline}"] if self.known else []
        added = self.added_seconds
        if added is not None:
            parts.append(f"checking added {'less than 0.1' if added < 0.1 else f'{added:,.1f}'} s")
        parts += [f"run folder {self.run_folder}"] if self.run_folder else []
        learning = self.watched.learning
        audit = () if learning is None else (learning.sentence(),)
        return f"{self.headline()} in {self.watched.sentence()}", *audit, "; ".join(parts)

    def closing(self) -> str:
        """The closing lines as one."""
        return "; ".join(self.closing_lines())

    def reasons(self) -> dict[str, str]:
        """Why some rules did not apply, and which: 'no schedule was built' -> 'OPT106-108'."""
        codes: dict[str, list[str]] = {}
        for each in self.not_applicable:
            codes.setdefault(each.because, []).append(each.code)
        return {because: span(which) for because, which in codes.items()}

    def broken(self) -> str:
        """What to say when trueloop itself failed; empty when it did not."""
        if not self.failures:
            return ""
        which = "; ".join(failure.partition("\n")[0].rstrip(":") for failure in self.failures)
        return (
            f"trueloop itself failed: {which}. The run continued without that part, so it reports nothing. "
            "Please report the traceback below to the trueloop project."
        )

    # -- for programs --

    def plain(self) -> dict[str, Any]:
        unseen = self.closing_lines() if self.unwatched and not self.watched.anything else ()
        notes = (*self.notes, *unseen)
        own = {"allowed": self.allowed, "known": self.known, "failures": self.failures, "notes": notes}
        named = zip(self.findings, fingerprints(self.findings), strict=True)
        return {
            "findings": [{**_plain_finding(finding), "fingerprint": name} for finding, name in named],
            "watched": {**as_plain(self.watched), **own},
            "not_applicable": self.not_applicable,
            "overhead": self.overhead,
            "script": self.outcome,
            "crash": None if self.crash is None else _with_keys(self.crash),
        }


def _plain_finding(finding: Finding) -> dict[str, Any]:
    plain = _with_keys(finding)
    del plain["why"]
    return plain


def _with_keys(value: Finding | CrashExplanation) -> dict[str, Any]:
    """The fields, with path and line instead of a place."""
    plain: dict[str, Any] = as_plain(value)
    del plain["place"]
    return {**plain, **place_keys(value.place)}


# The likely reason when no training was seen
UNSEEN_TRAINING: Final = (
    "training in processes that the script starts is watched too, but not in those of another Python or on another "
    "machine: run `trueloop check` there"
)

# The same where a program was started that was not watched
UNWATCHED_PROGRAM: Final = (
    "it ran in another Python, on another machine, or with -I, -E or -S: run `trueloop check` there, without these"
)

_PLURAL: Final = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.ADVICE: ("piece of advice", "pieces of advice"),
}


def counted(number: int, word: str, words: str | None = None) -> str:
    """'1 step', '2 steps'."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def span(codes: Iterable[str]) -> str:
    """OPT106 OPT107 OPT108 GRD101 -> 'GRD101, OPT106-108'."""
    numbers = sorted({(code.rstrip("0123456789"), code) for code in codes})
    shown: list[str] = []
    for family, members in groupby(numbers, key=lambda pair: pair[0]):
        digits = [int(code[len(family) :] or 0) for _, code in members]
        for _, run in groupby(enumerate(digits), key=lambda pair: pair[1] - pair[0]):
            row = [number for _, number in run]
            shown.append(f"{family}{row[0]}" + (f"-{row[-1]}" if len(row) > 1 else ""))
    return ", ".join(shown)
