"""`trueloop plan RECIPE --gpus 8 --gpu-type h100`: estimate a training on several GPUs."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, bandwidth, duration, one_of, shape, size, whole_number
from trueloop.cli.recipe_options import add_recipe_options, chosen_recipe, settings_of
from trueloop.engine.read_data import read_data
from trueloop.errors import BadData, Misuse
from trueloop.parallel.gpus import GPUS, UNKNOWN
from trueloop.parallel.plan import MOST_GPUS, Terms
from trueloop.parallel.plan import plan as estimate
from trueloop.parallel.plan_command import command_for, why_unsupported
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import validate
from trueloop.results.check import ExitCode

if TYPE_CHECKING:
    from trueloop.data.source import Splits

__all__ = ["parser", "plan"]

ABOUT: Final = """Search the ways to spread a training: ddp, fsdp, hsdp, tp, pp and cp, with and without activation
checkpointing, with every number of micro-batches. Print memory and step time of each, the best few, and the command
that runs them. Nothing is trained; two to four samples are read. Each number is marked as computed, measured or
assumed."""
BETWEEN: Final = 50e9  # Bytes per second: 400 Gb/s for each GPU, as in most clusters of H100
LATENCY: Final = 3e-6  # Seconds of one message inside a node,
LATENCY_BETWEEN: Final = 15e-6  # and to another one
IMAGES: Final = ((1, 28, 28), "float32", 10)
KNOWN: Final[dict[str, tuple[tuple[int, ...], str, int]]] = {
    "mnist": IMAGES,
    "fashion-mlp": IMAGES,
    "fashion-cnn": IMAGES,
    "shakespeare": ((256,), "int64", 256),
    "shakespeare-tiny": ((64,), "int64", 256),
}
"""Bundled recipe -> shape and dtype of a sample, and its classes or tokens: enough for a plan without the data."""


def parser() -> Parser:
    made = Parser("plan", "RECIPE [TABLE] --gpus N [--gpu-type NAME] [options]", ABOUT)
    add_recipe_options(made)
    made.add_argument("--gpus", metavar="N", type=whole_number(1, MOST_GPUS), help=f"number of GPUs, 1 to {MOST_GPUS}")
    made.add_argument("--gpu-type", metavar="NAME", type=one_of(GPUS), help=f"what is known of {' | '.join(GPUS)}")
    made.add_argument("--memory", metavar="SIZE", type=size, help="of one GPU: 80GB, 24GiB")
    made.add_argument("--bandwidth", metavar="RATE", type=bandwidth, help="between GPUs of one node: 450GB/s, 25Gb/s")
    far = "from each GPU to other nodes (400Gb/s)"
    made.add_argument("--between", metavar="RATE", type=bandwidth, default=BETWEEN, help=far)
    made.add_argument("--node", metavar="N", type=whole_number(1), default=8, help="GPUs of one node (8)")
    near, far = "of one message inside a node (3us)", "of one message to another node (15us)"
    made.add_argument("--latency", metavar="TIME", type=duration, default=LATENCY, help=near)
    made.add_argument("--latency-between", metavar="TIME", type=duration, default=LATENCY_BETWEEN, help=far)
    made.add_argument("--step", metavar="TIME", type=duration, default=0.0, help="measured compute time of a step: 9ms")
    made.add_argument("--input", metavar="SHAPE", type=shape, help="one sample, instead of data: 3x224x224, 1024:int64")
    made.add_argument("--outputs", metavar="N", type=whole_number(), default=0, help="with --input: classes or tokens")
    made.add_report_options(quiet="")
    return made


def plan(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    _fill_in(options)
    _refuse(options)
    delivery = Delivery(options)
    from trueloop.engine.model_facts import facts_of
    from trueloop.engine.optimizer import optimizer_problems

    words = [options.recipe, *([options.table] if options.table else [])]
    recipe = chosen_recipe(options, words)
    validate(recipe, optimizer_problems(recipe))
    facts = facts_of(recipe, _splits(options, recipe))
    named = recipe.optimizer
    optimizer = named if isinstance(named, str) else getattr(named, "__name__", "your own optimizer")
    for name in ("target", "data"):
        words += [f"--{name}", str(getattr(options, name))] if getattr(options, name) else []
    typed, size = settings_of(options.set), {"gpus": options.gpus, "node": options.node}
    to_type = partial(command_for, recipe=recipe, words=words, settings=typed, **size)
    support = partial(why_unsupported, recipe=recipe, facts=facts)
    delivery.deliver(estimate(facts, _terms(options, recipe), options.recipe, optimizer, support, to_type))
    return ExitCode.CLEAN


def _terms(options: argparse.Namespace, recipe: Recipe) -> Terms:
    names = ("gpus", "memory", "bandwidth", "step", "between", "node", "latency", "latency_between")
    return Terms(
        **{name: getattr(options, name) for name in names},
        batch=recipe.batch,
        accumulate=recipe.accumulate,
        precision=recipe.precision,
        gpu=GPUS.get(options.gpu_type, UNKNOWN),
    )


def _refuse(options: argparse.Namespace) -> None:
    example = "`trueloop plan shakespeare --gpus 8 --memory 80GB --bandwidth 600GB/s`"
    if options.recipe is None:
        raise Misuse(f"Which recipe? Nothing was run: type {example}, or your own file.py.")
    missing = [f"--{name}" for name in ("gpus", "memory", "bandwidth") if getattr(options, name) is None]
    if missing:
        raise Misuse(f"A plan needs {' and '.join(missing)}. Nothing was run: type {example}.")
    if options.gpus > options.node and options.gpus % options.node:
        whole = f"{options.gpus} GPUs do not fill nodes of {options.node}"
        raise Misuse(f"{whole}. Nothing was run: set --gpus to a multiple of --node, or --node {options.gpus}.")
    if options.outputs and options.input is None:
        raise Misuse("--outputs needs --input SHAPE. Nothing was run: add it, or leave --outputs out.")
    if options.input is not None and (options.data is not None or options.download):
        raise Misuse("--input replaces the data, so --data and --download have no effect. Nothing was run: choose one.")


def _fill_in(options: argparse.Namespace) -> None:
    """What is known of a named GPU, where nothing else was typed."""
    if options.gpu_type is not None:
        gpu = GPUS[options.gpu_type]
        options.memory = options.memory or gpu.memory
        options.bandwidth = options.bandwidth or gpu.inside


def _splits(options: argparse.Namespace, recipe: Recipe) -> Splits:
    """The data; or, if they are missing, what is known of their shapes."""
    if options.input is not None:
        sizes, kind = options.input
        return _blank(recipe.task, sizes, kind, options.outputs)
    try:
        return read_data(recipe, DataRequest(options.data, options.download, recipe.seed))
    except BadData as error:
        known = KNOWN.get(options.recipe)
        if known is None or options.data is not None:
            hint = "--input SHAPE instead, one sample as the model sees it: 3x224x224, or 1024:int64 for tokens"
            raise BadData(f"{error} Or type {hint}; --outputs N if the model needs the number of classes.") from None
        sizes, kind, outputs = known
        shown = "x".join(map(str, sizes))
        print(f"note: the data are not here; the shape of a sample, {shown} {kind}, is enough.", file=sys.stderr)
        return _blank(recipe.task, sizes, kind, outputs)


def _blank(task: str, sizes: tuple[int, ...], kind: str, outputs: int) -> Splits:
    import torch

    from trueloop.engine.model_facts import blank_splits

    dtype: Any = getattr(torch, kind)
    return blank_splits(task, sizes, dtype, outputs)
