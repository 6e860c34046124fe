"""`trueloop plan RECIPE --gpus 8 --memory 80GB --bandwidth 600GB/s`: how to spread a training over GPUs, reckoned
before any is rented."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.deliver import hand_over, writable
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.quantities import bandwidth, duration, size
from trueloop.cli.train import settings_of
from trueloop.errors import BadData, Misuse, did_you_mean
from trueloop.parallel.plan import MOST_GPUS
from trueloop.recipe.overrides import apply_overrides
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import validate
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.report import FORMATS, print_report, render
from trueloop.results.check import ExitCode
from trueloop.results.plan import Plan

if TYPE_CHECKING:
    from trueloop.data.source import Splits

__all__ = ["plan"]

ABOUT: Final = (
    "Reckon memory, communication and speed of ddp, fsdp, tp and activation checkpointing for a recipe's model, and recommend one. "
    "Nothing is trained; of the data, two to four samples are read. Each number says whether it is computed, measured or assumed."
)
KINDS: Final = ("float32", "int64")
IMAGES: Final = ((1, 28, 28), "float32", 10)
KNOWN: Final[dict[str, tuple[tuple[int, ...], str, int]]] = {
    "mnist": IMAGES,
    "fashion-mlp": IMAGES,
    "fashion-cnn": IMAGES,
    "shakespeare": ((256,), "int64", 256),
    "shakespeare-tiny": ((64,), "int64", 256),
}
"""Bundled recipe -> its samples as the model sees them, and its classes or tokens: enough for a plan where the data are
not here."""


def plan(arguments: list[str]) -> int:
    options = _parsed(arguments)
    return with_their_errors(lambda: _plan(options))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("plan", "[options] RECIPE [TABLE] --gpus N --memory SIZE --bandwidth RATE", ABOUT)
    parser.add_argument(
        "recipe", nargs="?", metavar="RECIPE", help=f"one of {', '.join(bundled())}; or a file of yours"
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="tabular: the CSV or Parquet file to learn from")
    parser.add_argument("--gpus", metavar="N", type=_gpus, help=f"how many, from 1 to {MOST_GPUS}")
    parser.add_argument("--memory", metavar="SIZE", help="of one GPU: 80GB, 24GiB")
    parser.add_argument(
        "--bandwidth", metavar="RATE", help="that one GPU sends to the next: 600GB/s, or 25Gb/s for bits"
    )
    parser.add_argument(
        "--step", metavar="TIME", help="measured: what one GPU computes in a step, on its share of the batch: 45ms"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="another value for a field of the recipe"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder that holds the data")
    parser.add_argument("--target", metavar="COLUMN", help="tabular: the column to predict")
    parser.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    parser.add_argument(
        "--input", metavar="SHAPE", type=_shape, help="one sample, instead of the data: 3x224x224, or 1024:int64"
    )
    parser.add_argument(
        "--outputs", metavar="N", type=_outputs, default=0, help="with --input: classes, tokens or quantities"
    )
    parser.add_argument("--format", metavar="NAME", type=_format, default="text", help=" | ".join(FORMATS))
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report there")
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    parsed = parser.parse_all(arguments)
    _refuse(parsed)
    return parsed


def _refuse(parsed: argparse.Namespace) -> None:
    example = "`trueloop plan shakespeare --gpus 8 --memory 80GB --bandwidth 600GB/s`"
    if parsed.recipe is None:
        raise Misuse(f"Which recipe? Nothing was planned: type {example}, or a file of yours.")
    missing = [f"--{name}" for name in ("gpus", "memory", "bandwidth") if getattr(parsed, name) is None]
    if missing:
        raise Misuse(f"A plan needs {' and '.join(missing)}. Nothing was planned: type {example}.")
    if parsed.outputs and parsed.input is None:
        raise Misuse("--outputs belongs to --input. Nothing was planned: give --input SHAPE too, or leave it out.")
    if parsed.input is not None and (parsed.data is not None or parsed.download):
        raise Misuse(
            "--input stands for the data, so --data and --download have nothing to do. Nothing was planned: choose one."
        )
    if parsed.data is not None and not parsed.data.exists():
        raise Misuse(f"--data {parsed.data}: there is no such folder. Nothing was planned.")
    parsed.memory, parsed.bandwidth = size(parsed.memory, "--memory"), bandwidth(parsed.bandwidth, "--bandwidth")
    parsed.step = 0.0 if parsed.step is None else duration(parsed.step, "--step")
    if parsed.output is not None:
        parsed.output = writable(parsed.output)


def _gpus(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_GPUS:
        raise Misuse(f"--gpus cannot be {text!r}. Nothing was planned: write a number from 1 to {MOST_GPUS}.")
    return int(text)


def _outputs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--outputs cannot be {text!r}. Nothing was planned: write a number, as in 10.")
    return int(text)


def _shape(text: str) -> tuple[tuple[int, ...], str]:
    sizes, _, kind = text.partition(":")
    if not all(each.isdecimal() and int(each) for each in sizes.split("x")) or kind not in ("", *KINDS):
        raise Misuse(f"--input {text!r} is no shape of a sample, as in 3x224x224 or 1024:int64. Nothing was planned.")
    return tuple(map(int, sizes.split("x"))), kind or KINDS[0]


def _format(word: str) -> str:
    if word not in FORMATS:
        raise Misuse(
            f"--format cannot be {word!r}.{did_you_mean(word, FORMATS)} Nothing was planned. There are: {', '.join(FORMATS)}."
        )
    return word


# -- the work --


def _plan(options: argparse.Namespace) -> int:
    from trueloop.engine.model_facts import facts_of
    from trueloop.engine.optimizer import optimizer_problems
    from trueloop.parallel.plan import Terms
    from trueloop.parallel.plan import plan as reckon

    given = {"table": str(Path(options.table).absolute())} if options.table else {}
    if options.target:
        given["target"] = options.target
    recipe = apply_overrides(find_recipe(options.recipe, given), settings_of(options.set))
    validate(recipe, optimizer_problems(recipe))
    facts = facts_of(recipe, _splits(options, recipe))
    terms = Terms(
        gpus=options.gpus,
        memory=options.memory,
        bandwidth=options.bandwidth,
        batch=recipe.batch,
        accumulate=recipe.accumulate,
        precision=recipe.precision,
        step=options.step,
    )
    optimizer = (
        recipe.optimizer
        if isinstance(recipe.optimizer, str)
        else getattr(recipe.optimizer, "__name__", "an optimizer of yours")
    )
    _deliver(options, reckon(facts, terms, options.recipe, optimizer))
    return ExitCode.CLEAN


def _splits(options: argparse.Namespace, recipe: Recipe) -> Splits:
    """The data; or, where they are not here, what is known of their shapes."""
    if options.input is not None:
        sizes, number = options.input
        return _blank(recipe.task, sizes, number, options.outputs)
    try:
        read: Splits = recipe.data(DataRequest(options.data, options.download, recipe.seed))
        return read
    except BadData as error:
        known = KNOWN.get(options.recipe)
        if known is None or options.data is not None:
            hint = "--input SHAPE instead, one sample as the model sees it: 3x224x224, or 1024:int64 for tokens"
            raise BadData(
                f"{error} Or type {hint}; --outputs N where the model asks how many classes or tokens there are."
            ) from None
        shape, kind, outputs = known
        print(
            f"note: the data are not here; a sample is {'x'.join(map(str, shape))} of {kind}, and that is enough.",
            file=sys.stderr,
        )
        return _blank(recipe.task, shape, kind, outputs)


def _blank(task: str, shape: tuple[int, ...], kind: str, outputs: int) -> Splits:
    import torch

    from trueloop.engine.model_facts import blank_splits

    dtype: Any = getattr(torch, kind)
    return blank_splits(task, shape, dtype, outputs)


def _deliver(options: argparse.Namespace, made: Plan) -> None:
    """To the file, or to stdout."""
    if options.format == "text" and options.output is None:
        print_report(made, to=sys.stdout, color=not options.no_color)
        sys.stdout.flush()
        return
    hand_over(render(made, options.format), options.output)
