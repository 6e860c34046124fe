"""What was found in a run, what was watched, and what could not be judged: the one value that every report shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from trueloop.finding import Finding, Severity

__all__ = ["ExitCode", "Outcome", "Unjudged", "Verdict", "Watched"]


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

    reason: Literal["finished", "cut", "exception", "interrupted", "exit"]
    """cut: ended early because we were asked to (--steps, --fail-fast)."""
    exit_code: int = 0
    exception: str = ""
    """`RuntimeError: mat1 and mat2 ...`, one line."""


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


@dataclass(frozen=True, slots=True)
class Unjudged:
    code: str
    because: str


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

    def worst(self) -> Severity | None:
        return max((finding.severity for finding in self.findings), default=None)

    def exit_code(self, fail_on: Severity | None) -> int:
        """The script's own failure first, then ours, then what was found."""
        if self.outcome.exit_code:
            return self.outcome.exit_code
        if self.failures:
            return ExitCode.TRUELOOP_FAILED
        worst = self.worst()
        found = fail_on is not None and worst is not None and worst >= fail_on
        return ExitCode.FINDINGS if found else ExitCode.CLEAN
