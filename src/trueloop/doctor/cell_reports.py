"""In a notebook: findings and crash explanations under the cell that caused them. Imports nothing of IPython."""

import ast
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

from trueloop.crash.explain import explained
from trueloop.doctor.launch import outcome_of
from trueloop.doctor.traceback import strip
from trueloop.finding import Finding
from trueloop.report import document_of
from trueloop.report.evidence import where
from trueloop.report.notebook import CellOutput
from trueloop.results.check import Outcome, Verdict
from trueloop.results.document import Document, Text, Tone
from trueloop.taps.place import frame_here
from trueloop.taps.tap import Patch
from trueloop.usercode.notebook import cell_in_kernel

__all__ = ["CellReports", "display_report", "notebook_name", "running_shell", "timed_lines_named"]
__all__ += ["tracebacks_without_ours"]


TIMED: Final = ("<timed exec>", "<timed eval>")  # The names that `%%time` gives to code


class LiveWatch(Protocol):
    """A watch that runs."""

    verdict: Verdict | None

    @property
    def events(self) -> int: ...

    def so_far(self) -> Verdict: ...


def running_shell() -> Any:
    """The kernel's shell, or that of IPython in a terminal; None in a script."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def notebook_name(shell: Any) -> str:
    """The file, where the front end says it."""
    known = os.environ.get("JPY_SESSION_NAME") or shell.user_ns.get("__vsc_ipynb_file__") or ""
    name = os.path.basename(str(known))
    return name if name.endswith(".ipynb") else "this notebook"


def display_report(result: Verdict | Document) -> None:
    """As output of the cell that runs."""
    from IPython.display import display

    document = document_of(result)
    if isinstance(result, Verdict):  # the traceback is above; a cell has no exit code
        said = result.outcome.sentence()
        kept = tuple(part for part in document.parts if not (isinstance(part, Text) and part.text == said))
        document = replace(document, parts=kept)
    display(CellOutput(document))


@contextmanager
def tracebacks_without_ours(shell: Any) -> Iterator[None]:
    """IPython shows tracebacks without frames of trueloop."""
    show: Callable[..., Any] = shell.showtraceback

    def showtraceback(*arguments: Any, **named: Any) -> Any:
        if (error := sys.exc_info()[1]) is not None:
            strip(error)
        return show(*arguments, **named)

    shell.showtraceback = showtraceback
    try:
        yield
    finally:
        shell.showtraceback = show


@contextmanager
def timed_lines_named(shell: Any) -> Iterator[None]:
    """Code under `%%time` has the name and the line numbers of its cell, instead of `<timed exec>`."""
    cells: list[str] = []

    def cell_started(info: Any) -> None:
        cells[:] = [info.raw_cell or ""]

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(self: Any, source: Any, filename: str, symbol: str, *rest: Any, **named: Any) -> Any:
            outer, raw = frame_here(2), cells[0] if cells else ""
            if filename in TIMED and isinstance(source, ast.AST) and outer is not None and raw.startswith("%%"):
                number = cell_in_kernel(outer.f_code.co_filename).removeprefix("cell ")
                filename = self.cache(f"# {raw}", int(number) if number else 0)
                ast.increment_lineno(source, 1)  # the line of the magic
            return original(self, source, filename, symbol, *rest, **named)

        return __call__

    patch = Patch(type(shell.compile), "__call__", wrap)
    shell.events.register("pre_run_cell", cell_started)
    try:
        yield
    finally:
        shell.events.unregister("pre_run_cell", cell_started)
        patch.undo()


class CellReports:
    """After each cell: what is new since the last one. It leaves the shell when its watch has ended."""

    def __init__(self, watch: LiveWatch, shell: Any) -> None:
        self._watch = watch
        self._events = 0  # of the last report
        self._shown: dict[tuple[str, str, int], Finding] = {}
        self._until_left = ExitStack()
        self._until_left.enter_context(tracebacks_without_ours(shell))
        self._until_left.enter_context(timed_lines_named(shell))
        shell.events.register("post_run_cell", self._cell_ended)
        self._until_left.callback(shell.events.unregister, "post_run_cell", self._cell_ended)

    def _cell_ended(self, result: Any) -> None:
        if self._watch.verdict is not None:
            self._until_left.close()
            return
        error = result.error_in_exec if result is not None else None
        crashed = isinstance(error, Exception)
        if self._watch.events == self._events and not crashed:
            return
        self._events = self._watch.events
        verdict = self._watch.so_far()
        if crashed:
            verdict = explained(replace(verdict, outcome=outcome_of(error)), error)
        if (document := self._news(verdict)) is not None:
            display_report(document)

    def _news(self, verdict: Verdict) -> Document | None:
        """What was not shown under an earlier cell; None if there is nothing."""
        known = {_key(finding): finding for finding in verdict.findings}
        new = tuple(finding for key, finding in known.items() if key not in self._shown)
        gone = [finding for key, finding in self._shown.items() if key not in known]
        self._shown = known
        crashed = verdict.crash is not None
        if not (new or gone or crashed):
            return None
        shown = replace(verdict, findings=new, not_applicable=(), outcome=Outcome("finished"))
        document = document_of(shown)
        parts = tuple(part for part in document.parts if part.title or part.show == "always")
        parts += tuple(Text(f"No longer found: {each.code} {each.name} ({where(each.place)}).") for each in gone)
        title = document.title if new else "The cell failed" if crashed else "Fewer findings"
        tone: Tone = document.tone if new else "error" if crashed else "good"
        return replace(document, title=title, tone=tone, parts=parts, subtitle="", closing=verdict.closing_lines()[:1])


def _key(finding: Finding) -> tuple[str, str, int]:
    place = finding.place
    return finding.code, place.path if place else "", place.line if place else 0
