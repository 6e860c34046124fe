"""One process among several: one run folder, one voice, one exit code.

A process that has lost its peers waits, so that the one that failed can write its error.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.errors import NotARun
from trueloop.parallel.answer import is_rank, launch_name, leave_answer

if TYPE_CHECKING:
    from trueloop.parallel.peers import Peers

__all__ = [
    "PATIENCE", "agree_exit_code", "find_launched_run", "is_speaker", "leave_exit_code", "let_first_rank_speak",
    "lost_peer", "rank_peers",
]  # fmt: skip

COURTESY: Final = 3.0  # Seconds that a failing rank other than 0 waits: if all fail alike, rank 0 reports it, once
PATIENCE: Final = 10.0  # Seconds that a process without peers waits to be ended: the launcher reads who failed
_TRANSPORT: Final = re.compile(r"\bgloo/transport/|Connection (closed|reset) by peer|\bnccl(Remote|System)Error\b")


def is_speaker() -> bool:
    """May this process print what concerns all?"""
    return os.environ.get("RANK", "0") == "0"


def let_first_rank_speak() -> None:
    if not is_speaker():
        time.sleep(COURTESY)


def lost_peer(error: BaseException) -> str | None:
    """A sentence, if a collective failed because another process has ended. None: a different error."""
    if not is_rank() or not isinstance(error, RuntimeError) or not _in_collective(error):
        return None
    # gloo's first sentence, without the line of its source
    first = re.sub(r"^\[[^\]]*\]\s*", "", str(error).partition("\n")[0]).partition(". ")[0]
    return f"rank {os.environ['RANK']} cannot continue: another process has ended ({first})."


def _in_collective(error: BaseException) -> bool:
    """By where it was raised, or, in a backward of DistributedDataParallel, by the transport's own words."""
    frames = list(traceback.walk_tb(error.__traceback__))
    called = Path(frames[-1][0].f_code.co_filename).parent.parts[-2:] == ("torch", "distributed")
    return called or _TRANSPORT.search(str(error)) is not None


@contextmanager
def rank_peers() -> Iterator[Peers]:
    """The processes of a run, joined while it lasts."""
    import torch

    from trueloop.parallel.join import joined
    from trueloop.parallel.peers import Alone, find_peers

    if not is_rank():
        yield Alone()
        return
    with joined():
        yield find_peers(torch.device("cpu"))


def agree_exit_code(peers: Peers, code: int) -> int:
    """The worst exit code of all processes."""
    worst: int = max(peers.gather(code))
    return worst


def leave_exit_code(code: int) -> int:
    """Leaves the run's exit code for the launcher; returns what this process must exit with."""
    left = leave_answer(code)
    if 0 < left < 128:
        let_first_rank_speak()
    return left


def find_launched_run(peers: Peers, runs: Path) -> Path | None:
    """The run that this launch began before it was restarted, looked up by the first process. None: there is none."""
    name = launch_name()
    found = _run_of_launch(runs, name) if name and peers.first else None
    agreed: Path | None = peers.gather(found)[0]
    return agreed


def _run_of_launch(runs: Path, name: str) -> Path | None:
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
