"""Child processes of claims, forked from this process instead of started: that saves four seconds of loading torch."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

from trueloop.claims import subject


@pytest.fixture(autouse=True)
def forked_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `@pytest.mark.fresh` the child processes of a test are started, like a user's."""
    if request.node.get_closest_marker("fresh") is None:
        monkeypatch.setattr(subject, "_run", _forked)


def _forked(
    words: tuple[str, ...], environment: dict[str, str], folder: Path | None
) -> subprocess.CompletedProcess[str]:
    """python -m MODULE ... in a fork. A different PYTHONHASHSEED needs a new process."""
    if words[0] != "-m" or environment.get("PYTHONHASHSEED") != os.environ.get("PYTHONHASHSEED"):
        command = [sys.executable, *words]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=folder)
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams) / "out", Path(streams) / "err"
        child = os.fork()
        if child == 0:
            os.chdir(folder or ".")
            _run(words, environment, out, err)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return subprocess.CompletedProcess(
            words, code, out.read_text(errors="replace"), err.read_text(errors="replace")
        )


def _run(words: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> None:
    """The child: never returns."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        for number, file in ((1, out), (2, err)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        sys.argv = [words[1], *words[2:]]
        sys.path.insert(0, os.getcwd())
        sys.modules.pop(words[1], None)  # loaded by the tests: runpy would warn of it
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
