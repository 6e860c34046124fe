"""A script on several ranks, as torchrun would start it, but forked from this warm process: a second instead of ten.

Every rank is watched as `trueloop check` watches it. What the one that tells has to say of all of them is the answer. A
rank always ends: an alarm of the system's kills it, whatever it is waiting in.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.conftest import Checked
from trueloop.doctor import ranks
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.results.check import Verdict

__all__ = ["check_on_ranks", "free_port"]

LIMIT: Final = 40
"""Seconds after which a rank is killed, some more after it has said where it stands."""
PATIENCE: Final = 1.0
"""Instead of the product's: a test's ranks begin and end together, unless one of them is stuck."""
LATE: Final = 3.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def check_on_ranks(
    folder: Path, text: str, number: int, arguments: tuple[str, ...], options: Mapping[str, Any]
) -> Checked:
    """Write the script into the folder and check it there, on so many ranks."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    port = free_port()
    pipes = [os.pipe() for _ in range(number)]
    children = []
    for rank in range(number):
        child = os.fork()
        if child == 0:
            _Rank(folder, rank, number, port, pipes[rank][1]).run(arguments, options)
        children.append(child)
    for _, writing in pipes:
        os.close(writing)
    said = []
    for reading, _ in pipes:
        with os.fdopen(reading, "rb") as pipe:
            said.append(pipe.read())
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    printed = "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("printed-*.txt")))
    verdicts = [pickle.loads(one) for one in said if one]
    broken = [one for one in verdicts if isinstance(one, str)]
    told = [one for one in verdicts if isinstance(one, Verdict) and not one.reported_elsewhere]
    if broken or len(told) != 1:
        pytest.fail(f"{len(told)} ranks told what was found; the ranks ended by {codes}\n{''.join(broken)}\n{printed}")
    return Checked(told[0], printed)


class _Rank:
    """One forked child. Nothing comes back from it but its verdict, through the pipe."""

    def __init__(self, folder: Path, rank: int, world: int, port: int, pipe: int) -> None:
        self.folder, self.rank, self.pipe = folder, rank, pipe
        signal.alarm(LIMIT)
        numbers = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "MASTER_PORT": port,
        }
        os.environ.update({name: str(value) for name, value in numbers.items()})
        os.environ.update(MASTER_ADDR="127.0.0.1", TORCHELASTIC_RUN_ID="test", TORCHELASTIC_RESTART_COUNT="0")
        tempfile.tempdir = str(folder)
        ranks.PATIENCE, ranks.LATE = PATIENCE, LATE  # type: ignore[misc]

    def run(self, arguments: tuple[str, ...], options: Mapping[str, Any]) -> NoReturn:
        try:
            os.chdir(self.folder)
            sys.stdout = sys.stderr = (self.folder / f"printed-{self.rank}.txt").open("w", encoding="utf-8")
            faulthandler.disable()  # gloo aborts the process when sizes disagree: that is the script's own end
            faulthandler.dump_traceback_later(LIMIT - 5, file=sys.stderr)
            watch = Watch(script="train.py", on_hang=self.tell, **options)
            verdict, error = examine(find_script("train.py", arguments), watch)
            if error is not None and verdict.outcome.reason == "exception":
                traceback.print_exception(error)
            self.tell(verdict)
        except BaseException:
            self._say(traceback.format_exc())
        os._exit(9)

    def tell(self, verdict: Verdict) -> NoReturn:
        """Hand the verdict over, then let the others go."""
        self._say(verdict)
        if not verdict.reported_elsewhere:
            ranks.mark_reported()
        os._exit(0)

    def _say(self, what: object) -> None:
        sys.stdout.flush()
        with os.fdopen(self.pipe, "wb") as pipe:
            pipe.write(pickle.dumps(what))
