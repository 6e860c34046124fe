"""The results of `lab`: a lab that was run, an exercise that was checked, and the list of labs. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from trueloop.results.check import ExitCode
from trueloop.results.document import Part
from trueloop.results.plain import as_plain

__all__ = ["GROUPS", "Check", "ExerciseCheck", "LabEntry", "LabRun", "LabRuns", "Labs", "Sentence", "State"]

GROUPS: Final = {
    "tensors": "Tensors",
    "autograd": "Autograd",
    "modules": "Modules and optimizers",
    "data": "Data",
    "performance": "Performance",
    "kernels": "Kernels",
    "processes": "More processes",
    "shipping": "Shipping",
    "hard": "Hard problems",
    "source": "Source",
}
"""Folder -> heading."""
State = Literal["proven", "stale", ""]


@dataclass(frozen=True, slots=True)
class LabEntry:
    """A lab as its file describes it, and what is proved about it."""

    name: str
    group: str
    question: str
    exercise: bool
    needs: str  # empty, gpu, package NAME, program NAME
    seconds: int  # at most, on a CPU
    state: State = ""
    when: float = 0.0  # of the proof, seconds since 1970
    why: str = ""  # it is stale


@dataclass(frozen=True, slots=True)
class Labs:
    """The list, or the checklist of --progress."""

    entries: tuple[LabEntry, ...]
    folder: str  # of the proofs
    progress: bool = False

    def plain(self) -> dict[str, Any]:
        return {"labs": as_plain(self.entries), "proofs": self.folder}


@dataclass(frozen=True, slots=True)
class Sentence:
    """Part of an answer: it holds only as long as the measurement says so."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class LabRun:
    name: str
    question: str
    about: str  # the introduction
    code: str
    shown: tuple[Part, ...] = ()  # tables and pictures
    sentences: tuple[Sentence, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    not_here: str = ""  # what is missing here: nothing was measured
    error: str = ""  # the traceback of a lab that failed, where others still run
    seconds: float = 0.0
    exercise: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def contradicted(self) -> tuple[Sentence, ...]:
        return tuple(each for each in self.sentences if not each.holds)

    def holds(self) -> bool:
        """Measured, and every sentence is right."""
        return bool(self.sentences) and not self.contradicted

    def exit_code(self) -> int:
        if self.error:
            return ExitCode.TRUELOOP_FAILED
        return ExitCode.FINDINGS if self.contradicted else ExitCode.CLEAN

    def plain(self) -> dict[str, Any]:
        return {
            "lab": self.name,
            "question": self.question,
            "code": self.code,
            "measured": self.measured,
            "answer": as_plain(self.sentences),
            "holds": self.holds(),
            "not_here": self.not_here,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "versions": dict(self.versions),
        }


@dataclass(frozen=True, slots=True)
class LabRuns:
    """All labs, one after another."""

    runs: tuple[LabRun, ...]

    def exit_code(self) -> int:
        return max((run.exit_code() for run in self.runs), default=0)

    def plain(self) -> dict[str, Any]:
        return {"labs": [run.plain() for run in self.runs]}


@dataclass(frozen=True, slots=True)
class Check:
    """One check of an exercise."""

    what: str
    holds: bool
    hint: str = ""  # where it does not hold
    measured: str = ""


@dataclass(frozen=True, slots=True)
class ExerciseCheck:
    lab: str
    file: str
    checks: tuple[Check, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(each for each in self.checks if not each.holds)

    def holds(self) -> bool:
        return bool(self.checks) and not self.failed

    def exit_code(self) -> int:
        return ExitCode.CLEAN if self.holds() else ExitCode.FINDINGS

    def plain(self) -> dict[str, Any]:
        return {
            "lab": self.lab, "file": self.file, "checks": as_plain(self.checks), "solved": self.holds(),
            "versions": dict(self.versions),
        }  # fmt: skip
