"""What was found in a run, what was watched, and what could not be judged: the one value that every report shows.

The sentences that all reports share are written here too, so that they say the same thing in every format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from typing import Final, Literal

from trueloop.event import Backward, EpochStarted, Event, Forward, ModelSeen, Place, RunEnded, RunStarted, Stepped
from trueloop.finding import Finding, Severity

__all__ = ["CrashExplanation", "ExitCode", "Outcome", "Tally", "Unjudged", "Verdict", "Watched", "counted", "span"]


class ExitCode(IntEnum):
    """How `trueloop check` ends. A script that fails by itself keeps its own code, and the report says so."""

    CLEAN = 0
    """Nothing found at or above --fail-on."""
    FINDINGS = 1
    """Findings at or above --fail-on."""
    TRUELOOP_FAILED = 3
    """A probe or a rule broke. The run went on unwatched by it, and the report says which."""
    MISUSE = 4
    """The command or a setting is wrong; nothing was run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the script itself ended."""

    reason: Literal["finished", "cut", "exception", "interrupted", "exit", "hung"]
    """cut: ended early because we were asked to (--steps, --fail-fast); hung: ended by us, because its ranks could
    never meet again."""
    exit_code: int = 0
    exception: str = ""
    """`RuntimeError: mat1 and mat2 ...`, or what interrupted it, in one line."""

    def sentence(self) -> str:
        """What there is to say of the script's own end, told apart from what was found; empty when it simply
        finished."""
        passed_on = f" Exit code {self.exit_code} is the script's own." if self.exit_code else ""
        match self.reason:
            case "exception":
                return f"The script itself failed: {self.exception or 'an exception'}.{passed_on}"
            case "interrupted":
                return f"The run was interrupted ({self.exception or 'KeyboardInterrupt'}) and is judged as far as it went.{passed_on}"
            case "exit" if self.exit_code:
                return f"The script itself ended with sys.exit({self.exit_code}).{passed_on}"
            case "cut":
                return "The run was ended early, as asked."
            case "hung":
                return "The run was ended: its ranks waited for one another, and would have waited on."
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class Watched:
    """How much of the run was seen."""

    script: str
    steps: int
    backwards: int
    batches: int
    """Calls of models."""
    epochs: int
    """Passes over loaders."""
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    rules: int
    """Rules that could judge."""
    unwatched_steps: int = 0
    seconds: float = 0.0

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
        slept = (
            f" ({counted(self.unwatched_steps, 'step')} unwatched, to stay inside the budget)"
            if self.unwatched_steps
            else ""
        )
        return f"{', '.join(parts[:-1])} and {parts[-1]}{slept}"


@dataclass(frozen=True, slots=True)
class Unjudged:
    code: str
    because: str


class Tally:
    """Counts, while the events come, what the closing line says was watched."""

    KINDS = frozenset({Backward, EpochStarted, Forward, ModelSeen, Stepped})
    """What is counted, and so must be watched whichever rules are chosen."""

    def __init__(self, script: str = "") -> None:
        self.script = script
        self.counts: Counter[type[Event]] = Counter()
        self.models: dict[str, None] = {}
        self.optimizers: dict[str, None] = {}
        self.home: Place | None = None
        """Where the first model is written, or built."""
        self.steps = 0
        self.unwatched_steps = 0

    def hear(self, event: Event) -> None:
        self.counts[type(event)] += 1
        self.steps = max(self.steps, event.step)
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
            case _:
                pass

    def watched(self, rules: int, seconds: float = 0.0) -> Watched:
        return Watched(
            script=self.script,
            steps=self.steps,
            backwards=self.counts[Backward],
            batches=self.counts[Forward],
            epochs=self.counts[EpochStarted],
            models=tuple(self.models),
            optimizers=tuple(self.optimizers),
            rules=rules,
            unwatched_steps=self.unwatched_steps,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class CrashExplanation:
    """What the exception that ended the script means, in the user's terms."""

    kind: str
    """`layer-shape`, `in-place` ...: the file of trueloop/crash that recognised it."""
    message: str
    """One sentence with this run's names and numbers."""
    details: tuple[str, ...]
    """Where each part came from."""
    fix: str
    place: Place | None
    """The line to change where that is known, otherwise the user's line that crashed."""
    diff: str = ""
    """A unified diff that `patch -p0` applies, where the fix can be written mechanically."""


@dataclass(frozen=True, slots=True)
class Verdict:
    findings: tuple[Finding, ...]
    watched: Watched
    not_judged: tuple[Unjudged, ...]
    outcome: Outcome
    overhead: float | None = None
    """What watching cost, as a share of the run (0.04: four percent)."""
    overhead_measured: bool = False
    """True: watched steps against unwatched ones of this run; False: the time spent inside the probes."""
    allowed: int = 0
    """Findings that the user has allowed by a comment or a setting."""
    failures: tuple[str, ...] = field(default_factory=tuple)
    """Where trueloop itself broke: tracebacks."""
    told_elsewhere: bool = False
    """Another rank of the same run shows the report; this one only keeps its exit code."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides: 'the report of rank 1 is missing: its process died'."""
    crash: CrashExplanation | None = None
    """What the script's own exception means, if it is of a known kind."""
    facts: tuple[Event, ...] = ()
    """What this rank says about itself for the ranks to be judged together."""
    summary: str = ""
    """The closing line of what was no watched run; empty: it is made of the numbers above."""

    def worst(self) -> Severity | None:
        return max((finding.severity for finding in self.findings), default=None)

    def exit_code(self, fail_on: Severity | None) -> int:
        """The script's own failure first, then ours, then what was found."""
        if self.outcome.exit_code:
            return self.outcome.exit_code
        if self.failures:
            return ExitCode.TRUELOOP_FAILED
        if self.outcome.reason == "hung":
            return ExitCode.FINDINGS  # also with --fail-on never: the script did not come to its end
        worst = self.worst()
        found = fail_on is not None and worst is not None and worst >= fail_on
        return ExitCode.FINDINGS if found else ExitCode.CLEAN

    # -- sentences --

    def headline(self) -> str:
        """'2 errors and 1 warning', 'nothing found', or that there was nothing to look at."""
        if not self.findings:
            return (
                "nothing found"
                if self.watched.anything
                else "nothing to judge: no model was called and no optimizer stepped"
            )
        found = Counter(finding.severity for finding in self.findings)
        parts = [counted(found[s], *_SPOKEN[s]) for s in sorted(found, reverse=True)]
        return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]

    def closing(self) -> str:
        """The one line at the end: what was found and watched, what could not be judged and why, what it cost."""
        if self.summary:
            return self.summary
        if not self.watched.anything:
            return "; ".join([self.headline(), UNSEEN_TRAINING, *self.notes])
        parts = [f"{self.headline()} in {self.watched.sentence()}"]
        parts.append(f"{counted(self.watched.rules, 'rule')} judged")
        if self.not_judged:
            reasons = [f"{because} ({which})" for because, which in self.reasons().items()]
            why = f": {', '.join(reasons)}" if len(reasons) <= LISTED else " (--format json says why)"
            parts.append(f"{counted(len(self.not_judged), 'rule')} had nothing to judge{why}")
        if self.allowed:
            parts.append(f"{counted(self.allowed, 'finding')} allowed")
        if self.overhead is not None:
            took = "" if self.overhead_measured else f", {self.overhead * self.watched.seconds:.2f} s"
            parts.append(f"watching cost {self.overhead:.1%}{took}")
        return "; ".join([*parts, *self.notes])

    def reasons(self) -> dict[str, str]:
        """Why some rules had nothing to judge, and which: 'no schedule was built' -> 'OPT106-108'."""
        codes: dict[str, list[str]] = {}
        for unjudged in self.not_judged:
            codes.setdefault(unjudged.because, []).append(unjudged.code)
        return {because: span(which) for because, which in codes.items()}

    def broken(self) -> str:
        """What to say when trueloop itself failed; empty when it did not."""
        if not self.failures:
            return ""
        which = "; ".join(failure.partition("\n")[0].rstrip(":") for failure in self.failures)
        return (
            f"trueloop itself failed: {which}. The run went on without that part, so its silence proves nothing. "
            "Please report the traceback below to the trueloop project."
        )


LISTED: Final = 6
"""Reasons for not judging that the closing line gives: with more of them nobody would find what was found."""
UNSEEN_TRAINING: Final = (
    "training in processes that the script starts itself is not watched: use `torchrun -m trueloop check` for those"
)
"""What to say when nothing was seen: the likely reason, if there was any training at all."""

_SPOKEN: Final = {
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
