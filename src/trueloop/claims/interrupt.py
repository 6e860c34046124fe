"""A run that is left alone, one that is killed in its middle, and its resume.

    python -m trueloop.claims.interrupt OUT.json RUNS STEP RECIPE ...

Each is a process of its own, as `trueloop train` and `trueloop resume` are: forked off from here before anything was
computed, so that torch is loaded once. The kill is SIGKILL, which nothing can be done about.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final, NoReturn

from trueloop.doctor.launch import find_module, run
from trueloop.doctor.traceback import show

__all__ = ["KILLED", "UNDISTURBED", "last_step"]

UNDISTURBED: Final = "undisturbed"
KILLED: Final = "killed"
"""Names of the two runs."""
POLL: Final = 0.002
"""Seconds between two looks at where the victim stands."""
TRIES: Final = 3
"""A small model may be through before the kill comes: then once more, and earlier."""


def main(words: list[str]) -> int:
    out, folder, step, *recipe = words
    runs = Path(folder)
    told: dict[str, object] = {
        "code": _wait(_begin(runs, "train", *recipe, "--runs", folder, "--name", UNDISTURBED)),
        "killed_at": None,
    }
    for number in range(TRIES) if told["code"] in FINISHED else ():
        name = f"{KILLED}-{number}"
        victim = _begin(runs, "train", *recipe, "--runs", folder, "--name", name)
        at = _killed(victim, runs / name, max(1, int(step) // 2**number))
        if at is not None:
            told |= {"killed_at": at, "name": name, "resumed": _wait(_begin(runs, "resume", str(runs / name)))}
            break
    Path(out).write_text(json.dumps(told), encoding="utf-8")
    return 0


FINISHED: Final = (0, 1)
"""Exit codes of a run that came to its end; 1: with findings."""


def _begin(runs: Path, *words: str) -> int:
    """Its process number."""
    child = os.fork()
    if child == 0:
        _train(runs, words)
    return child


def _train(runs: Path, words: tuple[str, ...]) -> NoReturn:
    runs.mkdir(parents=True, exist_ok=True)
    handle = os.open(runs / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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


def _killed(process: int, folder: Path, step: int) -> int | None:
    """The step at which it was killed: the first seen that is not before the wanted one, with a checkpoint behind.
    None: it was through."""
    while not os.waitpid(process, os.WNOHANG)[0]:
        at = last_step(folder)
        if at >= step and any((folder / "checkpoints").glob("step-*")):
            os.kill(process, signal.SIGKILL)
            return at if _wait(process) == -signal.SIGKILL else None
        time.sleep(POLL)
    return None


def last_step(folder: Path) -> int:
    """Of the last row of metrics that is there as a whole; 0: there is none."""
    try:
        lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    except OSError:
        return 0
    whole = [line for line in lines if line.endswith(b"\n")]
    return int(json.loads(whole[-1])["step"]) if whole else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
