"""Watches a run: installs taps, subscribes observers, checks events as they come, and returns a verdict."""

from __future__ import annotations

import atexit
import copy
import multiprocessing
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Final, Literal, NoReturn, Self

import torch

from trueloop.crash.explain import explained
from trueloop.doctor.allow import chosen_rules, filter_findings, is_suppressed
from trueloop.doctor.cell_reports import CellReports, display_report, notebook_name, running_shell
from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.hang import HANG_AFTER, Watchdog, end_workers
from trueloop.doctor.launch import outcome_of
from trueloop.doctor.ranks import Rank, mark_reported, merge_reports, own_folder, register_rank, shared_folder
from trueloop.doctor.run_record import RunRecord
from trueloop.doctor.traceback import CleanTracebacks, strip
from trueloop.doctor.watch_options import WatchOptions
from trueloop.errors import Misuse
from trueloop.event import EpochStarted, Event, Forward, RankFact, RunEnded, RunStarted
from trueloop.finding import Finding, Severity
from trueloop.hook import log_to, stop_logging_to
from trueloop.observers.assemble import assemble
from trueloop.observers.interim import publish_end_to_copies
from trueloop.report import document_of
from trueloop.report.html import fragment
from trueloop.results.check import ExitCode, NotApplicable, Outcome, Tally, Verdict
from trueloop.rules.checker import Checker
from trueloop.run import Recorder
from trueloop.taps.bus import Bus
from trueloop.taps.calls import LinePrinted, RunEnd
from trueloop.taps.place import here
from trueloop.taps.printed_lines import PrintedLines
from trueloop.taps.registry import TapRegistry
from trueloop.taps.step_log import StepLog
from trueloop.usercode.settings import Settings, load_settings

__all__ = ["Watch", "current_watch", "leave_parents_watch", "observe", "watch", "watch_cell"]

ALREADY: Final = "This run is already watched: end that watch first, by stop() or by leaving its with block."
_UNDER_WAY: Final = Outcome("interrupted", 0, "the script still runs, or was killed")
SHARDED: Final = "weights are sharded over several ranks (DTensor), so rules that read their values were not applied"
"""Printed after a run with FSDP or tensor parallelism: reading a sharded weight would make all ranks wait."""


class Watch:
    """One watched run, by `start` and `stop`, or as a context."""

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
        hang_after: float = HANG_AFTER,
        on_hang: Callable[[Verdict], object] | None = None,
        show: Callable[[Verdict], None] | None = None,
        instead: Watch | Literal["elsewhere"] | None = None,
        on_joined: Callable[[int, int], None] | None = None,
        hear: Callable[[Event], None] | None = None,
        run: RunRecord | None = None,
    ) -> None:
        self.settings = load_settings(Path.cwd()) if settings is None else settings
        folder = "" if run is None else str(run.folder)
        self.options = WatchOptions(tuple(select), tuple(ignore), budget, last_step, self.settings, folder)
        rules = chosen_rules(self.settings, self.options.select, self.options.ignore)
        self.checker = Checker(rules)
        self.cross_rank = CrossRankRules(rules, self.settings)  # Checks the facts of all ranks, on the reporting rank
        self.script = script or sys.argv[0]
        self.verdict: Verdict | None = None  # Set when the watch has ended
        self._on_error = on_error  # Called for each error at once; returns True to end the run
        self._hang_after = hang_after
        self._on_hang = on_hang  # Shows the verdict of a hang and ends the process; without it, hangs are not detected
        self._watchdog: Watchdog | None = None
        self._ended_by: int | None = None  # The thread that ends the run: its own, or the one that detects hangs
        self._end_lock = threading.Lock()
        self._facts: list[Event] = []
        self._show = show
        self._on_joined = on_joined  # In a process that the script started: told its rank. Another process reports.
        self._hear = hear  # Gets every event, and checks it instead of this watch
        self._instead = instead  # Watches instead of this one: a watch that runs already, or one in another process
        self._run = run  # Gets rows of metrics, events and findings while the run lasts
        self._bus = Bus(self._receive)
        self._step_log = None if run is None else StepLog(self._bus, run.add_rows)
        self._printed = PrintedLines(self._line_printed)
        assemble(self._bus, self.checker.needed_events | Tally.KINDS)
        self._registry = TapRegistry(self._bus, budget, last_step)
        self._recorder = None if record is None else Recorder(own_folder(record))
        self._tally = Tally(self.script)
        self._tracebacks = CleanTracebacks()
        self.pid = os.getpid()
        self._began = 0.0

    def start(self) -> Self:
        """Install the taps. Does nothing if this watch is running, or if another watch is running instead."""
        global _running
        if _running is self or self._instead is not None:
            return self
        if _running is not None:
            raise Misuse(ALREADY)
        if self.verdict is not None:
            raise Misuse("This watch has ended. Call trueloop.watch() for a new one.")
        _running = self
        if self._on_joined is None:
            register_rank()
            self._bus.ranks_folder = shared_folder()
        self._bus.on_joined = self._joined
        self._began = perf_counter()
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        versions = (sys.version.split()[0], torch.__version__)
        self._receive(RunStarted(0, None, self.script, tuple(sys.argv[1:]), *versions, rank, size))
        self._registry.install()
        self._tracebacks.install()
        self._start_log()
        if sys.platform != "win32":
            # A forked child (a DataLoader worker) inherits the patches: there they do nothing.
            bus = weakref.ref(self._bus)
            os.register_at_fork(after_in_child=lambda: _silence(bus()))
        return self

    def stop(self, outcome: Outcome | None = None, error: BaseException | None = None) -> Verdict:
        """End the watch, restore torch, and return the verdict; `error` is the exception that ended the run."""
        global _running
        outcome = outcome or Outcome("finished")
        if not self._may_end():
            threading.Event().wait()  # the thread that detected the hang is about to end this process
        if self.verdict is not None:
            return self.verdict
        if self._watchdog is not None:
            self._watchdog.leave()
        self._bus.publish_run_end(RunEnd(outcome.reason, error))
        self._end_log()
        self._registry.remove()
        self._tracebacks.remove()
        _running = None if _running is self else _running
        self._receive(self._run_ended(self._tally, outcome))
        self.verdict = explained(self._conclude(outcome, self.checker, self._tally), error)
        if self._recorder is not None:
            versions = {"torch": torch.__version__, "python": sys.version.split()[0]}
            end = {"reason": outcome.reason, "exit_code": outcome.exit_code, "exception": outcome.exception}
            self._recorder.close({"script": self.script, "arguments": sys.argv[1:], **versions, **end})
        return self.verdict

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self.close(error)

    def close(self, error: BaseException | None = None) -> None:
        """End the watch and show the report, once."""
        if self._instead is not None or self.verdict is not None:
            return
        if error is not None:
            strip(error)
        verdict = merge_reports(self.stop(outcome_of(error), error), self.cross_rank)
        if self._run is not None:
            verdict = replace(verdict, run_folder=self._run.shown)
        if self._show is not None and not verdict.reported_elsewhere:
            self._show(verdict)
            mark_reported()
        if self._run is not None:
            self._run.conclude(verdict, verdict.outcome.exit_code)

    def end_run(self) -> None:
        """End the watch and its run folder without a report."""
        if self._instead is None and os.getpid() == self.pid:
            verdict = self.stop()
            if self._run is not None:
                self._run.conclude(verdict, verdict.outcome.exit_code)

    # -- the curve of the run --

    def _start_log(self) -> None:
        if self._step_log is not None:
            self._bus.step_log = self._step_log
            log_to(self._step_log.log)
        if self._step_log is not None or self._bus.has_subscribers("line_printed"):
            self._printed.install()

    def _line_printed(self, line: str) -> None:
        if self._step_log is not None:
            self._step_log.printed(line)
        if not self._bus.is_foreign():
            self._bus.publish("line_printed", LinePrinted(line, here()))

    def _end_log(self) -> None:
        self._printed.remove()
        if self._step_log is None:
            return
        stop_logging_to(self._step_log.log)
        self._step_log.finish()
        self._bus.step_log = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far."""
        if isinstance(self._instead, Watch):
            return self._instead.findings
        if self.verdict is not None:
            return self.verdict.findings
        return filter_findings(self.checker.findings(), self.settings)[0]

    @property
    def has_trained(self) -> bool:
        """Has an optimizer stepped?"""
        return self._bus.step > 0

    @property
    def events(self) -> int:
        """How many were received."""
        return self._tally.counts.total()

    def so_far(self) -> Verdict:
        """The verdict as it would be if the run ended now. The watch continues; torch is not touched."""
        if isinstance(self._instead, Watch):
            return self._instead.so_far()
        if self.verdict is not None:
            return self.verdict
        checker, tally = copy.deepcopy((self.checker, self._tally))

        def hear(event: Event) -> None:
            tally.hear(event)
            checker.check(event)

        failures = publish_end_to_copies(self._bus, RunEnd("finished", None), hear)
        hear(self._run_ended(tally, Outcome("finished")))
        checker.failures += failures
        return self._conclude(Outcome("finished"), checker, tally)

    def __repr__(self) -> str:
        if self._instead == "elsewhere" or (self.verdict is None and _running is not self and self._instead is None):
            return "<trueloop.Watch: not running in this process>"
        return f"<trueloop.Watch: {self.so_far().closing()}>"

    def _repr_html_(self) -> str | None:
        """In a notebook: the report as it is now."""
        return None if self._instead == "elsewhere" else fragment(document_of(self.so_far()))

    # -- ranks that hang --

    def _joined(self) -> None:
        if self._on_joined is not None:
            self._on_joined(torch.distributed.get_rank(), torch.distributed.get_world_size())
            return
        me = Rank.here()
        if self._on_hang is None or self._bus.ranks_folder is None or self._bus.collective_log is None or me is None:
            return
        self._watchdog = Watchdog(me, self._bus.collective_log, self.cross_rank, self._hang_after, self._end_hung)
        self._watchdog.start()

    def _may_end(self) -> bool:
        """Only the first thread that ends the run may do so; the same one may ask again."""
        with self._end_lock:
            self._ended_by = self._ended_by or threading.get_ident()
        return self._ended_by == threading.get_ident()

    def _end_hung(self, stalled: tuple[RankFact, ...]) -> None:
        """Called by the watchdog: the script's own thread will not return."""
        if self._on_hang is None or not self._may_end():
            return
        for fact in stalled:
            self._receive(fact)
        end_workers()
        try:
            self._on_hang(merge_reports(self.stop(Outcome("hung")), self.cross_rank))
        finally:
            os._exit(ExitCode.TRUELOOP_FAILED)  # only if showing it failed: `_on_hang` ends the process

    # -- events --

    def _receive(self, event: Event) -> None:
        if self._hear is not None:
            if not isinstance(event, RunEnded):  # only the run that is observed knows its ending
                self._hear(event)
            return
        self._tally.hear(event)
        if isinstance(event, RankFact):
            self._facts.append(event)
        if self._recorder is not None:
            self._recorder.write(event)
        if self._run is not None and self._step_log is not None:
            self._run.hear(event)
            self._step_log.hear(event)
        for finding in self.checker.check(event):
            if self._run is not None:
                self._run.found_something(lambda: self._conclude(_UNDER_WAY, self.checker, self._tally))
            severe = self.settings.severity_of(finding) is Severity.ERROR and not is_suppressed(finding, self.settings)
            if severe and self._on_error is not None and self._on_error(finding):
                self._bus.stop_reason = f"--fail-fast: {finding.code}"

    # -- verdict --

    def _run_ended(self, tally: Tally, outcome: Outcome) -> RunEnded:
        epochs, forwards = tally.counts[EpochStarted], tally.counts[Forward]
        return RunEnded(self._bus.step, None, outcome.reason, epochs, forwards, self._registry.unwatched_steps)

    def _conclude(self, outcome: Outcome, checker: Checker, tally: Tally) -> Verdict:
        findings, allowed = filter_findings(checker.findings(), self.settings)
        seconds = perf_counter() - self._began
        unjudged = tuple(NotApplicable(code, because) for code, because in checker.not_applicable())
        measured = self._registry.overhead
        recording = [self._recorder.failure] if self._recorder is not None and self._recorder.failure else []
        complaint = "" if self._step_log is None else self._step_log.complaint
        return Verdict(
            findings=findings,
            watched=tally.watched(len(checker.rules) - len(unjudged), seconds),
            not_applicable=unjudged,
            outcome=outcome,
            overhead=measured if measured is not None else self._bus.spent_ns / 1e9 / max(seconds, 1e-9),
            overhead_measured=measured is not None,
            allowed=allowed,
            failures=(*self._bus.failures, *checker.failures, *recording),
            notes=(
                *((SHARDED,) if self._bus.sharded else ()),
                *((f"{complaint}: give a number",) if complaint else ()),
            ),
            facts=tuple(self._facts),
            step_summary=tally.step_summary,
        )


_running: Watch | None = None  # The watch of this process: torch can be patched only once


def current_watch() -> Watch | None:
    """The watch of this process, if one runs."""
    return _running if _running is not None and _running.pid == os.getpid() else None


def leave_parents_watch() -> None:
    """In a forked child that is to watch itself: put torch back as it was before its parent's watch."""
    global _running
    if _running is not None and _running.pid != os.getpid():
        _running._registry.remove()
        _running._tracebacks.remove()
        _running = None


def _silence(bus: Bus | None) -> None:
    if bus is not None:
        bus.busy = True


def watch(
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    budget: float | None = None,
    record: str | Path | None = None,
    open_run: Callable[[], RunRecord | None] | None = None,
) -> Watch:
    """Apply the rules of `trueloop check` to the code that follows, in a script or a notebook.

    `trueloop.watch()` as the first line of a script reports when the program ends. `with trueloop.watch() as w:` around
    a loop reports at the end of the block, and `w.findings` holds the findings. In a notebook findings appear under
    the cell that caused them, and `w` shows them all; calling it again starts a new watch. `open_run`: makes the run
    folder, if this call watches at all.
    """
    if multiprocessing.parent_process() is not None or (_running is not None and _running.pid != os.getpid()):
        return Watch(instead="elsewhere")  # a worker may import the script again: the main process watches the run
    if _running is not None and _running._show is None:
        return Watch(instead=_running)  # `trueloop check` of a script that calls trueloop.watch()
    folder = None if record is None else Path(record)
    shell = running_shell()
    if shell is not None and _running is not None:
        _running.end_run()  # the cell with this line ran again: a new watch begins
    if _running is not None:
        raise Misuse(ALREADY)
    made = Watch(
        select=select,
        ignore=ignore,
        budget=budget,
        record=folder,
        script="" if shell is None else notebook_name(shell),
        show=_print_report if shell is None else display_report,
        on_hang=_show_and_end,
        run=None if open_run is None else open_run(),
    ).start()
    if shell is None:
        _report_at_exit(made)
    else:
        CellReports(made, shell)
        atexit.register(made.end_run)
    return made


def watch_cell(select: Iterable[str]) -> Watch:
    """For one cell of a notebook, which `close` reports."""
    return Watch(select=select, script=notebook_name(running_shell()), show=display_report).start()


@contextmanager
def observe(hear: Callable[[Event], None], settings: Settings, budget: float) -> Iterator[None]:
    """Emits the events of `check` for the code inside, for a run that checks them itself. Silent under `check`."""
    if _running is not None:
        yield
        return
    made = Watch(hear=hear, settings=settings, budget=budget).start()
    try:
        yield
    except BaseException as error:
        strip(error)
        raise
    finally:
        made.stop()


def _print_report(verdict: Verdict) -> None:
    from trueloop.report import print_report

    print_report(verdict, to=sys.stderr)


def _show_and_end(verdict: Verdict) -> NoReturn:
    if not verdict.reported_elsewhere:
        _print_report(verdict)
        mark_reported()
    sys.stdout.flush()
    os._exit(ExitCode.FINDINGS)


def _report_at_exit(made: Watch) -> None:
    """Python calls sys.excepthook with the exception that ends the program, and then the exit handlers."""
    previous = sys.excepthook
    ended_by: list[BaseException] = []

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        ended_by.append(value)
        strip(value)
        previous(kind, value, value.__traceback__)

    def report() -> None:
        if os.getpid() == made.pid:
            made.close(ended_by[-1] if ended_by else None)

    sys.excepthook = excepthook
    atexit.register(report)
