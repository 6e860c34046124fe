"""`trueloop tune RECIPE`: the fastest, or smallest, variant of a recipe that computes the same training, by
measuring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.named_run import named_run, origin_of_run
from trueloop.cli.options import Parser, number, one_of, whole_number
from trueloop.cli.recipe_options import add_recipe_options, recipe_arguments, settings_of
from trueloop.errors import Misuse
from trueloop.report import Live
from trueloop.results.check import ExitCode
from trueloop.results.tune import OBJECTIVES

if TYPE_CHECKING:
    from trueloop.tune.tune import TuneRequest

__all__ = ["parser", "tune"]

ABOUT: Final = """Measure other ways to compute a recipe: one knob at a time, each in its own process. Keep what is
faster by more than noise and gives the same training as eager fp32. If something won, it is written as a recipe for
`trueloop train`."""
ALLOWED: Final = ("batch",)  # Knobs that change the training: turned only with --allow


def parser() -> Parser:
    made = Parser("tune", "[options] RECIPE [TABLE]", ABOUT)
    add = made.add_argument
    add_recipe_options(made)
    add("--objective", metavar="NAME", type=one_of(OBJECTIVES), default="throughput", help=" | ".join(OBJECTIVES))
    minutes = number("a number of minutes, as in 5 or 0.5", above=0)
    add("--minutes", metavar="N", type=minutes, default=5.0, help="how long it may take (5)")
    add("--seeds", metavar="N", type=whole_number(1, 100), default=3, help="seeds for the metric (3)")
    add("--allow", metavar="NAME", type=one_of(ALLOWED), action="append", default=[], help="also change this: batch")
    add("--fresh", action="store_true", help="measure again, without results of earlier runs")
    add("--write", metavar="FILE", type=Path, help="the file for the winning recipe (NAME_tuned.py)")
    made.add_report_options(quiet="no progress, only the report")
    made.add_trust()
    return made


def tune(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.recipe is None:
        raise Misuse("Which recipe? Nothing was run: type `trueloop tune digits`, or your own file.py.")
    delivery = Delivery(options)
    from trueloop.report.from_tune import trial_line
    from trueloop.tune.process import TrialFailed
    from trueloop.tune.recipe_file import check_writable, file_for, write_recipe
    from trueloop.tune.tune import tune as search

    asked = _asked(options)
    recipe = asked.recipe()
    file: Path = options.write or file_for(recipe.name)
    check_writable(file)
    live = Live(sys.stderr, color=delivery.color)
    if not options.quiet:
        print(f"trueloop: tuning {asked.subject} for {asked.objective}, up to {options.minutes:g} min", file=sys.stderr)
    try:
        result = search(asked, lambda trial: None if options.quiet else live.show(trial_line(trial)))
    except TrialFailed as failed:
        why = f"{asked.subject} cannot be measured in eager fp32, the reference for all variants: {failed}."
        shows = f"Nothing was chosen: `trueloop train {asked.subject}` shows more."
        print(f"trueloop: {why} {shows}", file=sys.stderr)
        return ExitCode.FINDINGS
    delivery.deliver(result)
    if all(getattr(recipe, name) == value for name, value in result.best.changes.items()):
        print(f"nothing was better than {asked.subject} as it is: no file was written.", file=sys.stderr)
        return ExitCode.CLEAN
    replaced = file.exists()
    write_recipe(file, result, recipe, asked.word, asked.arguments, asked.settings)
    data = f" --data {options.data}" if options.data else ""
    shown = file if file.is_absolute() else f"./{file}"
    print(f"{'replaced' if replaced else 'written to'} {file}. Next: trueloop train {shown}{data}", file=sys.stderr)
    return ExitCode.CLEAN


def _asked(options: argparse.Namespace) -> TuneRequest:
    from trueloop.tune.tune import TuneRequest

    word = str(Path(options.recipe).absolute()) if options.recipe.endswith(".py") else options.recipe
    run, data = named_run(options.recipe), None
    origin: dict[str, Any] = {
        "recipe": word, "arguments": recipe_arguments(options.table, options.target), "settings": {}
    }  # fmt: skip
    if run is not None:
        origin, data = origin_of_run(run, "runs of `trueloop train RECIPE` can be tuned.")
    return TuneRequest(
        word=origin["recipe"],
        arguments=origin["arguments"],
        settings={**origin["settings"], **settings_of(options.set)},
        data=options.data or data,
        download=options.download,
        objective=options.objective,
        seconds=options.minutes * 60,
        seeds=options.seeds,
        allowed=frozenset(options.allow),
        fresh=options.fresh,
    )
