"""`trueloop train RECIPE`: train a recipe from the beginning, or show it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueloop.cli.lasting_output import lasting_output
from trueloop.cli.options import Parser, one_of
from trueloop.cli.rank import agree_exit_code, find_launched_run, is_speaker, leave_exit_code, rank_peers
from trueloop.cli.recipe_options import (
    add_recipe_options,
    help_page,
    recipe_arguments,
    recipe_as_json,
    recipe_as_text,
    recipe_list,
    settings_of,
)
from trueloop.errors import Misuse
from trueloop.finding import Severity
from trueloop.hook import Ending, Hook
from trueloop.parallel.answer import launch_name
from trueloop.recipe.overrides import apply_overrides, override_notes
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import unused_fields, validate
from trueloop.recipes.catalogue import bundled, find_recipe, recipe_and_settings
from trueloop.results.check import ExitCode
from trueloop.session.hang_watch import end_run_on_hang

if TYPE_CHECKING:
    from trueloop.session.train import Trained

__all__ = ["QuietDisplay", "exit_code", "finish", "parser", "recipe_for", "train", "without_nproc"]

ABOUT = """Train a recipe from the beginning. Metrics, checkpoints and findings go to runs/NAME; `trueloop resume
runs/NAME` continues a run that was stopped or killed."""


def parser() -> Parser:
    made = Parser("train", ("[options] RECIPE [TABLE]", "--list"), ABOUT)
    add = made.add_argument
    made.epilog = help_page()
    add_recipe_options(made)
    add("--list", action="store_true", help="list the bundled recipes, and train nothing")
    add("--show", action="store_true", help="print every field of the recipe, and train nothing")
    add("--format", metavar="NAME", type=one_of(("text", "json")), help="with --show: text (default) | json")
    add("--name", default="", help="the name of the run")
    add("--runs", type=Path, default=Path("runs"), metavar="DIR", help="the folder for runs (default: runs)")
    add("--group", metavar="NAME", default="", help="the group that the run belongs to: `trueloop runs --group NAME`")
    add("--varied", default="", help=argparse.SUPPRESS)  # of `trueloop sweep`: the fields that it varies
    add("--baseline", metavar="RUN", help="stop if validation gets worse than this good run (on_collapse)")
    add("--nproc", metavar="N", help="number of processes, with the same results: N | auto | gpu | cpu")
    add("-q", "--quiet", action="store_true", help="print findings, warnings and errors only")
    made.add_hang_after()
    return made


def train(arguments: list[str]) -> int:
    options = _parsed(arguments)
    if options.list:
        print(recipe_list())
        return 0
    settings = settings_of(options.set)
    if options.nproc is not None and not options.show:
        from trueloop.cli.processes import launch_here

        return launch_here("train", options.nproc, without_nproc(arguments), recipe_for)
    given = recipe_arguments(options.table, options.target)
    before, left = recipe_and_settings(options.recipe, given, settings)
    recipe = apply_overrides(before, left)
    if options.show:
        return _show(recipe, settings, options.format)
    print_notes([*override_notes(before, settings), *unused_fields(recipe)])
    from trueloop.session.train import train as train_recipe

    word = str(Path(options.recipe).absolute()) if options.recipe.endswith(".py") else options.recipe
    origin = {"recipe": word, "arguments": given, "settings": settings}
    more: dict[str, Any] = {
        "download": options.download,
        "origin": origin | ({"launch": launch_name()} if launch_name() else {}),
        "hand_on_signals": False,
        "hooks": (QuietDisplay(),) if options.quiet else None,
    }
    with lasting_output(), end_run_on_hang(options.hang_after), rank_peers() as peers:
        begun = find_launched_run(peers, options.runs)
        if begun is None:
            where = {"name": options.name, "runs": options.runs, "data": options.data, "baseline": options.baseline}
            where["group"] = _group(options, settings)
            code = finish(train_recipe(recipe, **where, **more))
        else:
            code = _continue(recipe, begun, more)
        code = agree_exit_code(peers, code)
    return leave_exit_code(code)


def _group(options: argparse.Namespace, settings: dict[str, str]) -> dict[str, Any]:
    """What run.json says about a run of a sweep."""
    varied = {name: settings[name] for name in options.varied.split(",") if name in settings}
    return {"group": options.group, **({"varied": varied} if varied else {})} if options.group else {}


def recipe_for(arguments: list[str]) -> Recipe:
    """The recipe that `train` would train, validated: the launcher calls this before it starts processes."""
    from trueloop.engine.preflight import machine_problems

    options = _parsed(arguments)
    given = recipe_arguments(options.table, options.target)
    recipe = find_recipe(options.recipe, given, settings_of(options.set))
    validate(recipe, machine_problems(recipe))
    return recipe


def without_nproc(arguments: list[str]) -> list[str]:
    """The words for each of the processes."""
    words, rest = [], iter(arguments)
    for word in rest:
        if word == "--nproc":
            next(rest, None)
        elif not word.startswith("--nproc="):
            words.append(word)
    return words


def _parsed(arguments: list[str]) -> argparse.Namespace:
    options = parser().parse_all(arguments)
    if options.recipe is None and not options.list:
        there = f"{', '.join(bundled())}; or your own file.py"
        raise Misuse(f"Which recipe? Nothing was run: type `trueloop train digits`. Bundled: {there}.")
    if options.format is not None and not options.show:
        raise Misuse("--format belongs to --show. Nothing was run: add --show, or leave --format out.")
    if options.name and (Path(options.name).name != options.name or options.name.startswith(".")):
        raise Misuse(f"--name cannot be {options.name!r}: it names one folder in --runs DIR. Nothing was run.")
    return options


def print_notes(notes: list[str]) -> None:
    for note in notes if is_speaker() else ():
        print(f"note: {note}", file=sys.stderr)


def _show(recipe: Recipe, settings: dict[str, str], format: str | None) -> int:
    from trueloop.engine.preflight import machine_problems

    more = machine_problems(recipe)
    print(recipe_as_json(recipe, settings, more) if format == "json" else recipe_as_text(recipe, settings), flush=True)
    validate(recipe, more)
    return 0


def _continue(recipe: Recipe, begun: Path, more: dict[str, Any]) -> int:
    """`--restarts`, or a cluster, started the launch again: its run continues, no second one begins."""
    from trueloop.session.folder import read_about
    from trueloop.session.train import resume as resume_run

    over = read_about(begun).get("status") in ("finished", "early-stopped")
    how = "has finished: nothing is left to do." if over else "continues from its newest valid checkpoint."
    print_notes([f"started again; {begun} {how}"])
    return 0 if over else finish(resume_run(recipe, begun, **more))


class QuietDisplay(Hook):
    """Shows a run by its problems only."""

    def noted(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    def ended(self, ending: Ending) -> None:
        if exit_code(ending) and ending.message:
            print(ending.message, file=sys.stderr, flush=True)


def finish(done: Trained) -> int:
    """Prints the findings once more at the end; returns the exit code."""
    from trueloop.doctor.ranks import is_first
    from trueloop.report import Live
    from trueloop.report.from_check import finding_card

    live = Live(sys.stderr, color=True)
    for finding in done.findings if is_first() else ():
        live.show(finding_card(finding))
    worst = max((finding.severity for finding in done.findings), default=None)
    return exit_code(done.ending) or int(worst is Severity.ERROR)


def exit_code(ending: Ending) -> int:
    """docs/exit-codes.md"""
    if ending.reason == "signal":
        return 128 + ending.signal
    return ExitCode.STOPPED if ending.reason in ("nonfinite", "collapsed", "failed", "hung") else ExitCode.CLEAN
