"""`trueloop resume RUN`: continue a run from its newest valid checkpoint, bit-identical; or make a finished one
longer."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trueloop.cli.lasting_output import lasting_output
from trueloop.cli.options import Parser
from trueloop.cli.rank import agree_exit_code, leave_exit_code, rank_peers
from trueloop.cli.recipe_options import settings_of
from trueloop.cli.train import QuietDisplay, finish, print_notes, without_nproc
from trueloop.errors import Misuse
from trueloop.recipe.overrides import apply_overrides, override_notes
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.origin import origin_of, recipe_of
from trueloop.session.folder import read_about
from trueloop.session.hang_watch import end_run_on_hang

__all__ = ["parser", "recipe_for", "resume"]

ABOUT: Final = """Continue a run that was stopped or killed, from its newest valid checkpoint. `--set epochs=20`
makes a run longer, also a finished one. Fields that do not change the numbers (workers, device, accumulate, keep ...)
may be set too; others (lr, patience ...), changed code and changed data need --accept-changes, which records them."""
STRETCHED: Final = ("cosine", "linear", "one-cycle")  # Schedules that depend on the length of the run


def parser() -> Parser:
    made = Parser("resume", "[options] RUN", ABOUT)
    made.add_argument("run", nargs="?", type=Path, metavar="RUN", help="the folder of the run, or its name in runs/")
    made.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="change a field; repeatable")
    made.add_argument("--recipe", metavar="FILE", help="the recipe's file, if it was moved or renamed")
    made.add_argument(
        "--accept-changes", action="store_true", help="resume with changed code, data or fields; recorded"
    )
    made.add_argument("--nproc", metavar="N", help="number of processes, with the same results: N | auto | gpu | cpu")
    made.add_argument("--download", action="store_true", help="download the data if they are missing")
    made.add_argument("-q", "--quiet", action="store_true", help="print findings, warnings and errors only")
    made.add_hang_after()
    made.add_trust()
    return made


def resume(arguments: list[str]) -> int:
    options = _parsed(arguments)
    settings = settings_of(options.set)
    origin = _origin(options)
    if options.nproc is not None:
        from trueloop.cli.processes import launch_here

        return launch_here("resume", options.nproc, without_nproc(arguments), recipe_for)
    before = _recipe_of(origin)
    kept = {**origin, "settings": _merged(origin["settings"], settings)}
    own = settings.keys() & before.hyperparameters.keys()  # its function is called again with these
    recipe = recipe_of(kept) if own else apply_overrides(before, settings)
    print_notes([*override_notes(before, settings), *_length_notes(before, recipe)])
    from trueloop.session.train import resume as resume_run

    hooks = (QuietDisplay(),) if options.quiet else None
    with lasting_output(), end_run_on_hang(options.hang_after), rank_peers() as peers:
        how = {"download": options.download, "origin": kept, "hooks": hooks, "hand_on_signals": False}
        how["accept_changes"] = options.accept_changes
        code = agree_exit_code(peers, finish(resume_run(recipe, options.run, **how)))
    return leave_exit_code(code)


def _recipe_of(origin: dict[str, Any]) -> Recipe:
    file = Path(origin["recipe"])
    if file.suffix == ".py" and not file.is_file():
        raise Misuse(f"There is no file {file}. Nothing was run: where is the recipe now? Type --recipe FILE.")
    return recipe_of(origin)


def recipe_for(arguments: list[str]) -> Recipe:
    """The recipe that `resume` would train: the launcher calls this before it starts processes."""
    options = _parsed(arguments)
    origin = _origin(options)
    return _recipe_of({**origin, "settings": _merged(origin["settings"], settings_of(options.set))})


def _origin(options: argparse.Namespace) -> dict[str, Any]:
    run = options.run
    otherwise = f"call trueloop.resume(recipe, {str(run)!r}) in that script."
    return origin_of(run, read_about(run), otherwise, options.recipe or "")


def _parsed(arguments: list[str]) -> argparse.Namespace:
    options = parser().parse_all(arguments)
    if options.run is None:
        raise Misuse("Which run? Nothing was run: type `trueloop resume runs/NAME`; `trueloop runs` lists them.")
    named = Path("runs") / options.run
    if not options.run.exists() and (named / "run.json").is_file():
        options.run = named
    return options


def _length_notes(before: Recipe, now: Recipe) -> Iterator[str]:
    stretched = callable(now.schedule) or now.schedule in STRETCHED or (now.schedule == "step" and not now.step_size)
    stretched = stretched or 0 < now.warmup < 1
    if stretched and (before.epochs, before.steps) != (now.epochs, now.steps):
        name = getattr(now.schedule, "__name__", now.schedule)
        why = f"schedule={name} depends on the length of the run: from here the learning rate follows the new"
        yield f"{why} length, so the result differs from a run that had this length from the beginning."


def _merged(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """The settings of the run and the new ones; `epochs` replaces `steps`, and the other way round."""
    lengths = {"epochs", "steps"}
    kept = {name: value for name, value in before.items() if not (name in lengths and lengths & set(now))}
    return {**kept, **now}
