"""`trueloop profile SCRIPT|RECIPE`: where its time and memory go, what bounds it, and what to change."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import writable
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.probe import is_a_recipe
from trueloop.cli.train import settings_of
from trueloop.errors import Misuse, did_you_mean
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.report import FORMATS, print_report, render
from trueloop.results.check import ExitCode
from trueloop.usercode.source import stand_in

if TYPE_CHECKING:
    from trueloop.profile.observer import Observer
    from trueloop.results.profile import Profile

__all__ = ["profile"]

USAGE: Final = (
    "[options] SCRIPT [its own arguments]\n       trueloop profile [options] -m MODULE [its own arguments]\n"
    + ("       trueloop profile [options] RECIPE [TABLE]")
)
ABOUT: Final = (
    "Run a training script as it stands, or a recipe, for some steps; tell where time and memory go, what bounds it, and what to change, "
    "with the predicted gain. The run is ended when everything has been seen, unless --to-end lets it go on, unwatched."
)


def profile(arguments: list[str]) -> int:
    options, target = _parsed(arguments)
    if not _is_recipe(target[0]):
        _refuse_recipe_options(options, target[0])
        return _profile_script(options, target)
    return with_their_errors(lambda: _profile_recipe(options, target))


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = Parser("profile", USAGE, ABOUT)
    parser.add_argument("-m", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument(
        "--steps", metavar="N", type=_number("--steps", 20), help="steps to watch (60, or as many as take a second)"
    )
    parser.add_argument(
        "--window", metavar="N", type=_number("--window", 1), default=4, help="of those, under PyTorch's profiler (4)"
    )
    parser.add_argument(
        "--to-end", action="store_true", help="let the run go on to its end, unwatched, when everything has been seen"
    )
    parser.add_argument(
        "--trace", metavar="FILE", type=Path, help="write the window there, for chrome://tracing and ui.perfetto.dev"
    )
    parser.add_argument(
        "--snapshot", metavar="FILE", type=Path, help="write CUDA's memory snapshot there, for pytorch.org/memory_viz"
    )
    parser.add_argument("--format", metavar="NAME", type=_format, default="text", help=" | ".join(FORMATS))
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report there")
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    recipe = parser.add_argument_group("of a recipe")
    recipe.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="another value for a field; may be repeated"
    )
    recipe.add_argument("--data", type=Path, metavar="DIR", help="the folder that holds the data")
    recipe.add_argument("--target", metavar="COLUMN", help="of `tabular TABLE`: the column to predict")
    recipe.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    options, target = parser.split(arguments)
    if not target:
        raise Misuse("Of what? Nothing was run: type `trueloop profile train.py` or `trueloop profile digits`.")
    for name in ("output", "trace", "snapshot"):
        if (file := getattr(options, name)) is not None:
            setattr(options, name, writable(file, f"--{name}"))
    return options, target


def _number(option: str, least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise Misuse(f"{option} cannot be {text!r}. Nothing was run: write a number of steps, {least} or more.")
        return int(text)

    return read


def _format(word: str) -> str:
    if word not in FORMATS:
        raise Misuse(
            f"There is no format {word!r}.{did_you_mean(word, FORMATS)} Nothing was run. There are: {', '.join(FORMATS)}."
        )
    return word


def _is_recipe(word: str) -> bool:
    if word.startswith("-m") or word in bundled():
        return not word.startswith("-m")
    if not word.endswith(".py") and not Path(word).is_file():
        hint = did_you_mean(word, bundled())
        raise Misuse(
            f"{word!r} is no recipe and no script.{hint} Nothing was run. There are: {', '.join(bundled())}; or a file of yours."
        )
    return is_a_recipe(Path(word))


def _refuse_recipe_options(options: argparse.Namespace, word: str) -> None:
    if options.set or options.data or options.download or options.target:
        raise Misuse(f"{word} is a script: --set, --data, --target and --download are for recipes. Nothing was run.")


# -- running --


def _observer(options: argparse.Namespace, waited: Callable[[], float] | None = None) -> Observer:
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "99"
    )  # the profiler would write lines of its own to stderr; read when torch is loaded
    from trueloop.profile.observer import Observer

    return Observer(
        steps=options.steps,
        window=options.window,
        to_end=options.to_end,
        trace=options.trace,
        snapshot=options.snapshot,
        waited=waited,
    )


def _profile_script(options: argparse.Namespace, target: list[str]) -> int:
    stand_in(os.getcwd())
    observer = _observer(options)

    from trueloop.cli.check import program_of
    from trueloop.doctor.launch import run
    from trueloop.doctor.traceback import CleanTracebacks, come_last, leave, show
    from trueloop.profile.conclude import conclude

    program = program_of(target, "profile")
    place = _Place(options)
    place.take_stdout()
    come_last()
    tracebacks, pid = CleanTracebacks(), os.getpid()
    tracebacks.install()
    observer.install()
    outcome, error = run(program)
    if os.getpid() != pid:  # a child that the script has forked came to the script's end
        if error is not None:
            show(error)
        leave(error, outcome.exit_code)
    observer.remove()
    tracebacks.remove()
    if error is not None:
        show(error)
    made = conclude(observer, program.shown, _ended(observer, outcome.exception))
    if _is_first():
        place.deliver(made)
    leave(error, outcome.exit_code or _code(made))


def _profile_recipe(options: argparse.Namespace, target: list[str]) -> int:
    given = {"table": str(Path(target[1]).absolute())} if len(target) > 1 else {}
    if options.target:
        given["target"] = options.target
    from trueloop.recipe.overrides import apply_overrides

    recipe, played = _one_by_one(apply_overrides(find_recipe(target[0], given), settings_of(options.set)))
    waiting: list[Callable[[], float]] = []
    observer = _observer(options, lambda: waiting[0]() if waiting else 0.0)

    from trueloop.engine.loop import Loop
    from trueloop.profile.conclude import conclude
    from trueloop.recipe.recipe import DataRequest
    from trueloop.taps.bus import StopTheRun

    place = _Place(options)
    observer.install()
    try:
        folder = None if options.data is None else options.data.absolute()
        loop = Loop.of(recipe, DataRequest(folder, options.download, recipe.seed))
        waiting.append(lambda: loop.parts.batches.waited)
        loop.train()
    except StopTheRun:
        pass  # everything has been seen
    finally:
        observer.remove()
    made = conclude(observer, " ".join(target), (*_ended(observer, ""), *played))
    if _is_first():
        place.deliver(made)
    return _code(made)


def _one_by_one(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """Steps that are played, or computed, in one piece have no phases to be seen: the recipe without that, and the word
    that says so."""
    if recipe.program == "eager":
        return recipe, ()
    note = f"program={recipe.program} hides the parts of a step: what is told is the same recipe with program=eager"
    return replace(recipe, program="eager"), (note,)


def _is_first() -> bool:
    from trueloop.doctor.ranks import is_first

    return is_first()


def _ended(observer: Observer, exception: str) -> tuple[str, ...]:
    if observer.over:
        return ()
    why = f" ({exception})" if exception else ""
    return (f"the run ended{why} after {observer.taken} steps, before everything had been seen",)


def _code(made: Profile) -> int:
    """docs/exit-codes.md"""
    if made.failures:
        return ExitCode.TRUELOOP_FAILED
    return ExitCode.CLEAN if made.bound is not None else ExitCode.FINDINGS


class _Place:
    """Where the report goes: text to stderr beside what the script prints, documents to stdout, alone there; or all of
    it to a file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._stdout: int | None = None

    def take_stdout(self) -> None:
        if self.options.output is None and self.options.format != "text":
            sys.stdout.flush()
            self._stdout = os.dup(1)
            os.dup2(2, 1)

    def deliver(self, made: Profile) -> None:
        options = self.options
        if options.format == "text" and options.output is None:
            print_report(made, to=sys.stderr, color=not options.no_color)
            return
        text: str = render(made, options.format)
        document = text.encode("utf-8", "backslashreplace")
        if options.output is not None:
            options.output.write_bytes(document)
        elif self._stdout is not None:
            with os.fdopen(self._stdout, "wb") as stdout:
                stdout.write(document)
        else:
            sys.stdout.buffer.write(document)
            sys.stdout.flush()
