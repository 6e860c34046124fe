"""`trueloop profile SCRIPT|RECIPE`: where time and memory go, what bounds the run, and what to change."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.check import program_of
from trueloop.cli.deliver import Delivery, writable
from trueloop.cli.named_run import is_run, recipe_or_run
from trueloop.cli.options import Parser, whole_number
from trueloop.cli.recipe_options import add_recipe_options, is_recipe, unknown_recipe
from trueloop.errors import Misuse
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipes.catalogue import bundled
from trueloop.results.check import ExitCode
from trueloop.usercode.source import set_base_folder

if TYPE_CHECKING:
    from trueloop.profile.observer import Observer
    from trueloop.results.profile import Profile

__all__ = ["parser", "profile"]

USAGE: Final = (
    "[options] SCRIPT [arguments of the script]", "[options] -m MODULE [arguments of the module]",
    "RECIPE [TABLE] [options]",
)  # fmt: skip
ABOUT: Final = """Run a script, unmodified, or a recipe for some steps. Report where time and memory go, what bounds
the run, and what to change, with the predicted gain. The run ends when everything is measured, unless --to-end is
given."""


def parser() -> Parser:
    made = Parser("profile", USAGE, ABOUT)
    add = made.add_argument
    add("-m", metavar="MODULE", help="run a module, like python -m")
    add("--steps", metavar="N", type=whole_number(20), help="steps to measure (60, or as many as take a second)")
    add("--window", metavar="N", type=whole_number(), default=4, help="steps in PyTorch's profiler (4)")
    add("--to-end", action="store_true", help="let the run continue to its end after the measurement")
    add("--trace", metavar="FILE", type=Path, help="write a trace for ui.perfetto.dev")
    add("--snapshot", metavar="FILE", type=Path, help="write CUDA's memory snapshot for pytorch.org/memory_viz")
    made.add_report_options(quiet="")
    add_recipe_options(made, positional=False)
    made.add_trust()
    return made


def profile(arguments: list[str]) -> int:
    options, target = parser().split(arguments, _is_script)
    if not target:
        raise Misuse("Profile what? Nothing was run: type `trueloop profile train.py` or `trueloop profile digits`.")
    for name in ("trace", "snapshot"):
        if (file := getattr(options, name)) is not None:
            setattr(options, name, writable(file, f"--{name}"))
    if not _is_script(target[0]):
        return _profile_recipe(options, target)
    if options.set or options.data or options.download or options.target:
        raise Misuse(f"{target[0]} is a script: --set, --data, --target, --download are for recipes. Nothing was run.")
    return _profile_script(options, target)


def _is_script(word: str) -> bool:
    if word.startswith("-m") or word in bundled() or (not word.endswith(".py") and is_run(word)):
        return word.startswith("-m")
    if not word.endswith(".py") and not Path(word).is_file():
        raise unknown_recipe(word, "a recipe or a script")
    return not is_recipe(Path(word))


# -- running --


def _observer(options: argparse.Namespace, waited: Callable[[], float] | None = None) -> Observer:
    # The profiler would write lines of its own to stderr; torch reads this when it is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from trueloop.profile.observer import Observer

    names = ("steps", "window", "to_end", "trace", "snapshot")
    return Observer(**{name: getattr(options, name) for name in names}, waited=waited)


def _profile_script(options: argparse.Namespace, target: list[str]) -> int:
    set_base_folder(os.getcwd())
    observer = _observer(options)

    from trueloop.doctor.launch import run
    from trueloop.doctor.traceback import CleanTracebacks, exit_process, register_exit_handler, show
    from trueloop.profile.build_profile import build_profile

    program = program_of(target, "profile")
    delivery = Delivery(options, text_to=sys.stderr)
    delivery.take_stdout()
    register_exit_handler()
    tracebacks, pid = CleanTracebacks(), os.getpid()
    tracebacks.install()
    observer.install()
    outcome, error = run(program)
    if os.getpid() != pid:  # a child that the script forked reached the end of the script
        if error is not None:
            show(error)
        exit_process(error, outcome.exit_code)
    observer.remove()
    tracebacks.remove()
    if error is not None:
        show(error)
    result = build_profile(observer, program.shown, _early_end(observer, outcome.exception))
    code = _finish(delivery, result)
    exit_process(error, outcome.exit_code or code)


def _profile_recipe(options: argparse.Namespace, target: list[str]) -> int:
    recipe, data = recipe_or_run(options, target, "runs of `trueloop train RECIPE` can be profiled.")
    recipe, notes = _as_eager(recipe)
    waiting: list[Callable[[], float]] = []
    observer = _observer(options, lambda: waiting[0]() if waiting else 0.0)

    from trueloop.engine.loop import Loop
    from trueloop.profile.build_profile import build_profile
    from trueloop.profile.recipe_advice import in_recipe_words
    from trueloop.taps.bus import StopTheRun

    delivery = Delivery(options, text_to=sys.stderr)
    observer.install()
    try:
        loop = Loop.of(recipe, DataRequest(data, options.download, recipe.seed))
        waiting.append(lambda: loop.parts.batches.waited)
        if len(loop.models) > 1:
            observer.model_names = {id(model): name for name, model in loop.models.items()}
        loop.train()
    except StopTheRun:
        pass  # everything is measured
    finally:
        observer.remove()
    early = tuple(
        f"{note}: a longer run (--set epochs=N or steps=N) is measured completely" for note in _early_end(observer, "")
    )
    result = build_profile(observer, " ".join(target), (*early, *notes))
    return _finish(delivery, in_recipe_words(result, describe(recipe)))


def _as_eager(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """A step that runs as one CUDA graph or one compiled function has no phases to measure."""
    if recipe.program == "eager":
        return recipe, ()
    note = f"program={recipe.program} hides the phases of a step: the same recipe was profiled with program=eager"
    return replace(recipe, program="eager"), (note,)


def _early_end(observer: Observer, exception: str) -> tuple[str, ...]:
    if observer.over:
        return ()
    why = f" ({exception})" if exception else ""
    return (f"the run ended{why} after {observer.steps_done} steps, before everything was measured",)


def _finish(delivery: Delivery, result: Profile) -> int:
    """Delivers the report in the first process; the exit code."""
    from trueloop.doctor.ranks import is_first

    if is_first():
        delivery.deliver(result)
    if result.failures:
        return ExitCode.TRUELOOP_FAILED
    return ExitCode.CLEAN if result.bound is not None else ExitCode.FINDINGS
