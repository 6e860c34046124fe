"""The manners of one process among several: one folder, one voice, one exit code, and who has lost the others lets the
guilty speak."""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.failure import Outcome, user_errors
from trueloop.errors import Apart, Misuse, TrueloopError
from trueloop.parallel.answer import LOST, is_rank, launch_name, leave_answer
from trueloop.results.check import ExitCode

if TYPE_CHECKING:
    from trueloop.parallel.peers import Peers

__all__ = ["agree_exit_code", "goes_on_with", "is_speaker", "run_as_rank"]

COURTESY: Final = 3.0
"""Seconds that a failing process which is not the first waits before it leaves: if all fail alike the first says so,
once."""
_TRANSPORT: Final = re.compile(r"\bgloo/transport/|Connection (closed|reset) by peer|\bnccl(Remote|System)Error\b")
PATIENCE: Final = 10.0
"""Seconds that a process which has lost the others waits to be ended: the guilty one still writes its error, which the
launcher reads."""


class _Lost(Exception):
    """A collective failed: another process has left."""


@contextmanager
def run_as_rank() -> Iterator[Outcome]:
    """Around the work of a verb, in a process that may be one rank of several. The body sets the exit code."""
    outcome = Outcome()
    if not is_rank():
        with user_errors(outcome):
            yield outcome
        return
    try:
        with user_errors(outcome), _lost_ranks():
            yield outcome
    except _Lost as lost:
        time.sleep(PATIENCE)
        print(f"trueloop: rank {os.environ['RANK']} cannot go on: another process is gone ({lost}).", file=sys.stderr)
        outcome.code = LOST
        return
    except Apart as error:
        print(f"trueloop: {error}", file=sys.stderr)
        outcome.code = LOST
        return
    except Misuse as error:
        _after_you()
        print(f"trueloop: {error}", file=sys.stderr)
        outcome.code = leave_answer(ExitCode.MISUSE)
        return
    except TrueloopError:
        _after_you()
        raise
    if 0 < outcome.code < 128:
        _after_you()


@contextmanager
def agree_exit_code(outcome: Outcome) -> Iterator[Peers]:
    """Around a run: all ranks end with the highest exit code of any of them, left for the launcher."""
    import torch

    from trueloop.parallel.join import joined
    from trueloop.parallel.peers import Alone, find_peers

    if not is_rank():
        yield Alone()
        return
    with joined():
        peers = find_peers(torch.device("cpu"))
        yield peers
        outcome.code = max(peers.gather(outcome.code))
    outcome.code = leave_answer(outcome.code)


def goes_on_with(peers: Peers, runs: Path) -> Path | None:
    """The run that this launch has begun before it was started again; None: it begins. The first process looks, for
    all."""
    name = launch_name()
    found = _run_of_launch(runs, name) if name and peers.first else None
    agreed: Path | None = peers.gather(found)[0]
    return agreed


def is_speaker() -> bool:
    """May this process say what concerns all?"""
    return os.environ.get("RANK", "0") == "0"


def _run_of_launch(runs: Path, name: str) -> Path | None:
    from trueloop.errors import NotARun
    from trueloop.session.folder import read_about

    found: list[tuple[float, Path]] = []
    for file in runs.glob("*/run.json"):
        try:
            about = read_about(file.parent)
        except NotARun:
            continue  # damaged, or another kind of run: not ours
        if (about.get("origin") or {}).get("launch") == name:
            found.append((float(about.get("started") or 0), file.parent))
    return max(found)[1] if found else None


@contextmanager
def _lost_ranks() -> Iterator[None]:
    """Raises _Lost in place of a collective's error."""
    try:
        yield
    except RuntimeError as error:
        if _in_a_collective(error):
            raise _Lost(_essence(str(error))) from error
        raise


def _essence(message: str) -> str:
    """gloo's first sentence, without the line of its source."""
    return re.sub(r"^\[[^\]]*\]\s*", "", message.partition("\n")[0]).partition(". ")[0]


def _in_a_collective(error: BaseException) -> bool:
    """By where it was raised, or, in a backward of DistributedDataParallel, by who speaks."""
    frames = list(traceback.walk_tb(error.__traceback__))
    called = Path(frames[-1][0].f_code.co_filename).parent.parts[-2:] == ("torch", "distributed")
    return called or _TRANSPORT.search(str(error)) is not None


def _after_you() -> None:
    if not is_speaker():
        time.sleep(COURTESY)
