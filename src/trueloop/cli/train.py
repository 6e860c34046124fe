"""`trueloop train RECIPE`: train a recipe from the beginning, or show it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueloop.cli.hang_after import add_hang_after
from trueloop.cli.options import Parser
from trueloop.cli.rank import agree_exit_code, goes_on_with, is_speaker, run_as_rank
from trueloop.cli.recipe_page import help_page, recipe_as_json, recipe_as_text
from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Severity
from trueloop.hook import Ending
from trueloop.parallel.answer import launch_name
from trueloop.recipe.overrides import apply_overrides, override_notes
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import unused_fields, validate
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.session.hang_watch import watch_for_hangs

if TYPE_CHECKING:
    from trueloop.parallel.peers import Peers
    from trueloop.session.train import Trained

__all__ = ["exit_code", "finish", "recipe_for", "settings_of", "train", "without_nproc"]

STOPPED_ITSELF = 5
"""The exit code of a run that could not go on: a gradient that is no number, a collapse, a checkpoint that cannot be
written."""


def train(arguments: list[str]) -> int:
    parsed = _parsed(arguments)
    settings = settings_of(parsed.set)
    if parsed.nproc is not None and not parsed.show:
        from trueloop.cli.launch import launch_here

        return launch_here("train", parsed.nproc, without_nproc(arguments))
    given = _given(parsed)
    with run_as_rank() as outcome:
        before = find_recipe(parsed.recipe, given)
        recipe = apply_overrides(before, settings)
        if parsed.show:
            outcome.code = _show(recipe, settings, parsed.format)
            return outcome.code
        for remark in (*override_notes(before, settings), *unused_fields(recipe)) if is_speaker() else ():
            print(f"note: {remark}", file=sys.stderr)
        origin = {"recipe": _word(parsed.recipe), "arguments": given, "settings": settings}
        with watch_for_hangs(parsed.hang_after), agree_exit_code(outcome) as peers:
            outcome.code = _run(recipe, parsed, origin, peers)
    return outcome.code


def recipe_for(arguments: list[str]) -> Recipe:
    """What `train` would train, or its refusal: for who starts it in other processes."""
    from trueloop.engine.preflight import machine_problems

    parsed = _parsed(arguments)
    recipe = apply_overrides(find_recipe(parsed.recipe, _given(parsed)), settings_of(parsed.set))
    validate(recipe, machine_problems(recipe))
    return recipe


def without_nproc(arguments: list[str]) -> list[str]:
    """The words for each of the processes."""
    at = next((i for i, word in enumerate(arguments) if word.partition("=")[0] == "--nproc"), len(arguments))
    return (
        arguments[:at] + without_nproc(arguments[at + (1 if "=" in arguments[at] else 2) :])
        if at < len(arguments)
        else arguments
    )


def _given(parsed: argparse.Namespace) -> dict[str, str]:
    return {
        name: value for name, value in (("table", _table(parsed.table)), ("target", parsed.target)) if value is not None
    }


def _parsed(arguments: list[str]) -> argparse.Namespace:
    about = "Train a recipe from the beginning; metrics, checkpoints and findings go to runs/NAME, and `trueloop resume runs/NAME` goes on."
    parser = Parser("train", "[options] RECIPE [TABLE]", about)
    parser.epilog = help_page() if {"-h", "--help"} & set(arguments) else None
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="one of those below, or a file of yours")
    parser.add_argument("table", nargs="?", metavar="TABLE", help="tabular: the CSV or Parquet file to learn from")
    parser.add_argument("--target", metavar="COLUMN", help="tabular: the column to predict")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="another value for a field of the recipe; may be repeated",
    )
    parser.add_argument(
        "--nproc", metavar="N", help="so many processes, to the same numbers: a number, or auto | gpu | cpu"
    )
    add_hang_after(parser)
    parser.add_argument(
        "--show", action="store_true", help="print the whole recipe, with what --set changes, and train nothing"
    )
    parser.add_argument("--format", metavar="NAME", help="of --show: text (default) | json")
    parser.add_argument("--name", default="", help="what to call the run")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="the folder of runs (default: runs)"
    )
    parser.add_argument(
        "--baseline",
        metavar="RUN",
        help="a good run: this one stops, or is marked (on_collapse), when it falls below it",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder that holds the data")
    parser.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    parsed = parser.parse_all(arguments)
    _refuse(parsed)
    return parsed


def _refuse(parsed: argparse.Namespace) -> None:
    if parsed.recipe is None:
        raise Misuse(
            f"Which recipe? Nothing was run: type `trueloop train digits`. There are: {', '.join(bundled())}; or a file of yours."
        )
    if parsed.format is not None and not parsed.show:
        raise Misuse("--format belongs to --show. Nothing was run: add --show, or leave it out.")
    if parsed.format not in (None, "text", "json"):
        raise Misuse(
            f"--show has no format {parsed.format!r}.{did_you_mean(parsed.format, ('text', 'json'))} There are: text, json."
        )
    if parsed.data is not None and not parsed.data.exists():
        raise Misuse(f"--data {parsed.data}: there is no such folder. Nothing was run.")
    if parsed.name and (Path(parsed.name).name != parsed.name or parsed.name.startswith(".")):
        raise Misuse(f"--name {parsed.name} is no name of a folder. Nothing was run: --runs DIR says where runs go.")


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """What --set was given, by name."""
    settings: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise Misuse(f"--set {text!r} is no NAME=VALUE, as in --set lr=3e-4. Nothing was run.")
        if name in settings:
            raise Misuse(
                f"--set gives {name} twice: {settings[name]} and {value.strip()}. Nothing was run: give it once."
            )
        settings[name] = value.strip()
    return settings


def _table(text: str | None) -> str | None:
    """Absolute, so that a resume from elsewhere finds it."""
    if text is None:
        return None
    if "=" in text and not Path(text).exists():
        raise Misuse(f"{text!r} is no table. Nothing was run: a field of the recipe is set by --set {text}.")
    return str(Path(text).absolute())


def _word(recipe: str) -> str:
    return str(Path(recipe).absolute()) if recipe.endswith(".py") else recipe


def _show(recipe: Recipe, settings: dict[str, str], format: str | None) -> int:
    from trueloop.engine.preflight import machine_problems

    more = machine_problems(recipe)
    print(recipe_as_json(recipe, settings, more) if format == "json" else recipe_as_text(recipe, settings), flush=True)
    validate(recipe, more)
    return 0


def _run(recipe: Recipe, parsed: argparse.Namespace, origin: dict[str, Any], peers: Peers) -> int:
    from trueloop.session.train import train as run

    data = None if parsed.data is None else parsed.data.absolute()
    where = {"name": parsed.name, "runs": parsed.runs, "data": data, "baseline": parsed.baseline}
    named = {**origin, "launch": launch_name()} if launch_name() else origin
    rest = {"download": parsed.download, "origin": named, "hand_on_signals": False}
    begun = goes_on_with(peers, parsed.runs)
    return _again(recipe, begun, rest) if begun else finish(run(recipe, **where, **rest))


def _again(recipe: Recipe, begun: Path, rest: dict[str, Any]) -> int:
    """The launch was started again, by `--restarts` or by a cluster: its run goes on, and no second one begins."""
    from trueloop.session.folder import read_about
    from trueloop.session.train import resume as go_on

    over = read_about(begun).get("status") in ("finished", "early-stopped")
    if is_speaker():
        how = "has finished: nothing is left to do." if over else "goes on, from its newest whole checkpoint."
        print(f"note: started again; {begun} {how}", file=sys.stderr)
    return 0 if over else finish(go_on(recipe, begun, **rest))


def finish(done: Trained) -> int:
    """Tells once more, at the end, what was found; the exit code."""
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
    match ending.reason:
        case "signal":
            return 128 + ending.signal
        case "nonfinite" | "collapsed" | "failed" | "hung":
            return STOPPED_ITSELF
        case _:
            return 0
