"""`trueloop` on a recipe file of a folder, killed with SIGKILL at given steps, resumed, and held against an undisturbed
run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.session.test_changes import trueloop
from tests.torture.bits import differences, remains
from trueloop.cli.main import main
from trueloop.engine.state import State

__all__ = ["assert_killed", "assert_survives", "kill_at"]


def kill_at(step: int) -> None:
    """This process ends at this optimizer step, before anything is logged or saved there."""
    advance = State.advance

    def advance_or_die(state: State, ends_epoch: bool, steps: int = 1) -> None:
        advance(state, ends_epoch, steps)
        if state.step >= step:
            os.kill(os.getpid(), signal.SIGKILL)

    State.advance = advance_or_die  # type: ignore[method-assign, assignment]


def assert_killed(work: Callable[[], object]) -> None:
    """In a forked child, which must be ended by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "it was not killed"
    assert os.WTERMSIG(status) == signal.SIGKILL


def assert_survives(folder: Path, file: str, steps: Sequence[int], *more: str) -> None:
    """`steps`: where it is killed, one after the other. The end is bit-identical to that of an undisturbed run."""

    def killed(step: int, words: list[str]) -> Callable[[], object]:
        def work() -> None:
            os.chdir(folder)
            sys.stdout = sys.stderr = (folder / "killed.txt").open("w", encoding="utf-8")
            kill_at(step)
            main(words)

        return work

    code, printed = trueloop(folder, "train", file, "--name", "undisturbed", *more)
    assert code == 0, printed
    begin = ["train", file, "--name", "killed", *more]
    for number, step in enumerate(steps):
        assert_killed(killed(step, begin if number == 0 else ["resume", "killed"]))
    code, printed = trueloop(folder, "resume", "killed")
    assert code == 0, printed
    expected, found = (remains(folder / "runs" / name) for name in ("undisturbed", "killed"))
    assert not list(differences(expected, found))
