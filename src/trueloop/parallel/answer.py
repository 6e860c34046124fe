"""What a process of a launched run and its launcher tell one another: two variables, and a file per rank. No torch.

torchrun knows one kind of end that is not a failure: 0. A run of ours has more to say: it found an error (1), it
stopped itself (5). With restarts such an end would be tried again, and end the same way. So a run that has come to its
end leaves its code here, and exits by 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["ANSWERS", "LAUNCH", "LOST", "WAIT", "answers", "is_rank", "launch_name", "leave_answer", "seconds_to_wait"]

LAUNCH: Final = "TRUELOOP_LAUNCH"
"""Names the launch, in its processes' environment: one launch trains one run, so that a `train` which is started again
goes on with it."""
ANSWERS: Final = "TRUELOOP_ANSWERS"
"""The folder of the answers."""
WAIT: Final = "TRUELOOP_WAIT"
"""Seconds that a process waits for the others when it begins: `--wait` of the launcher."""
USUAL_WAIT: Final = 300
LOST: Final = 6
"""The exit code of a process that cannot go on because another one is gone: never the one to blame."""
SIGNALLED: Final = 128
"""From here on an exit code means a signal."""


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Has torchrun, or a launcher like it, started this process?"""
    return "RANK" in environment and "WORLD_SIZE" in environment


def launch_name(environment: Mapping[str, str] = os.environ) -> str:
    """Empty: nobody has named it."""
    return environment.get(LAUNCH, "")


def seconds_to_wait(environment: Mapping[str, str] = os.environ) -> int:
    """What cannot be read is as if it had not been said: this is no place to fail."""
    said = environment.get(WAIT, "")
    return int(said) if said.isdecimal() and int(said) > 0 else USUAL_WAIT


def leave_answer(code: int, environment: Mapping[str, str] = os.environ) -> int:
    """How the run has ended, for the launcher. What this process is to exit with: a signal stays one, so that who was
    only preempted is started again."""
    if ANSWERS not in environment or not is_rank(environment):
        return code
    Path(environment[ANSWERS], environment["RANK"]).write_text(str(code), encoding="utf-8")
    return code if code >= SIGNALLED else 0


def answers(folder: Path) -> dict[int, int]:
    """Rank -> exit code, of those that have come to their end."""
    return {int(file.name): int(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.isdecimal()}
