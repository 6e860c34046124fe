"""An undisturbed run, a run that is killed halfway, and its resume.

    python -m trueloop.claims.kill_and_resume OUT.json RUNS STEP RECIPE ...

Each is a fresh Python, like `trueloop train` and `trueloop resume`: forked from one process they would share its hash
seed and random states, and a split that every process draws for itself would look reproducible. The signal is SIGKILL,
which a process cannot handle.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

__all__ = ["UNDISTURBED", "last_step"]

UNDISTURBED: Final = "undisturbed"  # name of the first run
POLL: Final = 0.002  # seconds between two looks at the step of the run to kill
TRIES: Final = 3  # a small model may finish before the kill: then again, and earlier
FINISHED: Final = (0, 1)  # exit codes of a run that reached its end; 1: with findings


def main(words: list[str]) -> int:
    out, folder, step, *recipe = words
    runs = Path(folder)
    code = _start(runs, "train", *recipe, "--runs", folder, "--name", UNDISTURBED).wait()
    result: dict[str, object] = {"code": code, "killed_at": None}
    for number in range(TRIES) if code in FINISHED else ():
        name = f"killed-{number}"
        process = _start(runs, "train", *recipe, "--runs", folder, "--name", name)
        at = _kill(process, runs / name, max(1, int(step) // 2**number))
        if at is not None:
            result |= {"killed_at": at, "name": name, "resumed": _start(runs, "resume", str(runs / name)).wait()}
            break
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


def _start(runs: Path, *words: str) -> subprocess.Popen[bytes]:
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / "output.txt").open("wb") as output:
        return subprocess.Popen([sys.executable, "-m", "trueloop", *words], stdout=output, stderr=output)


def _kill(process: subprocess.Popen[bytes], folder: Path, step: int) -> int | None:
    """Kill it at this step or later, once there is a checkpoint. Returns the step; None: it had finished."""
    while process.poll() is None:
        at = last_step(folder)
        if at >= step and any((folder / "checkpoints").glob("step-*")):
            process.kill()
            return at if process.wait() == -signal.SIGKILL else None
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
