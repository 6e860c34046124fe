"""A model in a process of its own, started again when it ends: a crash of the model is not the end of the server."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final, final

from trueloop.errors import BadArtifact, TrueloopError
from trueloop.export.confined_runner import ConfinedRunner
from trueloop.export.exporter import Array, Runner
from trueloop.usercode.child_python import child_python

__all__ = ["ModelFailed", "WorkerLost", "WorkerRunner", "open_here", "work"]

CODE: Final = "import sys; from trueloop.serve.worker import work; work(int(sys.argv[1]))"
ORPHANED: Final = 1.0  # Seconds between two looks at the parent process


@final
class WorkerLost(Exception):
    """The process ended, and the new one ended too, or could not be started."""


@final
class ModelFailed(RuntimeError):
    """The model raised in its process; the text is its traceback."""


@final
class WorkerRunner(Runner):
    """Used by one thread. `open_runner` is called in the process, so it must be picklable."""

    def __init__(self, open_runner: Callable[[], Runner], lost: Callable[[str], None]) -> None:
        self.open_runner = open_runner
        self.lost = lost  # Called with a sentence when the process has ended by itself
        self.closed = False
        try:
            self._start()
        except (EOFError, OSError):
            how = _how(self.process.wait())
            self.close()
            raise BadArtifact(f"The process that opens the model ended ({how}). Nothing was served.") from None
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Raises ModelFailed, or WorkerLost: the batch was tried in two processes."""
        for _ in range(2):
            try:
                self.pipe.send(list(inputs))
                outputs: list[Array] = self._answer()
                return outputs
            except (EOFError, OSError):
                self._restart()
        raise WorkerLost

    def close(self) -> None:
        self.closed = True
        self.process.kill()
        self.process.wait()
        self.pipe.close()

    def _start(self) -> None:
        """Raises what opening the model raises; EOFError if the process ends."""
        self.pipe, theirs = Pipe()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self.process = subprocess.Popen(
            child_python("-c", CODE, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the server, which still needs it
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
        )
        theirs.close()
        self.pipe.send(self.open_runner)
        self._answer()

    def _restart(self) -> None:
        if self.closed:
            raise WorkerLost
        self.pipe.close()
        code = self.process.wait()
        self.lost(f"the model's process {self.process.pid} ended ({_how(code)}): starting it again")
        try:
            self._start()
        except (EOFError, OSError, TrueloopError, ModelFailed) as error:
            raise WorkerLost from error

    def _answer(self) -> Any:
        error, value = self.pipe.recv()
        if error is not None:
            raise error
        return value


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def open_here(open_runner: Callable[[], Runner], lost: Callable[[str], object]) -> Runner:
    """In this process, or for a stranger's artifact in a confined one: `lost` is called when that has crashed."""
    runner = open_runner()
    if isinstance(runner, ConfinedRunner):
        runner.lost = lost
    return runner


def _log(sentence: str) -> None:
    print(f"trueloop: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - the server's log


def work(descriptor: int) -> None:
    """In the process: opens the model, then computes what comes, until the server is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the server ends it, after the last answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    pipe = Connection(descriptor)
    try:
        open_runner = pipe.recv()
        try:
            runner = open_here(open_runner, _log)
            pipe.send((None, None))
        except Exception as error:  # noqa: BLE001 - raised again in the server
            pipe.send((_picklable(error), None))
            return
        while True:
            inputs = pipe.recv()
            try:
                answer: tuple[Exception | None, Any] = (None, runner.run(inputs))
            except Exception:  # noqa: BLE001 - raised again in the server
                answer = (ModelFailed(traceback.format_exc()), None)
            pipe.send(answer)
    except (EOFError, OSError):
        return  # the server has ended


def _end_with(parent: int) -> None:
    """A server that is killed closes the pipe, but a model that computes does not notice."""
    while os.getppid() == parent:
        time.sleep(ORPHANED)
    os._exit(1)


def _picklable(error: Exception) -> Exception:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - an error of a runtime that cannot travel: its text can
        again = None
    return error if isinstance(again, TrueloopError) else ModelFailed("".join(traceback.format_exception(error)))
