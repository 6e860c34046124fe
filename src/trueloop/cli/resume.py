"""`trueloop resume RUN`: go on with a run, from its newest whole checkpoint, to the same bits; or make a finished one
longer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trueloop.cli.hang_after import add_hang_after
from trueloop.cli.options import Parser
from trueloop.cli.rank import agree_exit_code, is_speaker, run_as_rank
from trueloop.cli.train import finish, settings_of, without_nproc
from trueloop.errors import Misuse
from trueloop.recipe.overrides import apply_overrides, override_notes
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.origin import origin_of, recipe_of
from trueloop.session.folder import read_about
from trueloop.session.hang_watch import watch_for_hangs

__all__ = ["recipe_for", "resume"]

ABOUT: Final = (
    "Go on with a run that was stopped or killed, from its newest whole checkpoint. `--set epochs=20` makes a run longer, also a finished "
    "one; what does not touch its numbers (workers, device, log_every, keep ...) may be set too."
)
STRETCHED: Final = ("cosine", "linear", "one-cycle")
"""Schedules whose rate at a step depends on how long the whole run is."""


def resume(arguments: list[str]) -> int:
    parsed = _parsed(arguments)
    settings = settings_of(parsed.set)
    origin = _origin(parsed.run)
    if parsed.nproc is not None:
        from trueloop.cli.launch import launch_here

        return launch_here("resume", parsed.nproc, without_nproc(arguments))

    with run_as_rank() as outcome:
        before = recipe_of(origin)
        recipe = apply_overrides(before, settings)
        for remark in (*override_notes(before, settings), *_lengthened(before, recipe)) if is_speaker() else ():
            print(f"note: {remark}", file=sys.stderr)
        from trueloop.session.train import resume as go_on

        kept = {**origin, "settings": _merged(origin["settings"], settings)}
        with watch_for_hangs(parsed.hang_after), agree_exit_code(outcome):
            done = go_on(recipe, parsed.run, download=parsed.download, origin=kept, hand_on_signals=False)
            outcome.code = finish(done)
    return outcome.code


def recipe_for(arguments: list[str]) -> Recipe:
    """What `resume` would train, or its refusal: for who starts it in other processes."""
    parsed = _parsed(arguments)
    return apply_overrides(recipe_of(_origin(parsed.run)), settings_of(parsed.set))


def _origin(run: Path) -> dict[str, Any]:
    return origin_of(run, read_about(run), f"call trueloop.resume(recipe, {str(run)!r}) in that script.")


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("resume", "[options] RUN", ABOUT)
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="the folder of the run: runs/NAME")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="another value for a field; may be repeated"
    )
    parser.add_argument(
        "--nproc", metavar="N", help="so many processes, to the same numbers: a number, or auto | gpu | cpu"
    )
    add_hang_after(parser)
    parser.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    parsed = parser.parse_all(arguments)
    if parsed.run is None:
        raise Misuse("Which run? Nothing was run: type `trueloop resume runs/NAME`; `trueloop runs` lists them.")
    return parsed


def _lengthened(before: Recipe, now: Recipe) -> Iterator[str]:
    if (before.epochs, before.steps) == (now.epochs, now.steps):
        return
    if now.schedule in STRETCHED or (now.schedule == "step" and not now.step_size):
        yield (
            f"schedule={now.schedule} depends on the length of the run: from here the rate is that of the new length, so the result is not "
            "the one of a run that had this length from the beginning."
        )


def _merged(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """The settings of the run, and the new ones: `epochs` takes the place of `steps`, and the other way round."""
    lengths = {"epochs", "steps"}
    kept = {name: value for name, value in before.items() if not (name in lengths and lengths & set(now))}
    return {**kept, **now}
