"""A watch over a run: taps in, probes connected, events judged as they come, a verdict at the end."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

import torch

from trueloop.doctor.allow import is_allowed
from trueloop.event import Backward, EpochStarted, Event, Forward, ModelSeen, RunEnded, RunStarted, Stepped
from trueloop.finding import Finding, Severity
from trueloop.probes.assemble import assemble
from trueloop.rules.catalogue import select as select_rules
from trueloop.rules.judge import Judge
from trueloop.run import Recorder
from trueloop.settings import Settings, load_settings
from trueloop.taps.board import Board
from trueloop.taps.moment import RunEnd
from trueloop.taps.wire import Wire
from trueloop.verdict import Outcome, Unjudged, Verdict, Watched

__all__ = ["Watch", "watch"]

_COUNTED = frozenset({Backward, EpochStarted, Forward, ModelSeen, Stepped})
"""Always watched: the closing line says how many there were."""


class Watch:
    """One watched run. `start` and `stop` by hand, or as a context."""

    def __init__(
        self,
        *,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        budget: float | None = None,
        last_step: int | None = None,
        record: Path | None = None,
        settings: Settings | None = None,
        script: str = "",
        on_error: Callable[[Finding], bool] | None = None,
        show: Callable[[Verdict], None] | None = None,
    ) -> None:
        self.settings = load_settings(Path.cwd()) if settings is None else settings
        rules = select_rules(tuple(select) or self.settings.select, (*ignore, *self.settings.ignore))
        self.judge = Judge(rules)
        self.script = script or sys.argv[0]
        self.verdict: Verdict | None = None
        """Set when the watch has ended."""
        self._on_error = on_error
        """Told of each error at once; True asks the run to end."""
        self._show = show
        self._wire = Wire(self._hear)
        assemble(self._wire, self.judge.wanted | _COUNTED)
        self._board = Board(self._wire, budget, last_step)
        self._recorder = None if record is None else Recorder(record)
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._names: dict[type[Event], dict[str, None]] = {ModelSeen: {}, Stepped: {}}
        self._pid = os.getpid()
        self._began = 0.0
        self._running = False

    # -- life --

    def start(self) -> Self:
        self._began = perf_counter()
        self._running = True
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self._hear(RunStarted(0, None, self.script, tuple(sys.argv[1:]), sys.version.split()[0], torch.__version__, rank, size))
        self._board.install()
        # A forked child (a DataLoader worker) inherits the patches: there they let everything pass.
        wire = weakref.ref(self._wire)
        os.register_at_fork(after_in_child=lambda: _silence(wire()))
        return self

    def stop(self, outcome: Outcome | None = None) -> Verdict:
        """End the watch, put torch back as it was, and judge."""
        outcome = outcome or Outcome("finished")
        if self.verdict is not None:
            return self.verdict
        self._wire.awake = True
        self._wire.tell("run_ended", RunEnd(outcome.reason))
        self._board.remove()
        counts = self._counts
        self._hear(RunEnded(self._wire.step, None, outcome.reason, counts[EpochStarted], counts[Forward], self._board.unwatched_steps))
        self._running = False
        self.verdict = self._conclude(outcome)
        if self._recorder is not None:
            self._recorder.close({"script": self.script, "arguments": sys.argv[1:], "torch": torch.__version__, "reason": outcome.reason})
        return self.verdict

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        outcome = Outcome("finished") if value is None else Outcome("exception", 1, f"{type(value).__name__}: {value}")
        verdict = self.stop(outcome)
        if self._show is not None:
            self._show(verdict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What has been found so far."""
        return self.verdict.findings if self.verdict is not None else self._kept()[0]

    # -- events --

    def _hear(self, event: Event) -> None:
        kind = type(event)
        if kind in self._counts:
            self._counts[kind] += 1
            if isinstance(event, (ModelSeen, Stepped)):
                self._names[kind][event.name] = None
        if self._recorder is not None:
            self._recorder.write(event)
        for finding in self.judge.tell(event):
            severe = self.settings.severity_of(finding) is Severity.ERROR
            if severe and self._on_error is not None and not self._excused(finding) and self._on_error(finding):
                self._wire.stop_asked = f"--fail-fast: {finding.code}"

    def _excused(self, finding: Finding) -> bool:
        return self.settings.ignores(finding) or is_allowed(finding)

    # -- verdict --

    def _kept(self) -> tuple[tuple[Finding, ...], int]:
        found = self.judge.findings()
        kept = [replace(f, severity=self.settings.severity_of(f)) for f in found if not self._excused(f)]
        return tuple(sorted(kept, key=lambda f: -f.severity)), len(found) - len(kept)

    def _conclude(self, outcome: Outcome) -> Verdict:
        findings, allowed = self._kept()
        seconds = perf_counter() - self._began
        unjudged = tuple(Unjudged(code, because) for code, because in self.judge.unjudged())
        measured = self._board.overhead
        return Verdict(
            findings=findings,
            watched=Watched(
                script=self.script,
                steps=self._wire.step,
                backwards=self._counts[Backward],
                batches=self._counts[Forward],
                epochs=self._counts[EpochStarted],
                models=tuple(self._names[ModelSeen]),
                optimizers=tuple(self._names[Stepped]),
                rules=len(self.judge.rules) - len(unjudged),
                unwatched_steps=self._board.unwatched_steps,
                seconds=seconds,
            ),
            not_judged=unjudged,
            outcome=outcome,
            overhead=measured if measured is not None else self._wire.spent_ns / 1e9 / max(seconds, 1e-9),
            overhead_measured=measured is not None,
            allowed=allowed,
            failures=(*self._wire.failures, *self.judge.failures),
        )


def _silence(wire: Wire | None) -> None:
    if wire is not None:
        wire.busy = True


def watch(
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    budget: float | None = None,
    record: str | Path | None = None,
) -> Watch:
    """Watch what follows, from a script or a notebook, by the rules of `trueloop check`.

    `trueloop.watch()` as a script's first line reports when the program ends; `with trueloop.watch() as w:` around a loop reports
    at the end of the block, and `w.findings` holds what was found.
    """
    from trueloop.report.terminal import print_verdict

    folder = None if record is None else Path(record)
    made = Watch(select=select, ignore=ignore, budget=budget, record=folder, show=print_verdict)
    if multiprocessing.parent_process() is not None:
        return made  # a spawned worker imports the script anew: the run is watched where it was started
    made.start()
    atexit.register(_report_at_exit, made)
    return made


def _report_at_exit(made: Watch) -> None:
    if made.verdict is None and os.getpid() == made._pid:
        made.__exit__(None, None, None)
