"""Checks every test that trains, one watch per test: findings fail the test, or are warnings.

Under pytest-xdist the workers check, and the process that prints reads their findings from the reports of the tests.
"""

import os
import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

import pytest

from trueloop.doctor.launch import outcome_of
from trueloop.doctor.traceback import strip
from trueloop.doctor.watch import Watch, current_watch
from trueloop.errors import Misuse
from trueloop.finding import Finding, Severity
from trueloop.report import document_of, render
from trueloop.report.evidence import where
from trueloop.results.check import Verdict, counted
from trueloop.results.document import Card
from trueloop.usercode.settings import load_settings, severity_named
from trueloop.usercode.source import set_base_folder

if TYPE_CHECKING:
    from trueloop.usercode.settings import Settings

__all__ = ["PytestChecks", "TrueloopWarning"]

TRAINED: Final = "trueloop_steps"  # Properties of a test's report; JUnit files have them too
FOUND: Final = "trueloop_finding"


class TrueloopWarning(UserWarning):
    """A finding in a test, or a part of trueloop that failed while it was checked."""


@final
class PytestChecks:
    """Registered by `--trueloop`. `mode`: error or warn; `fail_on`: from this severity on a finding fails its test."""

    def __init__(self, mode: str, fail_on: str) -> None:
        self._fail_on = severity_named(fail_on) if mode == "error" else None
        self._settings: Settings | None = None
        self._watch: Watch | None = None
        self._elsewhere = False  # `trueloop check -m pytest` watches all tests already
        self._trained = 0
        self._found: dict[str, list[str]] = {}  # Test -> its findings

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        set_base_folder(str(session.config.invocation_params.dir))
        try:
            self._settings = load_settings(session.config.rootpath)
            Watch(settings=self._settings)  # settings with an unknown rule are refused before the first test
        except Misuse as error:
            raise pytest.UsageError(str(error)) from None
        self._elsewhere = current_watch() is not None

    # -- one test --

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """From its fixtures on: they may build the model. A test whose fixtures fail ends here, unreported."""
        if self._elsewhere:
            return (yield)
        watch = self._watch = Watch(settings=self._settings, script=item.nodeid).start()
        try:
            return (yield)
        finally:
            if os.getpid() == watch.pid:
                watch.stop()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        watch = self._watch
        try:
            yield
        except BaseException as error:
            if watch is not None and os.getpid() == watch.pid:
                strip(error)
                self._add_section(item, watch.stop(outcome_of(error), error))
            raise
        if watch is not None and os.getpid() == watch.pid:
            self._report(item, watch.stop())

    def _report(self, item: pytest.Item, verdict: Verdict) -> None:
        if verdict.failures:
            warnings.warn(TrueloopWarning(f"{verdict.broken()}\n" + "\n".join(verdict.failures)), stacklevel=1)
        if not verdict.watched.steps:
            return
        self._note(item, verdict)
        shown = self._worth_showing(verdict)
        severe = [each for each in shown if self._fail_on is not None and each.severity >= self._fail_on]
        for finding in shown:
            if finding not in severe:
                _warn(finding, item)
        if severe:
            pytest.fail(render(replace(verdict, findings=tuple(severe))).rstrip("\n"), pytrace=False)

    def _add_section(self, item: pytest.Item, verdict: Verdict) -> None:
        """A test that failed by itself: findings and the meaning of its exception stand below its traceback."""
        if not verdict.watched.steps and verdict.crash is None:
            return
        self._note(item, verdict)
        shown = document_of(replace(verdict, findings=self._worth_showing(verdict)))
        if cards := tuple(part for part in shown.parts if isinstance(part, Card)):
            item.add_report_section("call", "trueloop", render(replace(shown, parts=cards, closing=())))

    def _note(self, item: pytest.Item, verdict: Verdict) -> None:
        item.user_properties.append((TRAINED, verdict.watched.steps))
        for each in self._worth_showing(verdict):
            shown = f"{each.severity.word} {each.code} {each.name} {where(each.place)}"
            item.user_properties.append((FOUND, shown.rstrip()))

    def _worth_showing(self, verdict: Verdict) -> tuple[Finding, ...]:
        """Advice is for trainings, not for tests, unless it fails them."""
        least = min(Severity.WARNING, self._fail_on or Severity.WARNING)
        return tuple(finding for finding in verdict.findings if finding.severity >= least)

    # -- all tests --

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Also for the reports that come from workers."""
        if report.when != "call":
            return
        self._trained += any(name == TRAINED and steps for name, steps in report.user_properties)
        for name, text in report.user_properties:
            if name == FOUND:
                self._found.setdefault(report.nodeid, []).append(str(text))

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("trueloop")
        if self._elsewhere:
            write("`trueloop check` already watches this run: its report follows. --trueloop did nothing.")
            return
        for test, lines in self._found.items():
            for line in lines:
                write(f"{line}  ({test})")
        checked = f"{counted(self._trained, 'test')} trained and {'was' if self._trained == 1 else 'were'} checked"
        write(f"{checked}; {counted(len(self._found), 'test')} with findings")


def _warn(finding: Finding, item: pytest.Item) -> None:
    text = f"{finding.code} {finding.name}: {finding.message} Fix: {finding.fix}"
    path, line = str(item.path), 1
    if finding.place is not None:
        path, line = finding.place.path, finding.place.line
    warnings.warn_explicit(TrueloopWarning(text), None, path, line)
