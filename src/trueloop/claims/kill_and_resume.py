"""An undisturbed run, a run that is killed halfway, and its resume.

    python -m trueloop.claims.kill_and_resume OUT.json RUNS STEP RECIPE ...

Each is a process of its own, like `trueloop train` and `trueloop resume`. They are forked from here before anything is
computed, so that torch is loaded once. The signal is SIGKILL, which a process cannot handle.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final, NoReturn

from trueloop.doctor.launch import find_module, run
from trueloop.doctor.traceback import show

__all__ = ["UNDISTURBED", "last_step"]

UNDISTURBED: Final = "undisturbed"  # name of the first run
POLL: Final = 0.002  # seconds between two looks at the step of the run to kill
TRIES: Final = 3  # a small model may finish before the kill: then again, and earlier
FINISHED: Final = (0, 1)  # exit codes of a run that reached its end; 1: with findings


def main(words: list[str]) -> int:
    out, folder, step, *recipe = words
    runs = Path(folder)
    code = _wait(_start(runs, "train", *recipe, "--runs", folder, "--name", UNDISTURBED))
    result: dict[str, object] = {"code": code, "killed_at": None}
    for number in range(TRIES) if code in FINISHED else ():
        name = f"killed-{number}"
        process = _start(runs, "train", *recipe, "--runs", folder, "--name", name)
        at = _kill(process, runs / name, max(1, int(step) // 2**number))
        if at is not None:
            result |= {"killed_at": at, "name": name, "resumed": _wait(_start(runs, "resume", str(runs / name)))}
            break
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


def _start(runs: Path, *words: str) -> int:
    """Its process id."""
    child = os.fork()
    if child == 0:
        _train(runs, words)
    return child


def _train(runs: Path, words: tuple[str, ...]) -> NoReturn:
    runs.mkdir(parents=True, exist_ok=True)
    handle = os.open(runs / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    outcome, error = run(find_module("trueloop", words))
    if error is not None:
        show(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(outcome.exit_code)


def _wait(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _kill(process: int, folder: Path, step: int) -> int | None:
    """Kill it at this step or later, once there is a checkpoint. Returns the step; None: it had finished."""
    while not os.waitpid(process, os.WNOHANG)[0]:
        at = last_step(folder)
        if at >= step and any((folder / "checkpoints").glob("step-*")):
            os.kill(process, signal.SIGKILL)
            return at if _wait(process) == -signal.SIGKILL else None
        time.sleep(POLL)
    return None


def last_step(folder: Path) -> int:
    """Of the last complete row of metrics; 0: there is none."""
    try:
        lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    except OSError:
        return 0
    complete = [line for line in lines if line.endswith(b"\n")]
    return int(json.loads(complete[-1])["step"]) if complete else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
