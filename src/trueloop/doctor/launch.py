"""Run a script or a module as Python itself would: same argv, `__main__`, `sys.path[0]`, exceptions and exit code."""

import ast
import asyncio
import contextlib
import importlib
import inspect
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from trueloop.doctor.ipython_shell import cell_to_python, shell_for
from trueloop.doctor.traceback import strip
from trueloop.errors import NoSuchScript
from trueloop.results.check import Outcome
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import claim
from trueloop.usercode.notebook import Cell, Notebook, NotebookError, read_notebook

__all__ = ["Program", "find_module", "find_script", "outcome_of", "run"]

SHOWN: Final = 8  # Lines of a notebook that were left out, in a report


@dataclass(frozen=True, slots=True)
class Program:
    """The program to run, found before the watch starts: nothing of it has been executed or compiled yet."""

    path: str  # The file, absolute
    shown: str  # sys.argv[0]: a script as the user named it, a module by its file
    arguments: tuple[str, ...]
    source: bytes  # Of a script
    spec: ModuleSpec | None  # Of a module run by -m; None for a script
    first_path: str  # What Python puts into sys.path[0]
    notebook: Notebook | None = None  # Its cells run instead of `source`
    left_out: list[str] = field(default_factory=list)  # Magics that were asked for and did not run

    def notes(self) -> tuple[str, ...]:
        """What of it does not run."""
        lines = [*(self.notebook.left_out if self.notebook is not None else ()), *self.left_out]
        if not lines:
            return ()
        rest = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        install = " IPython, which runs such lines, is not installed: `pip install 'trueloop[notebook]'`."
        return (f"left out: {'; '.join(lines[:SHOWN])}{rest}.{'' if cell_to_python() else install}",)


# -- find --


def find_script(name: str, arguments: Sequence[str]) -> Program:
    path = Path(name)
    if path.is_dir():
        raise NoSuchScript(f"{name} is a folder. Nothing was run: name the training script, or use -m for a module.")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        known = f" Scripts in that folder: {', '.join(near)}." if near else ""
        raise NoSuchScript(f"There is no script {name}. Nothing was run.{known}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise NoSuchScript(f"{name} cannot be read ({error.strerror}). Nothing was run.") from None
    full = os.path.join(os.getcwd(), name)  # as Python does: absolute, but not normalized
    first = os.path.dirname(os.path.realpath(full))
    if path.suffix != ".ipynb":
        return Program(full, name, tuple(arguments), source, None, first)
    try:
        return Program(full, name, tuple(arguments), b"", None, first, read_notebook(full, source, cell_to_python()))
    except NotebookError as error:
        raise NoSuchScript(f"{name} {error}. Nothing was run.") from None


def find_module(name: str, arguments: Sequence[str]) -> Program:
    spec, folders = _look_up(name)
    if folders:
        name = f"{name}.__main__"
        spec, _ = _look_up(name)
    if spec is None or spec.origin is None:
        raise NoSuchScript(f"There is no module {name} to run from here ({os.getcwd()}). Nothing was run.")
    if not isinstance(spec.loader, InspectLoader):
        raise NoSuchScript(f"The module {name} has no Python source to run. Nothing was run.")
    return Program(spec.origin, spec.origin, tuple(arguments), b"", spec, os.getcwd())


def _look_up(name: str) -> tuple[ModuleSpec | None, list[str]]:
    """Where a module would be loaded from, and the folders of a package. Imports nothing: the watched run does that."""
    spec: ModuleSpec | None = None
    folders: list[str] | None = None
    sys.path.insert(0, os.getcwd())
    try:
        for full in accumulate(name.split("."), "{}.{}".format):
            inside = [os.path.join(folder, full.rpartition(".")[2]) for folder in folders or ()]
            spec = _spec_in(full, folders)
            folders = [*filter(os.path.isdir, inside)] if spec is None else [*(spec.submodule_search_locations or ())]
            if spec is None and not folders:
                break
    finally:
        sys.path.remove(os.getcwd())
    return spec, folders or []


def _spec_in(full: str, folders: list[str] | None) -> ModuleSpec | None:
    try:
        specs = (finder.find_spec(full, folders, None) for finder in sys.meta_path)
        return next((spec for spec in specs if spec is not None), None)
    except KeyError:  # a folder without __init__.py: importlib expects the package around it to be imported
        return None


# -- run --


def run(program: Program) -> tuple[Outcome, BaseException | None]:
    """Run it to its end, however it ends."""
    sys.modules["__main__"] = main = ModuleType("__main__")
    sys.argv[:] = [program.shown, *program.arguments]
    if not sys.flags.safe_path:
        sys.path[0] = program.first_path
    claim(os.path.dirname(program.path))
    try:
        if program.notebook is not None:
            os.chdir(program.first_path)  # as Jupyter does
            _run_cells(program, program.notebook, main)
        elif b"get_ipython" in program.source:  # an exported notebook
            code = _prepared(program, main)
            with shell_for(main, program.left_out):
                exec(code, vars(main))
        else:
            exec(_prepared(program, main), vars(main))
    except BaseException as error:  # noqa: BLE001 - how a script ends is a result, not a failure of trueloop
        strip(error)
        return outcome_of(error), None if isinstance(error, StopTheRun) else error
    finally:
        _flush()
    return Outcome("finished"), None


def _run_cells(program: Program, notebook: Notebook, main: ModuleType) -> None:
    """Run the cells in their order, in one namespace, as a notebook does; without a `__file__`."""
    vars(main).update(__builtins__=sys.modules["builtins"])
    for cell in notebook.cells:
        # Under its own name, also for tracebacks; without a time of change, so that it is not looked for on disk.
        linecache.cache[cell.name] = (len(cell.text), None, cell.text.splitlines(keepends=True), cell.name)
    with shell_for(main, program.left_out) as shell, asyncio.Runner() as runner:
        for number, cell in enumerate(notebook.cells, 1):
            if shell is not None:
                shell.execution_count = number
                shell.execution_count += number - shell.displayhook.prompt_count  # its prompt is `Out[number]`
            for code in _statements(cell, shows_last=shell is not None):
                result = eval(code, vars(main))
                if inspect.iscoroutine(result):  # `await` outside a function, as notebooks allow
                    runner.run(result)
            if shell is not None:
                shell.events.trigger("post_execute")  # draws open figures


def _statements(cell: Cell, *, shows_last: bool) -> Iterator[CodeType]:
    """The code of a cell. The value of a last expression is displayed, unless a semicolon follows."""

    def compiled(tree: Any, mode: str) -> CodeType:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(tree, cell.name, mode, flags, dont_inherit=True)
        return code

    tree = ast.parse(cell.text, cell.name)
    last = tree.body[-1] if tree.body else None
    shown = shows_last and isinstance(last, ast.Expr) and not cell.text.rstrip().endswith(";")
    if not shown or last is None:
        yield compiled(tree, "exec")
        return
    yield compiled(ast.Module(tree.body[:-1], tree.type_ignores), "exec")
    yield compiled(ast.Interactive([last]), "single")


def _prepared(program: Program, main: ModuleType) -> CodeType:
    """Fill the module's names as Python does, and return its code. A script that does not parse fails here."""
    spec = program.spec
    vars(main).update(__builtins__=sys.modules["builtins"], __annotations__={}, __file__=program.path)
    vars(main).update(__cached__=None, __spec__=spec)
    if spec is None:
        vars(main).update(__package__=None, __loader__=SourceFileLoader("__main__", program.path))
        return compile(program.source, program.path, "exec", dont_inherit=True)
    assert isinstance(spec.loader, InspectLoader)
    vars(main).update(__package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached)
    if spec.parent:
        importlib.import_module(spec.parent)
    code = spec.loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"No code object available for {spec.name}")
    return code


def outcome_of(error: BaseException | None) -> Outcome:
    """How a script ended, by its exception; None: it ran to its end."""
    match error:
        case None:
            return Outcome("finished")
        case StopTheRun():
            return Outcome("cut")
        case SystemExit():
            return Outcome("exit", _exit_code(error))
        case KeyboardInterrupt():
            return Outcome("interrupted", 130, "KeyboardInterrupt")
        case _:
            return Outcome("exception", 1, f"{type(error).__name__}: {error}".split("\n")[0])


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _flush() -> None:
    """As Python does when a script has ended, before it shows the exception. A closed pipe is reported at exit."""
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
