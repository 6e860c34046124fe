"""A run in a forked child, and the ways to kill it."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Final, final

import torch

from tests.torture.beacon import Beacon, Phase
from trueloop.cli.train import exit_code
from trueloop.recipe.recipe import Recipe
from trueloop.session.train import Trained, resume, train

__all__ = ["Moment", "Victim", "begin", "warm_up"]

DEADLINE: Final = 120.0
"""Seconds after which a child is thought to hang."""
POLL: Final = 0.0002


class Moment(StrEnum):
    """When to kill."""

    ANY = "any"
    SAVE = "save"
    EVALUATION = "evaluation"
    RESUME = "resume"


@final
class Victim:
    """A child that trains."""

    def __init__(self, process: int, folder: Path, beacon: Beacon) -> None:
        self.process, self.folder, self.beacon = process, folder, beacon
        self._code: int | None = None

    def ended(self) -> bool:
        if self._code is None:
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def wait(self) -> int:
        """Its exit code; minus the number of the signal that killed it."""
        limit = time.monotonic() + DEADLINE
        while not self.ended():
            if time.monotonic() > limit:
                self.kill()
                raise TimeoutError(f"{self.folder} hangs")
            time.sleep(0.005)
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        if not self.ended():
            os.kill(self.process, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        while not self.ended():
            time.sleep(POLL)

    def saving(self) -> bool:
        """Is there something half written, half replaced or half removed?"""
        try:
            return any(name.startswith(".") for name in os.listdir(self.folder / "checkpoints"))
        except FileNotFoundError:
            return False

    def await_moment(self, moment: Moment, draws: random.Random, span: float) -> None:
        """Sleep or watch until it is time to kill, or the child has ended. `span`: how long a whole run takes."""
        if moment is Moment.RESUME:
            time.sleep(draws.uniform(0, 0.06))
            return
        time.sleep(draws.uniform(0, span))
        if moment is Moment.ANY:
            return
        limit = time.monotonic() + span
        while not self.ended() and time.monotonic() < limit:
            if self.saving() if moment is Moment.SAVE else self.beacon.seen() is Phase.EVALUATING:
                _spin(draws.uniform(0, 0.004) if moment is Moment.SAVE else draws.uniform(0, 0.0005))
                return
            time.sleep(POLL)


def _spin(seconds: float) -> None:
    """Too short for sleep."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def warm_up() -> None:
    """Load what a first run loads (the first optimizer imports a compiler), so that no child has to."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])


def begin(recipe: Recipe, folder: Path, beacon: Beacon) -> Victim:
    """Train into the folder, or go on there, in a child; what it says goes to a file beside the folder."""
    beacon.show(Phase.STARTING)
    process = os.fork()
    if process:
        return Victim(process, folder, beacon)
    code = 70
    try:
        os.setsid()
        said = os.open(folder.with_suffix(".log"), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        os.dup2(said, 1)
        os.dup2(said, 2)
        torch.set_num_threads(1)
        hooks = [beacon]
        begun = (folder / "run.json").exists()
        done = resume(recipe, folder, hooks=hooks, hand_on_signals=False) if begun else _anew(recipe, folder, beacon)
        print(done.ending.message)
        code = exit_code(done.ending)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _anew(recipe: Recipe, folder: Path, beacon: Beacon) -> Trained:
    return train(recipe, name=folder.name, runs=folder.parent, hooks=[beacon], hand_on_signals=False)
