"""`trueloop tune RECIPE`: the fastest, or smallest, variant of a recipe that computes the same training, found by
measuring."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import hand_over, writable
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.train import settings_of
from trueloop.errors import Misuse, did_you_mean
from trueloop.recipes.catalogue import bundled
from trueloop.report import FORMATS, Live, print_report, render
from trueloop.results.check import ExitCode
from trueloop.results.tune import OBJECTIVES, Objective, Tuning

if TYPE_CHECKING:
    from trueloop.tune.tune import TuneRequest

__all__ = ["tune"]

ABOUT: Final = (
    "Try other ways to compute a recipe, each in a process of its own, one knob at a time; keep what is better by more than noise and is "
    "proved the same training as fp32, eager. The winner is written as a recipe that `trueloop train` takes. Nothing is trained to its end."
)
ALLOWED: Final = ("batch",)
"""What changes the training, and may be turned only if the user says so."""


def tune(arguments: list[str]) -> int:
    options = _parsed(arguments)
    return with_their_errors(lambda: _tune(options))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("tune", "[options] RECIPE [TABLE]", ABOUT)
    parser.add_argument(
        "recipe", nargs="?", metavar="RECIPE", help=f"one of {', '.join(bundled())}; or a file of yours"
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="tabular: the CSV or Parquet file to learn from")
    parser.add_argument(
        "--objective",
        metavar="NAME",
        type=_one_of("--objective", OBJECTIVES),
        default="throughput",
        help=" | ".join(OBJECTIVES),
    )
    parser.add_argument("--budget", metavar="MINUTES", type=_minutes, default=300.0, help="how long it may take (5)")
    parser.add_argument(
        "--seeds", metavar="N", type=_seeds, default=3, help="short trainings whose metric is compared (3)"
    )
    parser.add_argument(
        "--allow",
        metavar="NAME",
        type=_one_of("--allow", ALLOWED),
        action="append",
        default=[],
        help="turn this too: batch",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a value that is fixed; may be repeated"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder that holds the data")
    parser.add_argument("--target", metavar="COLUMN", help="tabular: the column to predict")
    parser.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    parser.add_argument("--fresh", action="store_true", help="measure anew what is known from before")
    parser.add_argument("--write", metavar="FILE", type=Path, help="where the winning recipe goes (NAME_tuned.py)")
    parser.add_argument(
        "--format", metavar="NAME", type=_one_of("--format", FORMATS), default="text", help=" | ".join(FORMATS)
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report there")
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    parsed = parser.parse_all(arguments)
    if parsed.recipe is None:
        raise Misuse("Which recipe? Nothing was run: type `trueloop tune digits`, or a file of yours.")
    if parsed.data is not None and not parsed.data.exists():
        raise Misuse(f"--data {parsed.data}: there is no such folder. Nothing was run.")
    if parsed.output is not None:
        parsed.output = writable(parsed.output)
    return parsed


def _one_of(option: str, names: tuple[str, ...]) -> Callable[[str], str]:
    def read(word: str) -> str:
        if word not in names:
            raise Misuse(
                f"{option} cannot be {word!r}.{did_you_mean(word, names)} Nothing was run. There are: {', '.join(names)}."
            )
        return word

    return read


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0.0 < minutes < 10_000:
        raise Misuse(f"--budget cannot be {text!r}. Nothing was run: write a number of minutes, as in 5 or 0.5.")
    return minutes * 60


def _seeds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise Misuse(f"--seeds cannot be {text!r}. Nothing was run: write a number, as in 3.")
    return int(text)


# -- the work --


def _tune(options: argparse.Namespace) -> int:
    from trueloop.report.from_tune import trial_line
    from trueloop.tune.process import TrialFailed
    from trueloop.tune.recipe_file import check_writable, file_for, write_recipe
    from trueloop.tune.tune import tune as search

    asked = _asked(options)
    recipe = asked.recipe()
    file: Path = options.write or file_for(recipe.name)
    check_writable(file)
    live = Live(sys.stderr, color=not options.no_color)
    print(
        f"trueloop: tuning {asked.subject} for {asked.objective}, {asked.seconds / 60:g} minutes at most.",
        file=sys.stderr,
    )
    try:
        made = search(asked, lambda trial: live.show(trial_line(trial)))
    except TrialFailed as failed:
        print(
            f"trueloop: {asked.subject} cannot be measured in fp32, eager, so that there is nothing to hold others against: {failed}. "
            f"Nothing was chosen: `trueloop train {asked.subject}` shows more.",
            file=sys.stderr,
        )
        return ExitCode.FINDINGS
    _deliver(options, made)
    there = file.exists()
    write_recipe(file, made, recipe, asked.word, asked.arguments, asked.settings)
    data = f" --data {options.data}" if options.data else ""
    shown = file if file.is_absolute() else f"./{file}"
    print(f"{'replaced' if there else 'written to'} {file}. Next: trueloop train {shown}{data}", file=sys.stderr)
    return ExitCode.CLEAN


def _asked(options: argparse.Namespace) -> TuneRequest:
    from trueloop.tune.tune import TuneRequest

    given = {"table": str(Path(options.table).absolute())} if options.table else {}
    if options.target:
        given["target"] = options.target
    objective: Objective = options.objective
    return TuneRequest(
        word=str(Path(options.recipe).absolute()) if options.recipe.endswith(".py") else options.recipe,
        arguments=given,
        settings=settings_of(options.set),
        data=None if options.data is None else options.data.absolute(),
        download=options.download,
        objective=objective,
        seconds=options.budget,
        seeds=options.seeds,
        allowed=frozenset(options.allow),
        fresh=options.fresh,
    )


def _deliver(options: argparse.Namespace, made: Tuning) -> None:
    """To the file, or to stdout."""
    if options.format == "text" and options.output is None:
        print_report(made, to=sys.stdout, color=not options.no_color)
        sys.stdout.flush()
        return
    hand_over(render(made, options.format), options.output)
