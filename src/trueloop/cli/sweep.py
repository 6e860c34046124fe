"""`trueloop sweep RECIPE --over lr=1e-3,3e-3 --seeds 4`: many runs of a recipe, and which settings differ."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, whole_number
from trueloop.cli.recipe_options import add_recipe_options, recipe_arguments, settings_of
from trueloop.errors import Misuse
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import validate
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.results.check import ExitCode
from trueloop.results.sweep import Setting, Sweep, TrialResult
from trueloop.sweep.halving import Halving
from trueloop.sweep.run_trials import Command, TrialRunner
from trueloop.sweep.search import Axis, axes_of, grid, random_settings
from trueloop.sweep.trial import Trial, trials_of

__all__ = ["parser", "sweep"]

ABOUT: Final = """Train a recipe with several settings and seeds, each a run of its own, and report which settings can
be told apart. The same command again continues an interrupted sweep: finished runs are kept, others resume exactly."""
EPILOG: Final = """VALUES are separated by commas (by semicolons, if a value has commas). A range, LOW..HIGH, needs
--random; above zero it is drawn log-uniformly.

Examples:
  trueloop sweep digits --over lr=1e-3,3e-3,1e-2 --seeds 4 --jobs 2
  trueloop sweep mine.py --over lr=1e-4..1e-1 --over hidden=32,64 --random 20"""


def parser() -> Parser:
    made = Parser("sweep", "[options] RECIPE [TABLE] --over NAME=VALUES ...", ABOUT)
    made.epilog = EPILOG
    add = made.add_argument
    add("--over", metavar="NAME=VALUES", action="append", default=[], help="vary a field, or a parameter of recipe()")
    add("--seeds", metavar="N", type=whole_number(), default=1, help="runs of each setting (1); 4 show the noise")
    add("--random", metavar="N", type=whole_number(), help="draw N settings instead of the whole grid")
    add("--draw", metavar="SEED", type=whole_number(0), default=0, help="with --random: other draws (0)")
    add("--jobs", metavar="N", type=whole_number(), default=1, help="runs at the same time; they share the cores (1)")
    add("--halving", action="store_true", help="end hopeless runs early: successive halving, by optuna")
    add("--group", metavar="NAME", default="", help="the name of the sweep (RECIPE-sweep); runs are NAME-...")
    add("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the folder for runs (default: runs)")
    add("--dry-run", action="store_true", help="list the runs, and train nothing")
    add_recipe_options(made)
    made.add_report_options(quiet="no progress, only the report")
    return made


def sweep(arguments: list[str]) -> int:
    options = _parsed(arguments)
    base, given = settings_of(options.set), recipe_arguments(options.table, options.target)
    axes = axes_of(options.over)
    settings = _settings(axes, options)
    recipe = find_recipe(options.recipe, given, {**base, **settings[0]})
    group = options.group or f"{recipe.name}-sweep"
    trials = list(trials_of(settings, _seeds(options, base, settings, recipe), base, group, options.runs))
    _validate(options.recipe, given, trials)
    for trial in trials:
        trial.todo()  # a folder of other settings is refused before anything runs
    if options.dry_run:
        print(*(f"{trial.folder}: {trial.todo()}" for trial in trials), sep="\n")
        return ExitCode.CLEAN
    delivery = Delivery(options)
    halving = Halving() if options.halving else None
    command = Command(options.recipe, _words(options), options.runs, group)
    runner = TrialRunner(command, options.jobs, halving, _printer(options.quiet))
    results = runner.run(trials)
    result = _result(recipe.name, group, trials, results, interrupted=bool(runner.signal))
    delivery.deliver(result)
    return 128 + runner.signal if runner.signal else _exit_code(result)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    options = parser().parse_all(arguments)
    if options.recipe is None:
        there = f"{', '.join(bundled())}; or your own file.py"
        raise Misuse(
            f"Which recipe? Nothing was run: type `trueloop sweep digits --over lr=1e-3,3e-3`. Known: {there}."
        )
    if not options.over and options.seeds == 1:
        raise Misuse(
            "What is varied? Nothing was run: add --over lr=1e-3,3e-3, or --seeds 4 to measure the noise alone."
        )
    if options.random is not None and not options.over:
        raise Misuse("--random needs --over, as in --over lr=1e-4..1e-1. Nothing was run.")
    if options.random is None and options.draw:
        raise Misuse("--draw belongs to --random. Nothing was run: add --random N, or leave --draw out.")
    if options.group and (re.search(r"[^\w.=+-]", options.group) or options.group.startswith(".")):
        raise Misuse(f"--group cannot be {options.group!r}: runs are folders of that name. Nothing was run.")
    twice = settings_of(options.set).keys() & {axis.name for axis in axes_of(options.over)}
    if twice:
        raise Misuse(f"{min(twice)} is in --set and in --over. Nothing was run: leave it out of one.")
    return options


def _settings(axes: tuple[Axis, ...], options: argparse.Namespace) -> list[dict[str, str]]:
    if options.random is None:
        return grid(axes)
    drawn = random_settings(axes, options.random, options.draw)
    if len(drawn) < options.random:
        print(f"note: there are only {len(drawn)} different settings; all are tried.", file=sys.stderr)
    return drawn


def _seeds(
    options: argparse.Namespace, base: dict[str, str], settings: list[dict[str, str]], recipe: Recipe
) -> list[int]:
    if "seed" in settings[0]:
        raise Misuse("--over varies the seed. Nothing was run: type --seeds N, which is the same and is averaged over.")
    if "epochs" in settings[0] and "steps" in settings[0]:
        raise Misuse("--over varies epochs and steps, which replace each other. Nothing was run: choose one.")
    return [recipe.seed + number for number in range(options.seeds)]


def _validate(word: str, given: dict[str, str], trials: list[Trial]) -> None:
    """Every setting, before the first one runs for hours."""
    from trueloop.engine.preflight import machine_problems

    for trial in trials:
        if trial.seed == trials[0].seed:
            recipe = find_recipe(word, given, trial.settings)
            validate(recipe, machine_problems(recipe))


def _words(options: argparse.Namespace) -> list[str]:
    words = [options.table] if options.table else []
    words += ["--target", options.target] if options.target else []
    words += ["--data", str(options.data)] if options.data else []
    return words + (["--download"] if options.download else [])


def _printer(quiet: bool) -> Callable[[str], None]:
    return (lambda _: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def _result(
    recipe: str, group: str, trials: list[Trial], results: dict[str, TrialResult], *, interrupted: bool
) -> Sweep:
    seen = [known for trial in trials if (known := trial.validation()).metric]
    metric, higher = (seen[0].metric, seen[0].higher_is_better) if seen else ("metric", True)
    by_setting: dict[tuple[tuple[str, str], ...], list[TrialResult]] = {}
    for trial in trials:
        by_setting.setdefault(tuple(trial.values.items()), []).append(results[trial.name])
    settings = tuple(Setting(dict(values), tuple(members)) for values, members in by_setting.items())
    folder = str(trials[0].folder.parent)
    return Sweep(recipe, group, folder, metric, higher, settings, interrupted)


def _exit_code(result: Sweep) -> int:
    """docs/exit-codes.md"""
    return ExitCode.FINDINGS if result.troubles_of_code() else ExitCode.CLEAN
