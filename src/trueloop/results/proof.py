"""The result of `probe`: what was claimed of a training, what was measured, and whether the claim holds.

    proofs.json    {"format": 1, "subject": "digits", "proofs": [{"claim": "resume", "result": "holds", ...}]}

A claim that could not be tested is `unproved`, with the reason, and never counts as one that holds. No torch here.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from trueloop.errors import CannotSave, NotARun
from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.results.check import ExitCode, Outcome, Verdict, Watched, counted
from trueloop.results.plain import as_plain, place_keys
from trueloop.usercode.source import line_of

__all__ = ["FILE", "Cause", "Proof", "Proofs", "read_proofs", "write_proofs"]

FILE: Final = "proofs.json"  # in the folder of a run
FORMAT: Final = 1

Result = Literal["holds", "fails", "unproved"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a claim may fail, and the cheapest way to check it."""

    what: str
    check: str


@dataclass(frozen=True, slots=True)
class Proof:
    """One tested claim."""

    claim: str  # its name: overfit-one-batch
    result: Result
    measured: str  # one sentence with numbers: what was measured, or why nothing could be
    healthy: str  # what is measured where the claim holds
    evidence: Mapping[str, object] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()  # likely causes of a failure, the most likely first
    place: Place | None = None  # the user's line, where there is one
    seconds: float = 0.0
    when: float = 0.0  # seconds since 1970

    def finding(self) -> Finding:
        """A failed claim as a finding."""
        fix = f"{self.causes[0].what} is the most likely cause; {self.causes[0].check}" if self.causes else ""
        return Finding(
            code=f"probe/{self.claim}",
            name=self.claim,
            severity=Severity.ERROR,
            place=self.place,
            message=self.measured,
            why=f"Healthy: {self.healthy}.",
            fix=fix,
            evidence=self.evidence,
            source=line_of(self.place),
        )


@dataclass(frozen=True, slots=True)
class Proofs:
    """All tested claims of one recipe, run or script."""

    subject: str  # as the user named it
    proofs: tuple[Proof, ...]
    failures: tuple[str, ...] = ()  # tracebacks of trueloop's own failures
    script_code: int = 0  # the exit code of a script that failed by itself, so that no claim could be tested
    left_out: tuple[str, ...] = ()  # claims that cannot be tested on this subject
    left_out_needs: str = (
        "a recipe"  # what they need: a script gives no access to its model, an op may lack a reference
    )

    def of(self, result: Result) -> tuple[Proof, ...]:
        return tuple(proof for proof in self.proofs if proof.result == result)

    def exit_code(self) -> int:
        """As of `check`: docs/exit-codes.md."""
        if self.script_code:
            return self.script_code
        if self.failures:
            return ExitCode.TRUELOOP_FAILED
        return ExitCode.FINDINGS if self.of("fails") else ExitCode.CLEAN

    def verdict(self) -> Verdict:
        """The failed claims, for SARIF and GitHub annotations."""
        watched = Watched(self.subject, 0, 0, 0, 0, (), (), len(self.proofs))
        outcome = Outcome("exit", self.script_code) if self.script_code else Outcome("finished")
        findings = tuple(proof.finding() for proof in self.of("fails"))
        summary = f"{self.subject}: {self.closing()}"
        return Verdict(findings, watched, (), outcome, failures=self.failures, summary=summary)

    def plain(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "proofs": [{**as_plain(proof), **place_keys(proof.place)} for proof in self.proofs],
            "holds": len(self.of("holds")),
            "fails": len(self.of("fails")),
            "unproved": len(self.of("unproved")),
            "left_out": self.left_out,
            "failures": self.failures,
            "script_exit_code": self.script_code,
        }

    def closing(self) -> str:
        """'17 of 19 claims hold, 1 fails, 1 could not be tested here; 41 s'."""
        count = Counter(proof.result for proof in self.proofs)
        hold = f"{count['holds']} of {counted(len(self.proofs), 'claim')} {'holds' if count['holds'] == 1 else 'hold'}"
        fail = [f"{count['fails']} {'fails' if count['fails'] == 1 else 'fail'}"] if count["fails"] else []
        open_ones = [f"{count['unproved']} could not be tested here"] if count["unproved"] else []
        where = {"a recipe": "can be tested on a recipe only"}.get(self.left_out_needs, "need `--against REFERENCE`")
        more = f"; {counted(len(self.left_out), 'claim')} more {where}" if self.left_out else ""
        return f"{', '.join([hold, *fail, *open_ones])}{more}; {sum(proof.seconds for proof in self.proofs):.0f} s"


# -- on disk --


def write_proofs(folder: Path, made: Proofs) -> Path:
    """Adds to proofs.json; a claim that was tested again is replaced."""
    path = folder / FILE
    before = read_proofs(folder).proofs if path.is_file() else ()
    again = {proof.claim for proof in made.proofs}
    kept = [proof for proof in before if proof.claim not in again]
    content = {"format": FORMAT, "subject": made.subject, "proofs": [_plain(proof) for proof in (*kept, *made.proofs)]}
    aside = path.with_name(f"{FILE}.writing")
    try:
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        aside.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise CannotSave(
            f"{path} could not be written ({error.strerror}). The results are only on the screen."
        ) from None
    return path


def read_proofs(folder: Path) -> Proofs:
    """The content of proofs.json; empty without the file. Raises NotARun where it is damaged."""
    path = folder / FILE
    if not path.is_file():
        return Proofs(str(folder), ())
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if int(content["format"]) > FORMAT:
            raise NotARun(f"{path} was written by a newer trueloop. Nothing was read: pip install -U trueloop")
        return Proofs(str(content["subject"]), tuple(_proof(each) for each in content["proofs"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = f"remove it, and `trueloop probe {folder}` writes it again."
        raise NotARun(f"{path} is damaged ({error}). Nothing was read: {hint}") from None


def _plain(proof: Proof) -> dict[str, Any]:
    place = None if proof.place is None else {name: getattr(proof.place, name) for name in ("path", "line", "function")}
    return {**as_plain(proof), "place": place, "seconds": round(proof.seconds, 3)}


def _proof(data: dict[str, Any]) -> Proof:
    fields = dict(data)
    place = fields.pop("place", None)
    causes = tuple(Cause(**each) for each in fields.pop("causes", ()))
    made = Proof(**fields, causes=causes)
    if made.result not in ("holds", "fails", "unproved"):
        raise ValueError(f"unknown result {made.result!r}")
    return made if place is None else replace(made, place=Place(**place))
