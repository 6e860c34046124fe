"""Several ranks of one run (torchrun): each watches itself, and one of them reports for all.

The ranks of a machine share a folder in its temporary directory, named after the run. They do not use collectives,
which hang when a rank has died. The folder holds, by rank, `1.pid` (started), `1.calls` (collectives called),
`1.status` (position a second ago) and `1.verdict` (ended); and `reporter`, created by the rank that reports. A verdict
carries facts that only mean something beside those of the other ranks; the reporter checks them together. The
collectives of a rank that died can still be read. When the folder is gone, the report has been printed. Usually the
first rank reports. torchrun kills all ranks as soon as one fails, so a rank that ends waits for that. Nobody waits for
a dead rank, and a rank that failed waits only briefly: then it reports itself, and lists the reports that are missing.
"""

import atexit
import contextlib
import os
import pickle
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self, final

from trueloop.doctor.cross_rank_rules import CrossRankResult, CrossRankRules
from trueloop.doctor.process import state_of
from trueloop.doctor.rank_status import RankStatus, read_status
from trueloop.event import CollectivesCalled, Event
from trueloop.finding import Finding
from trueloop.results.check import NotApplicable, Verdict
from trueloop.rules.catalogue import find_rule
from trueloop.taps.collective_log import read_collective_log

__all__ = ["Rank", "ignore_sigterm", "is_first", "mark_reported", "merge_reports", "merge_verdicts", "own_folder"]
__all__ += ["register_rank", "shared_folder"]

PATIENCE: Final = 8.0
"""Seconds that a failed rank waits for the reporter, and that anyone waits for a rank that never started; torchrun
itself waits 30."""
LATE: Final = 60.0  # Seconds that the reporter waits for a running rank: it may be writing its checkpoint
PAUSE: Final = 0.05
STOPPED: Final = "its process is stopped"


@final
@dataclass(frozen=True, slots=True)
class Rank:
    """One of the processes that torchrun started on this machine."""

    number: int
    first: int  # The first rank on this machine
    peers: int  # Ranks on this machine
    folder: Path

    @classmethod
    def here(cls, environment: Mapping[str, str] = os.environ, *, least: int = 2) -> Self | None:
        """This process; None if it is not one of several (`least`) on this machine."""
        names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")
        rank, local, peers, run = (environment.get(name, "") for name in names)
        if not (rank and local and peers and run) or int(peers) < least:
            return None
        parts = (run, environment.get("MASTER_PORT", ""), environment.get("TORCHELASTIC_RESTART_COUNT", ""))
        # torchrun's own pid distinguishes this run from an earlier one of the same name: the default is 'none', 29500.
        name = "-".join(("trueloop", *("".join(c for c in part if c.isalnum()) for part in parts), str(os.getppid())))
        return cls(int(rank), int(rank) - int(local), int(peers), Path(tempfile.gettempdir()) / name)

    @property
    def others(self) -> list[int]:
        return [number for number in range(self.first, self.first + self.peers) if number != self.number]

    # -- what is in the folder --

    def is_trusted(self) -> bool:
        """Does the folder belong to this user alone? Otherwise its contents cannot be trusted."""
        found = self.folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077

    def put(self, name: str, content: bytes) -> None:
        """Write a file atomically. If the folder is gone, the report has been printed already."""
        aside = self.folder / f"{name}.{self.number}.aside"
        with contextlib.suppress(FileNotFoundError):
            aside.write_bytes(content)
            aside.replace(self.folder / name)

    def claim_report(self) -> bool:
        """Is this the rank that reports?"""
        try:
            (self.folder / "reporter").open("x").close()
        except (FileExistsError, FileNotFoundError):
            return False
        return True

    def has_begun(self, number: int) -> bool:
        return (self.folder / f"{number}.pid").exists()

    def has_ended(self, number: int) -> bool:
        return (self.folder / f"{number}.verdict").exists()

    def has_died(self, number: int) -> bool:
        try:
            process = int((self.folder / f"{number}.pid").read_bytes())
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except (OSError, ValueError):
            return False
        return state_of(process) == "Z"  # a zombie still counts as a process

    def is_stopped(self, number: int) -> bool:
        """By SIGSTOP. A process under a debugger is in another state."""
        try:
            return state_of(int((self.folder / f"{number}.pid").read_bytes())) == "T"
        except (OSError, ValueError):
            return False

    # -- waiting --

    def wait_for_others(self) -> dict[int, str]:
        """Wait until each other rank has ended. Returns the ranks whose verdict will not come, and why."""
        missing: dict[int, str] = {}
        began = time.monotonic()
        for number in self.others:
            while not self.has_ended(number) and number not in missing:
                waited = time.monotonic() - began
                if self.has_died(number) and not self.has_ended(number):
                    missing[number] = "its process died"
                elif self.is_stopped(number):
                    missing[number] = STOPPED
                elif waited > LATE:
                    missing[number] = f"it was still running {LATE:.0f} s later"
                elif waited > PATIENCE and not self.has_begun(number):
                    missing[number] = "it never started"
                else:
                    time.sleep(PAUSE)
        return missing

    def wait_until_reported(self, patience: float) -> bool:
        began = time.monotonic()
        while self.folder.exists():
            if time.monotonic() - began > patience or self.has_died(self.first):
                return False
            time.sleep(PAUSE)
        return True

    def verdicts(self) -> dict[int, Verdict]:
        files = {number: self.folder / f"{number}.verdict" for number in range(self.first, self.first + self.peers)}
        return {number: pickle.loads(file.read_bytes()) for number, file in files.items() if file.exists()}

    def last_seen(self, number: int) -> CollectivesCalled:
        """The collectives of a rank without a verdict."""
        ended: Literal["died", "running"] = "died" if self.has_died(number) else "running"
        return CollectivesCalled(0, None, number, read_collective_log(number, self.folder), ended, "")

    def status_of(self, number: int) -> RankStatus | None:
        """The last sample of a rank, or None."""
        try:
            return read_status((self.folder / f"{number}.status").read_bytes())
        except FileNotFoundError:
            return None


# -- this rank --


def is_first() -> bool:
    """Is this the first, or the only, rank of the run on this machine?"""
    me = Rank.here()
    return me is None or me.number == me.first


def own_folder(folder: Path) -> Path:
    """Where this rank records a run that is recorded in a folder: ranks must not share a file."""
    return folder if is_first() else folder / f"rank-{os.environ['RANK']}"


def register_rank(me: Rank | None = None) -> None:
    """Note in the shared folder that this rank has started."""
    me = me or Rank.here()
    if me is None:
        return
    me.folder.mkdir(mode=0o700, exist_ok=True)
    if me.is_trusted():
        me.put(f"{me.number}.pid", str(os.getpid()).encode())


def shared_folder(me: Rank | None = None) -> Path | None:
    """The shared folder of the ranks on this machine, once this one is registered; None without other ranks."""
    me = me or Rank.here()
    return me.folder if me is not None and me.folder.exists() and me.is_trusted() else None


def merge_reports(verdict: Verdict, rules: CrossRankRules | None = None, me: Rank | None = None) -> Verdict:
    """For the rank that reports, the verdict of all ranks; for the others their own, marked as reported elsewhere."""
    me = me or Rank.here()
    if me is None:
        return verdict
    if not me.folder.exists():
        return replace(verdict, reported_elsewhere=True)  # the report was printed without this rank
    if not me.is_trusted():
        return verdict
    ignore_sigterm()
    me.put(f"{me.number}.verdict", pickle.dumps(verdict))
    missing: dict[int, str] = {}
    if me.number == me.first:
        missing = me.wait_for_others()
    else:
        broken = verdict.outcome.exit_code or verdict.outcome.reason == "hung"
        if me.wait_until_reported(PATIENCE if broken else float("inf")):
            return replace(verdict, reported_elsewhere=True)
    if not me.claim_report():
        me.wait_until_reported(PATIENCE)
        return replace(verdict, reported_elsewhere=True)
    atexit.register(mark_reported, me)
    found = {me.number: verdict, **me.verdicts()}
    late = [number for number in me.others if number not in found and number not in missing]
    missing |= {number: STOPPED if me.is_stopped(number) else "it was still running" for number in late}
    silent = [me.last_seen(number) for number in sorted(missing)]
    facts: list[Event] = [fact for one in found.values() for fact in one.facts]
    joint = CrossRankResult() if rules is None else rules.check([*facts, *silent])
    return merge_verdicts(verdict, found, missing, joint)


def ignore_sigterm() -> None:
    """torchrun terminates all ranks when one has died. This rank's script has ended, and the report takes less time
    than torchrun's grace period."""
    if Rank.here() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def mark_reported(me: Rank | None = None) -> None:
    """The report has been printed: release the other ranks."""
    me = me or Rank.here()
    if me is not None:
        shutil.rmtree(me.folder, ignore_errors=True)


# -- merging verdicts --


_ALONE: Final = CrossRankResult()


def merge_verdicts(
    own: Verdict, found: Mapping[int, Verdict], missing: Mapping[int, str], joint: CrossRankResult = _ALONE
) -> Verdict:
    """The reporter's verdict, with the findings of the other ranks, and those from comparing ranks."""
    together: dict[object, dict[int, Finding]] = {}
    for number, verdict in sorted(found.items()):
        for finding in verdict.findings:
            cause = (finding.code, finding.place and (finding.place.path, finding.place.line))
            together.setdefault(cause, {})[number] = finding
    findings = _unexplained([*(_one(finding_on, len(found)) for finding_on in together.values()), *joint.findings])
    alone = _applied_by_none([verdict.not_applicable for verdict in found.values()])
    not_applicable = (*(one for one in alone if one.code not in joint.codes), *joint.unjudged)
    broken = [f"on rank {number}: {failure}" for number in sorted(found) for failure in found[number].failures]
    absent = [f"the report of rank {number} is missing: {why}" for number, why in sorted(missing.items())]
    return replace(
        own,
        findings=tuple(sorted(findings, key=lambda f: -f.severity)),
        watched=replace(own.watched, rules=own.watched.rules + len(own.not_applicable) - len(not_applicable)),
        not_applicable=not_applicable,
        allowed=own.allowed + joint.allowed,
        failures=(*broken, *joint.failures),
        notes=(*own.notes, *absent),
    )


def _one(finding_on: Mapping[int, Finding], ranks: int) -> Finding:
    first = next(iter(finding_on.values()))
    where = f"all {ranks} ranks" if len(finding_on) == ranks > 1 else _words(finding_on)
    return replace(
        first,
        message=f"{first.message.rstrip('.')} (on {where}).",
        evidence={**first.evidence, "ranks": sorted(finding_on)},
        count=sum(finding.count for finding in finding_on.values()),
        first_step=min(finding.first_step for finding in finding_on.values()),
    )


def _unexplained(findings: list[Finding]) -> list[Finding]:
    """One finding per cause: a rank's own finding may explain what the comparison shows, and the other way round."""
    reported = {finding.name for finding in findings}
    return [finding for finding in findings if not reported & set(find_rule(finding.code).explained_by)]


def _words(numbers: Iterable[int]) -> str:
    shown = [str(number) for number in sorted(numbers)]
    return f"rank {shown[0]}" if len(shown) == 1 else f"ranks {', '.join(shown[:-1])} and {shown[-1]}"


def _applied_by_none(each: Iterable[tuple[NotApplicable, ...]]) -> tuple[NotApplicable, ...]:
    """Rules that no rank could apply, with the reason of the first."""
    first, *others = each
    return tuple(one for one in first if all(any(other.code == one.code for other in unjudged) for unjudged in others))
