"""Scripts that really run: each in a child forked from this warm process, watched by every rule."""

from __future__ import annotations

import linecache
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRUELOOP_KEY", os.path.join(tempfile.gettempdir(), f"trueloop-tests-{os.getuid()}.key"))

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.rules.table import cross_table
from tests.slow_tests import mark_slow_tests
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.finding import Finding
from trueloop.observers.assemble import all_observers
from trueloop.results.check import Verdict
from trueloop.rules.catalogue import all_rules
from trueloop.usercode import source

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts something in the background takes Ctrl-C from it and from all its children, and there are
    # tests that send one.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _signals_put_back() -> Iterator[None]:
    """A rank that stays to tell its report no longer listens to SIGTERM: in a test's process the next test must."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _onednn_restored() -> Iterator[None]:
    """torch turns oneDNN off for the process when a bf16 product fails, on a CPU without bf16: the last bits of every
    later fp32 product in this process would differ."""
    before = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = before


@dataclass(frozen=True)
class Checked:
    """What `trueloop check` says of a script."""

    verdict: Verdict
    output: str

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict.findings

    def names(self) -> set[str]:
        return {finding.name for finding in self.findings}

    def at(self) -> set[tuple[str, int]]:
        """(name, line) of each finding."""
        return {(finding.name, finding.place.line if finding.place else 0) for finding in self.findings}


def in_child(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked child and hand back what it returns; torch is loaded already, so this takes
    milliseconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = pickle.dumps((True, work()))
        except BaseException:
            answer = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    good, value = pickle.loads(data) if data else (False, "the child died")
    if not good:
        pytest.fail(value)
    return value


def check_script(folder: Path, text: str, *arguments: str, ranks: int = 1, **options: Any) -> Checked:
    """Write a script into the folder and check it there, in a child; or in several that are one run."""
    if ranks > 1:
        from tests.several_ranks import check_on_ranks

        return check_on_ranks(folder, text, ranks, arguments, options)
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")

    def work() -> Checked:
        os.chdir(folder)
        torch.seed()  # a fresh interpreter's: this process may have been seeded by another test
        printed = folder / "printed.txt"
        sys.stdout = printed.open("w", encoding="utf-8")
        sys.stderr = sys.stdout
        verdict, error = examine(find_script("train.py", arguments), Watch(script="train.py", **options))
        if error is not None and verdict.outcome.reason == "exception":
            traceback.print_exception(error)
        sys.stdout.flush()
        return Checked(verdict, printed.read_text(encoding="utf-8"))

    all_observers()  # read once, here, not in every child
    all_rules()
    checked: Checked = in_child(work)
    return checked


@pytest.fixture(autouse=True)
def _stand_nowhere() -> Iterator[None]:
    """Where the command line was started, and the sources that were read there: the next test must not inherit
    either."""
    yield
    source._base_folder.clear()
    source.source_of.cache_clear()
    linecache.clearcache()


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Checked]:
    """`check(text, *arguments, **options)` -> what was found."""
    return lambda text, *arguments, **options: check_script(tmp_path, text, *arguments, **options)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow_tests(items)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The cross-table of the rules' pages, if they were among the tests."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    spoken = [
        value
        for report in reports
        for name, value in report.user_properties
        if name == "spoken" and report.when == "call"
    ]
    if spoken:
        terminalreporter.section("which rules speak on whose pages")
        for line in cross_table(spoken, len(all_rules())):
            terminalreporter.line(line)


settings.register_profile(
    "ci", max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("ci")
