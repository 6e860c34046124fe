"""Kills one process of a launched run, again and again, and lets the launcher start all of them again; the run must end
with the bits of the one that nobody disturbed.

    python -m tests.torture.ranks --kills 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.parallel.launching import Ended, begun, trueloop
from tests.torture.bits import differences, remains
from trueloop.session.folder import read_about

__all__ = ["WAYS", "Account", "main", "processes", "torment"]

WAYS: Final = ("fsdp", "ddp", "tp")
"""Each of two processes: in pieces, whole, and layers in pieces."""
MOST: Final = 4
"""Kills that one run may get."""
POLL: Final = 0.001
DEADLINE: Final = 300.0
"""Seconds after which a launch is thought to hang."""


class Moment(StrEnum):
    """When to kill."""

    ANY = "any"
    SAVE = "save"
    START = "start"
    """While the processes meet, and read the checkpoint."""


MOMENTS: Final = (Moment.ANY, Moment.SAVE, Moment.SAVE, Moment.START)
"""From which a kill's moment is drawn."""

RECIPE: Final = """\
import os, time
from pathlib import Path
import torch
from torch import nn
from trueloop import Recipe, Splits, Tensors

Path(os.environ["SEEN"], "starting-" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")).touch()

def read(request):
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(290, 12, generator=draws)
    targets = (inputs[:, 0] > 0).long() + 2 * (inputs[:, 1] > 0).long()
    return Splits(Tensors(inputs[:230], targets[:230]), Tensors(inputs[230:], targets[230:]))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.Dropout(0.2), nn.Linear(32, 4))

    def forward(self, x):
        if self.training:
            Path(os.environ["SEEN"], "training-" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")).touch()
            time.sleep(0.01)
        return self.layers(x)

recipe = Recipe(
    name="torn", model=Net, data=read, epochs=8, batch=16, lr=0.02, log_every=2, save_every=3, evaluate_every=20, ema=0.95, clip=1.0,
    schedule="cosine", warmup=9, trackers=(), statistics_every=0, device="cpu",
)
"""  # noqa: E501


@dataclass
class Account:
    """What was done to a way of spreading a run, and what came of it."""

    way: str
    kills: Counter[str] = field(default_factory=Counter)
    """By the moment that was aimed at."""
    ranks: Counter[int] = field(default_factory=Counter)
    """By who was killed."""
    saving: int = 0
    """Kills that left something half written."""
    runs: int = 0
    identical: int = 0
    troubles: list[str] = field(default_factory=list)


def torment(way: str, kills: int, seed: int, folder: Path) -> Account:
    """Kill processes of runs of one kind that many times."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "torn.py").write_text(RECIPE, encoding="utf-8")
    draws, account = random.Random(f"{way} {seed}"), Account(way)
    (folder / "undisturbed").mkdir()
    ended = trueloop(folder, *_words(way, "undisturbed"), SEEN=str(folder / "undisturbed"))
    if ended.code:
        account.troubles.append(f"the undisturbed run ended with {ended.code}: {ended.err[-2000:]}")
        return account
    about = read_about(folder / "runs" / "undisturbed")
    span, expected = float(about["ended"]) - float(about["started"]), remains(folder / "runs" / "undisturbed")
    while account.kills.total() < kills and not account.troubles:
        name = f"{way}-{account.runs}"
        account.runs += 1
        _until_finished(
            way, name, folder, draws, span, min(kills - account.kills.total(), draws.randint(1, MOST)), account
        )
        if not account.troubles:
            found = list(differences(expected, remains(folder / "runs" / name)))
            account.identical += not found
            account.troubles += [f"{name} differs: {where}" for where in found[:5]]
    return account


def _words(way: str, name: str) -> list[str]:
    return [
        "launch",
        "--nproc",
        "2",
        "--restarts",
        "50",
        "--",
        "train",
        "torn.py",
        "--set",
        f"parallel={way}",
        "--name",
        name,
    ]


def _until_finished(
    way: str, name: str, folder: Path, draws: random.Random, span: float, kills: int, account: Account
) -> None:
    seen = folder / name
    seen.mkdir()
    with begun(folder, *_words(way, name), name=name, SEEN=str(seen)) as (launcher, end):
        done = _Watched(launcher)
        for attempt in range(kills):
            moment = draws.choice(MOMENTS)
            if not _await(moment, attempt, seen, folder / "runs" / name, draws, span / kills, done):
                break
            victims = processes(launcher)
            if not victims:
                break
            rank = draws.randrange(len(victims))
            os.kill(victims[rank], signal.SIGKILL)
            account.kills[moment] += 1
            account.ranks[rank] += 1
            account.saving += _half_written(folder / "runs" / name)
        ended = _patiently(done, end)
        if ended.code:
            account.troubles.append(f"{name} ended with {ended.code}: {ended.err[-2000:]}")


class _Watched:
    """Has the launcher ended? Asked without taking its exit code away from who waits for it."""

    def __init__(self, process: int) -> None:
        self.process = process

    def __call__(self) -> bool:
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _patiently(done: Callable[[], bool], end: Callable[[], Ended]) -> Ended:
    limit = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > limit:
            raise TimeoutError("the launch hangs")
        time.sleep(0.02)
    return end()


def _await(
    moment: Moment, attempt: int, seen: Path, run: Path, draws: random.Random, span: float, done: Callable[[], bool]
) -> bool:
    """Until it is time to kill in this attempt; False: it has ended before."""
    begun = seen / (f"starting-{attempt}" if moment is Moment.START else f"training-{attempt}")
    limit = time.monotonic() + DEADLINE
    while not begun.exists():
        if done():
            return False
        if time.monotonic() > limit:
            raise TimeoutError(f"attempt {attempt} does not begin")
        time.sleep(POLL)
    time.sleep(draws.uniform(0, 0.3 if moment is Moment.START else span))
    if moment is Moment.SAVE:
        until = time.monotonic() + span
        while not _half_written(run) and not done() and time.monotonic() < until:
            time.sleep(POLL / 4)
        time.sleep(draws.uniform(0, 0.004))
    return not done()


def _half_written(run: Path) -> bool:
    try:
        return any(name.startswith(".") for name in os.listdir(run / "checkpoints"))
    except FileNotFoundError:
        return False


def processes(launcher: int) -> list[int]:
    """Those that the launcher has started, in the order of their ranks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if parent == launcher and b"RANK=" in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # it has just ended
    return sorted(found)


def shown(accounts: Sequence[Account]) -> str:
    """As a table."""
    heads = ("way", "runs", "kills", "of rank 0", "of rank 1", "while saving", "at the start", "identical")
    rows: list[tuple[Any, ...]] = [
        (
            a.way,
            a.runs,
            a.kills.total(),
            a.ranks[0],
            a.ranks[1],
            a.saving,
            a.kills[Moment.START],
            f"{a.identical}/{a.runs}",
        )
        for a in accounts
    ]
    table = [heads, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.ranks", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {','.join(WAYS)}")
    parsed = parser.parse_args(arguments)
    ways = parsed.ways.split(",")
    shares = [parsed.kills // len(ways) + (number < parsed.kills % len(ways)) for number in range(len(ways))]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trueloop-torture-") as folder:
        accounts = [
            torment(way, share, parsed.seed, Path(folder) / way) for way, share in zip(ways, shares, strict=True)
        ]
    print(shown(accounts))
    for trouble in [trouble for account in accounts for trouble in account.troubles]:
        print(trouble, file=sys.stderr)
    killed = sum(account.kills.total() for account in accounts)
    print(f"{killed} kills in {time.monotonic() - began:.0f} s")
    return 1 if killed < parsed.kills or any(account.troubles for account in accounts) else 0


if __name__ == "__main__":
    sys.exit(main())
