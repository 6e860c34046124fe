"""`trueloop launch -- train RECIPE`: several processes, by torchrun. Also `--nproc` of train and resume."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import write_file
from trueloop.cli.options import Parser
from trueloop.errors import Misuse, NoSuchScript, did_you_mean
from trueloop.parallel.launch import WAIT, Machine, Plan, planned
from trueloop.parallel.submit import TARGETS, Job, written_for

if TYPE_CHECKING:
    from trueloop.recipe.recipe import Recipe

__all__ = ["batch_rule", "launch", "launch_here", "parser"]

VERBS: Final = ("train", "resume", "check")
"""Verbs that can be one process of several."""
ABOUT: Final = """Start a program as several processes, on this machine or on several, by torchrun. One process
prints, and all end with one exit code. Signals reach all processes, and a process that fails ends all. With
--restarts, a `train` that was killed continues from its newest valid checkpoint."""
EXAMPLES: Final = """\
  trueloop launch --nproc 2 -- train digits
  trueloop launch --nproc 2 -- script.py --its-own options
  trueloop launch --nnodes 2 --node-rank 0 --rendezvous node0:29500 -- \\
      train digits                      (--node-rank 1 on the other machine)
  trueloop launch --print slurm --nnodes 2 --nproc 8 -- train digits > job.sh"""


def parser() -> Parser:
    made = Parser("launch", ("[options] -- train RECIPE ...", "[options] -- SCRIPT|-m MODULE ..."), ABOUT)
    made.epilog = EXAMPLES
    made.add_argument(
        "--nproc", metavar="N", default="auto", help="processes per machine: N | auto (default) | gpu | cpu"
    )
    made.add_argument("--nnodes", metavar="N", type=int, default=1, help="number of machines (1)")
    made.add_argument("--node-rank", metavar="I", type=int, help="the number of this machine, from 0")
    made.add_argument("--rendezvous", metavar="HOST:PORT", help="a free port of machine 0; the same on all machines")
    made.add_argument(
        "--wait", metavar="SECONDS", type=int, default=WAIT, help=f"how long to wait for one another ({WAIT})"
    )
    made.add_argument(
        "--restarts", metavar="K", type=int, default=0, help="restarts of all processes when one fails (0)"
    )
    made.add_argument(
        "--every-rank", action="store_true", help="show the output of all processes, not only of the first"
    )
    made.add_argument("--dry-run", action="store_true", help="print what would be launched, and run nothing")
    made.add_argument("--print", metavar="TARGET", help=f"write a file to submit instead: {' | '.join(TARGETS)}")
    made.add_argument("--output", metavar="FILE", type=Path, help="with --print: the file (default: stdout)")
    made.add_argument("-m", action="store_true", help=argparse.SUPPRESS)
    return made


def launch(arguments: list[str]) -> int:
    options, words = parser().split(arguments)
    command = _command(words)
    if options.print is not None:
        return _print(options, command)
    if options.output is not None:
        raise Misuse(
            "--output needs --print. Nothing was run: add --print slurm, kubernetes or torchrun, or leave it out."
        )
    _refuse_inside()
    plan = planned(
        command,
        _machine(),
        nproc=options.nproc,
        nnodes=options.nnodes,
        node_rank=options.node_rank,
        rendezvous=options.rendezvous,
        restarts=options.restarts,
        wait=options.wait,
        every_rank=options.every_rank,
        environment=os.environ,
    )
    return _start(plan, words, dry=options.dry_run)


def launch_here(verb: str, nproc: str, words: list[str]) -> int:
    """`trueloop train RECIPE --nproc 2`."""
    _refuse_inside()
    command = ("-m", "trueloop", verb, *words)
    return _start(planned(command, _machine(), nproc=nproc, environment=os.environ), [verb, *words])


def _command(words: list[str]) -> tuple[str, ...]:
    """What follows the interpreter, in each process."""
    match words:
        case []:
            typed = "`trueloop launch --nproc 2 -- train digits`, or `-- script.py` with its arguments"
            raise Misuse(f"Launch what? Nothing was run: type {typed}.")
        case [verb, *_] if verb in VERBS:
            return ("-m", "trueloop", *words)
        case ["-m"]:
            raise Misuse("-m needs the name of a module. Nothing was run: type `trueloop launch -- -m package.train`.")
        case ["-m", _, *_]:
            return tuple(words)
        case [script, *_] if script.endswith(".py"):
            if not Path(script).is_file():
                raise NoSuchScript(f"There is no script {script}. Nothing was run.")
            return tuple(words)
        case [word, *_]:
            hint, known = did_you_mean(word, VERBS), ", ".join(VERBS)
            raise Misuse(
                f"{word!r} cannot be launched.{hint} Nothing was run: launch {known}, a .py file, or -m MODULE."
            )
    raise AssertionError(words)


def _machine() -> Machine:
    with _silent_torch():
        import torch

    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(len(affinity(0)) if affinity else os.cpu_count() or 1, torch.cuda.device_count())


@contextmanager
def _silent_torch() -> Iterator[None]:
    """Torch's C++ part reads its log level on import; about a missing node it prints two pages, the launcher one
    sentence. The processes that are launched keep their level."""
    if "TORCH_CPP_LOG_LEVEL" in os.environ or "torch" in sys.modules:
        yield
        return
    os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"
    try:
        yield
    finally:
        del os.environ["TORCH_CPP_LOG_LEVEL"]


def _start(plan: Plan, words: list[str], *, dry: bool = False) -> int:
    """Mistakes are reported here, once, and not by every process."""
    recipe = _recipe(words)
    if dry:
        print(plan.described())
    else:
        print(plan.line(), file=sys.stderr)
    if recipe is not None and plan.world > 1:
        print(f"note: {batch_rule(recipe, plan.world)}", file=sys.stderr, flush=True)
    if dry:
        return 0
    from trueloop.parallel.elastic import execute

    return execute(plan, lambda sentence: print(f"trueloop: {sentence}", file=sys.stderr, flush=True))


def _recipe(words: list[str]) -> Recipe | None:
    from trueloop.cli import resume, train

    match words:
        case ["train", *rest]:
            return train.recipe_for(rest)
        case ["resume", *rest]:
            return resume.recipe_for(rest)
        case _:
            return None


def batch_rule(recipe: Recipe, world: int) -> str:
    """What more processes change: nothing; and how to use larger batches."""
    sharers = {"tp": 1, "fsdp+tp": max(1, world // recipe.tensor_ranks)}.get(recipe.parallel, world)
    each, left = divmod(recipe.batch, sharers)
    share = f"{each}" if not left else f"{each} or {each + 1}"
    split = f"batch={recipe.batch} is split over all {world} processes, {share} samples each"
    if recipe.lr_scaling != "none":
        scaled = f"lr scales with batch (lr_scaling={recipe.lr_scaling}), not with processes"
        return f"{split}: steps and losses are those of one process; {scaled}."
    adaptive = not (isinstance(recipe.optimizer, str) and recipe.optimizer.lower() in ("sgd", "nesterov"))
    rule = (
        "lr times the square root of k (adaptive optimizers)"
        if adaptive
        else "lr times k, with warmup (linear rule, SGD)"
    )
    flags = f"--set lr_scaling={'sqrt' if adaptive else 'linear'} --set reference_batch={recipe.batch}"
    return (
        f"{split}: learning rate, steps and losses are those of one process; nothing is scaled. For a batch k times "
        f"as large the usual rule is {rule}: {flags} applies it."
    )


def _refuse_inside() -> None:
    if "RANK" in os.environ:
        advice = "leave --nproc out under torchrun or `trueloop launch`"
        raise Misuse(f"This is already one process of several (RANK is set). Nothing was run: {advice}.")


def _print(options: argparse.Namespace, command: tuple[str, ...]) -> int:
    job = Job(command, options.nproc, options.nnodes, options.restarts)
    text = written_for(options.print, job)
    if options.output is None:
        print(text, end="")
        return 0
    write_file(options.output, text.encode("utf-8"))
    print(f"{options.output} is written. {job.how_to_submit(options.print, str(options.output))}", file=sys.stderr)
    return 0
