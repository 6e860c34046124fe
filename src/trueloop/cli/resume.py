"""`trueloop resume RUN`: go on with a run, from its newest whole checkpoint, to the same bits; or make a finished one longer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueloop.amend import amended, remarks
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.origin import origin_of, recipe_of
from trueloop.cli.train import finish, settings_of
from trueloop.errors import Misuse
from trueloop.recipe import Recipe

__all__ = ["resume"]

ABOUT: Final = (
    "Go on with a run that was stopped or killed, from its newest whole checkpoint. `--set epochs=20` makes a run longer, also a finished "
    "one; what does not touch its numbers (workers, device, log_every, keep ...) may be set too."
)
STRETCHED: Final = ("cosine", "linear", "one-cycle")
"""Schedules whose rate at a step depends on how long the whole run is."""


def resume(arguments: list[str]) -> int:
    parser = Parser("resume", "[options] RUN", ABOUT)
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="the folder of the run: runs/NAME")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="another value for a field; may be repeated")
    parser.add_argument("--download", action="store_true", help="fetch the data from their public home if they are not here")
    parsed = parser.parse_all(arguments)
    if parsed.run is None:
        raise Misuse("Which run? Nothing was run: type `trueloop resume runs/NAME`; `trueloop runs` lists them.")
    settings = settings_of(parsed.set)
    origin = origin_of(parsed.run, f"call trueloop.resume(recipe, {str(parsed.run)!r}) in that script.")

    def work() -> int:
        before = recipe_of(origin)
        recipe = amended(before, settings)
        for remark in (*remarks(before, settings), *_lengthened(before, recipe)):
            print(f"note: {remark}", file=sys.stderr)
        from trueloop.session.train import resume as go_on

        kept = {**origin, "settings": _merged(origin["settings"], settings)}
        return finish(go_on(recipe, parsed.run, download=parsed.download, origin=kept, hand_on_signals=False))

    return with_their_errors(work)


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
