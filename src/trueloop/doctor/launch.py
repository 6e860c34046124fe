"""Run a script or a module as Python itself would: same argv, `__main__`, `sys.path[0]`, exceptions and exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType, ModuleType

from trueloop.doctor.traceback import strip
from trueloop.errors import NoSuchScript
from trueloop.results.check import Outcome
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import claim

__all__ = ["Program", "find_module", "find_script", "outcome_of", "run"]


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be run. Found before the watch starts, so nothing of it has been executed or even compiled."""

    path: str
    """The file, absolute."""
    shown: str
    """sys.argv[0]: a script as the user named it, a module by its file."""
    arguments: tuple[str, ...]
    source: bytes
    """Of a script."""
    spec: ModuleSpec | None
    """Of a module run by -m; None for a script."""
    first_path: str
    """What Python puts into sys.path[0]."""


# -- find --


def find_script(name: str, arguments: Sequence[str]) -> Program:
    path = Path(name)
    if path.is_dir():
        raise NoSuchScript(f"{name} is a folder. Nothing was run: name the training script, or use -m for a module.")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        there = f" There are: {', '.join(near)}." if near else ""
        raise NoSuchScript(f"There is no script {name}. Nothing was run.{there}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise NoSuchScript(f"{name} cannot be read ({error.strerror}). Nothing was run.") from None
    full = os.path.join(os.getcwd(), name)  # as Python does: absolute, but not tidied up
    return Program(full, name, tuple(arguments), source, None, os.path.dirname(os.path.realpath(full)))


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
    """Where a module would be loaded from, and the folders of a package. Imports nothing on the way: that is for the
    watched run to do."""
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
        return next(
            (found for finder in sys.meta_path if (found := finder.find_spec(full, folders, None)) is not None), None
        )
    except KeyError:
        return (
            None  # a folder without __init__.py: importlib looks for the package around it among those already imported
        )


# -- run --


def run(program: Program) -> tuple[Outcome, BaseException | None]:
    """Run it to its end, whatever that is."""
    sys.modules["__main__"] = main = ModuleType("__main__")
    sys.argv[:] = [program.shown, *program.arguments]
    if not sys.flags.safe_path:
        sys.path[0] = program.first_path
    claim(os.path.dirname(program.path))
    try:
        exec(_prepared(program, main), vars(main))
    except BaseException as error:  # noqa: BLE001 - how a script ends is an answer, not an accident of ours
        strip(error)
        return outcome_of(error), None if isinstance(error, StopTheRun) else error
    finally:
        _flush()
    return Outcome("finished"), None


def _prepared(program: Program, main: ModuleType) -> CodeType:
    """Fill the module's names as Python does, and hand back its code. A script that does not parse fails here, as it
    would there."""
    spec = program.spec
    vars(main).update(
        __builtins__=sys.modules["builtins"], __annotations__={}, __file__=program.path, __cached__=None, __spec__=spec
    )
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
    """How a script ended that this ended; None: it came to its end."""
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
    """As Python does when a script has ended, before it shows what ended it. A closed pipe is noticed again, and told,
    at the very end."""
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
