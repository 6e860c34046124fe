"""Run a script or a module as Python itself would: same argv, `__main__`, `sys.path[0]`, exceptions and exit code."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trueloop.errors import NoSuchScript
from trueloop.taps.place import claim
from trueloop.taps.wire import StopTheRun
from trueloop.verdict import Outcome

__all__ = ["Program", "find_module", "find_script", "run"]


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be run."""

    path: str
    """The file, absolute."""
    shown: str
    """As the user named it: sys.argv[0]."""
    arguments: tuple[str, ...]
    code: types.CodeType
    spec: importlib.machinery.ModuleSpec | None
    """Of a module run by -m; None for a script."""
    first_path: str
    """What Python puts into sys.path[0]."""


def find_script(name: str, arguments: Sequence[str]) -> Program:
    path = Path(name)
    if path.is_dir():
        raise NoSuchScript(f"{name} is a folder. Nothing was run: name the training script, or use -m for a module.")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.py"))[:8] if path.parent.is_dir() else []
        there = f" There are: {', '.join(near)}." if near else ""
        raise NoSuchScript(f"There is no script {name}. Nothing was run.{there}")
    full = os.path.abspath(name)
    with open(full, "rb") as file:
        code = _compiled(file.read(), full)
    return Program(full, name, tuple(arguments), code, None, os.path.dirname(os.path.realpath(full)))


def find_module(name: str, arguments: Sequence[str]) -> Program:
    sys.path[0:0] = [os.getcwd()]
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    finally:
        del sys.path[0]
    if spec is None or spec.origin is None:
        raise NoSuchScript(f"There is no module {name} to run from here ({os.getcwd()}). Nothing was run.")
    loader = spec.loader
    code = loader.get_code(name) if isinstance(loader, importlib.machinery.SourceFileLoader) else None
    if code is None:
        raise NoSuchScript(f"The module {name} has no Python source to run. Nothing was run.")
    return Program(spec.origin, spec.origin, tuple(arguments), code, spec, os.getcwd())


def _compiled(source: bytes, path: str) -> types.CodeType:
    """A script that does not parse fails as it would under Python, when it is run."""
    try:
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise error.with_traceback(None) from None
    return code


def run(program: Program) -> tuple[Outcome, BaseException | None]:
    """Run it to its end, whatever that is."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=program.path, __builtins__=__builtins__, __spec__=program.spec, __cached__=None)
    if program.spec is not None:
        main.__dict__.update(__package__=program.spec.parent, __loader__=program.spec.loader)
    sys.modules["__main__"] = main
    sys.argv[:] = [program.shown, *program.arguments]
    sys.path[0] = program.first_path
    claim(os.path.dirname(program.path))
    try:
        exec(program.code, main.__dict__)
    except StopTheRun:
        return Outcome("cut"), None
    except SystemExit as error:
        return Outcome("exit", _exit_code(error)), error
    except KeyboardInterrupt as error:
        return Outcome("interrupted", 130, "KeyboardInterrupt"), error
    except BaseException as error:  # noqa: BLE001 - how a script ends is an answer, not an accident of ours
        return Outcome("exception", 1, f"{type(error).__name__}: {error}".split("\n")[0]), error
    return Outcome("finished"), None


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1
