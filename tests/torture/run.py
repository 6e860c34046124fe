"""`make torture`: runs are killed at random moments, also in the middle of saves, evaluations and resumes, until they
have finished; each must end with the bits of the run that nobody disturbed.

    python -m tests.torture.run --kills 200
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from tests.torture.beacon import Beacon
from tests.torture.bits import differences, remains
from tests.torture.recipes import SCENARIOS
from tests.torture.victim import Moment, begin, warm_up
from trueloop.recipe.recipe import Recipe
from trueloop.session.folder import read_about

__all__ = ["Account", "main", "torment"]

MOMENTS: Final = (Moment.ANY, Moment.SAVE, Moment.SAVE, Moment.EVALUATION, Moment.RESUME)
"""From which a kill's moment is drawn."""
MOST: Final = 5
"""Kills that one run may get."""


@dataclass
class Account:
    """What was done to a scenario, and what came of it."""

    scenario: str
    kills: Counter[str] = field(default_factory=Counter)
    """By the moment that was aimed at."""
    saving: int = 0
    """Kills that left something half written."""
    runs: int = 0
    resumed: int = 0
    identical: int = 0
    troubles: list[str] = field(default_factory=list)


class Killable(Protocol):
    """What a run is made from."""

    @property
    def name(self) -> str: ...

    def recipe(self, beacon: Beacon) -> Recipe: ...


def torment(scenario: Killable, kills: int, seed: int, folder: Path) -> Account:
    """Kill runs of one scenario that many times."""
    draws, beacon, account = random.Random(f"{scenario.name} {seed}"), Beacon(), Account(scenario.name)
    recipe = scenario.recipe(beacon)
    begun = time.monotonic()
    code = begin(recipe, folder / f"{scenario.name}-undisturbed", beacon).wait()
    span = time.monotonic() - begun
    if code:
        account.troubles.append(
            f"the undisturbed run ended with {code}: {_last_words(folder / f'{scenario.name}-undisturbed')}"
        )
        return account
    expected = remains(folder / f"{scenario.name}-undisturbed")
    while account.kills.total() < kills and not account.troubles:
        run = folder / f"{scenario.name}-{account.runs}"
        account.runs += 1
        _until_finished(
            recipe, run, beacon, draws, span, min(kills - account.kills.total(), draws.randint(1, MOST)), account
        )
        if not account.troubles:
            _compare(run, expected, account)
    return account


def _until_finished(
    recipe: Recipe, run: Path, beacon: Beacon, draws: random.Random, span: float, kills: int, account: Account
) -> None:
    for turn in range(kills):
        if _finished(run):
            return
        victim = begin(recipe, run, beacon)
        account.resumed += turn > 0
        moment = draws.choice(MOMENTS if turn else MOMENTS[:-1])
        victim.await_moment(moment, draws, span / (kills + 1))
        if victim.ended():
            account.troubles += _failure(victim.wait(), run)
            return
        victim.kill()
        account.kills[moment] += 1
        account.saving += victim.saving()
    if not _finished(run):
        account.resumed += 1
        account.troubles += _failure(begin(recipe, run, beacon).wait(), run)


def _finished(run: Path) -> bool:
    return (run / "run.json").exists() and read_about(run)["status"] in ("finished", "early-stopped")


def _failure(code: int, run: Path) -> list[str]:
    return [f"{run.name} ended with {code}: {_last_words(run)}"] if code else []


def _last_words(run: Path) -> str:
    log = run.with_suffix(".log")
    return log.read_text(encoding="utf-8")[-2000:] if log.exists() else "it said nothing"


def _compare(run: Path, expected: Any, account: Account) -> None:
    found = list(differences(expected, remains(run)))
    account.identical += not found
    account.troubles += [f"{run.name} differs: {where}" for where in found[:5]]


def shown(accounts: Sequence[Account]) -> str:
    """As a table."""
    heads = (
        "scenario",
        "runs",
        "kills",
        "while saving",
        "aimed at evaluation",
        "aimed at resume",
        "resumed",
        "identical",
    )
    rows = [
        (
            a.scenario,
            a.runs,
            a.kills.total(),
            a.saving,
            a.kills[Moment.EVALUATION],
            a.kills[Moment.RESUME],
            a.resumed,
            f"{a.identical}/{a.runs}",
        )
        for a in accounts
    ]
    sums = [sum(int(row[column]) for row in rows) for column in range(1, 7)]
    identical = f"{sum(a.identical for a in accounts)}/{sum(a.runs for a in accounts)}"
    table = [heads, *(tuple(map(str, row)) for row in rows), ("all", *map(str, sums), identical)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.run", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--folder",
        default="/dev/shm" if Path("/dev/shm").is_dir() else None,
        help="memory by default: kill -9 is no power cut",
    )
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warm_up()
    shares = [
        parsed.kills // len(SCENARIOS) + (number < parsed.kills % len(SCENARIOS)) for number in range(len(SCENARIOS))
    ]
    begun = time.monotonic()
    # Forked, so that torch is loaded once; not daemons, because the loaders have workers of their own.
    pool = ProcessPoolExecutor(parsed.jobs, mp_context=get_context("fork"))
    with tempfile.TemporaryDirectory(prefix="trueloop-torture-", dir=parsed.folder) as folder, pool:
        futures = [
            pool.submit(torment, each, share, parsed.seed, Path(folder))
            for each, share in zip(SCENARIOS, shares, strict=True)
        ]
        accounts = [future.result() for future in futures]
    print(shown(accounts))
    for trouble in [trouble for account in accounts for trouble in account.troubles]:
        print(trouble, file=sys.stderr)
    killed = sum(account.kills.total() for account in accounts)
    print(f"{killed} kills in {time.monotonic() - begun:.0f} s")
    return 1 if killed < parsed.kills or any(account.troubles for account in accounts) else 0


if __name__ == "__main__":
    sys.exit(main())
