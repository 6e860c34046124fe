"""How a rank reports its exit code to the launcher: two environment variables and one file per rank. No torch.

For torchrun every exit code but 0 is a failure. A trueloop run also exits with 1 (a finding) or 5 (it stopped itself);
with restarts, torchrun would repeat such a run in vain. So a run that reached its end writes its code here and exits
with 0.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trueloop.results.check import ExitCode

__all__ = ["ANSWERS", "LAUNCH", "LOST", "WAIT", "answers", "is_rank", "launch_name", "leave_answer", "seconds_to_wait"]

LAUNCH: Final = "TRUELOOP_LAUNCH"  # ID of the launch: one launch trains one run, so a restarted `train` resumes it
ANSWERS: Final = "TRUELOOP_ANSWERS"  # The folder of the exit codes
WAIT: Final = "TRUELOOP_WAIT"  # Seconds that a process waits for the others at the start: the launcher's `--wait`
USUAL_WAIT: Final = 300
LOST: Final = ExitCode.LOST_PEER  # of a process that stops because another is gone: never the cause
SIGNALLED: Final = 128  # Exit codes from here on mean a signal


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun, or a similar launcher, started this process."""
    return "RANK" in environment and "WORLD_SIZE" in environment


def launch_name(environment: Mapping[str, str] = os.environ) -> str:
    """Empty if the launch has no name."""
    return environment.get(LAUNCH, "")


def seconds_to_wait(environment: Mapping[str, str] = os.environ) -> int:
    """An invalid value is ignored: this must not fail."""
    said = environment.get(WAIT, "")
    return int(said) if said.isdecimal() and int(said) > 0 else USUAL_WAIT


def leave_answer(code: int, environment: Mapping[str, str] = os.environ) -> int:
    """Writes the exit code for the launcher and returns its own: a signal stays one, so that a process is restarted."""
    if ANSWERS not in environment or not is_rank(environment):
        return code
    Path(environment[ANSWERS], environment["RANK"]).write_text(str(code), encoding="utf-8")
    return code if code >= SIGNALLED else 0


def answers(folder: Path) -> dict[int, int]:
    """Rank -> exit code, for ranks that reached their end."""
    return {int(file.name): int(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.isdecimal()}
