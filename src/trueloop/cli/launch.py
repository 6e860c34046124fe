"""`trueloop launch -- train RECIPE`: several processes, as torchrun starts them. Also `--nproc` of train and resume."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.errors import CannotSave, Misuse, NoSuchScript, did_you_mean
from trueloop.parallel.launch import WAIT, Machine, Plan, planned
from trueloop.parallel.submit import TARGETS, Job, written_for

if TYPE_CHECKING:
    from trueloop.recipe.recipe import Recipe

__all__ = ["launch", "launch_here"]

VERBS: Final = ("train", "resume", "check")
"""Ours that know how to be one process of several."""
ABOUT: Final = (
    "Start a program as several processes, on this machine or on several: torchrun underneath, one voice, one exit code. Signals reach all "
    "processes, and one that fails ends all. With --restarts a `train` that was killed goes on from its newest whole checkpoint."
)
EXAMPLES: Final = """\
  trueloop launch --nproc 2 -- train digits
  trueloop launch --nnodes 2 --node-rank 0 --rendezvous node0:29500 -- train digits    (on node0; --node-rank 1 on the other)
  trueloop launch --nproc 2 -- script.py --its-own options
  trueloop launch --print slurm --nnodes 2 --nproc 8 -- train digits > job.sh"""


def launch(arguments: list[str]) -> int:
    parser = _parser()
    options, words = parser.split(arguments)
    command = _command(words)
    if options.print is not None:
        return _print(options, command)
    if options.output is not None:
        raise Misuse(
            "--output belongs to --print. Nothing was run: add --print slurm, kubernetes or torchrun, or leave it out."
        )
    _refuse_inside()
    return with_their_errors(lambda: _start(_plan(options, command), words, dry=options.dry_run))


def launch_here(verb: str, nproc: str, words: list[str]) -> int:
    """`trueloop train RECIPE --nproc 2`: the same, with nothing else to say."""
    _refuse_inside()
    command = ("-m", "trueloop", verb, *words)
    return with_their_errors(
        lambda: _start(planned(command, _machine(), nproc=nproc, environment=os.environ), [verb, *words])
    )


def _parser() -> Parser:
    parser = Parser("launch", "[options] -- train RECIPE ... | resume RUN ... | SCRIPT ... | -m MODULE ...", ABOUT)
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--nproc", metavar="N", default="auto", help="processes on this node: a number, or auto (default) | gpu | cpu"
    )
    parser.add_argument("--nnodes", metavar="N", type=int, default=1, help="machines (default: 1)")
    parser.add_argument("--node-rank", metavar="I", type=int, help="which of them this one is, from 0")
    parser.add_argument(
        "--rendezvous", metavar="HOST:PORT", help="where they meet: a free port of node 0, the same words on all"
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=int,
        default=WAIT,
        help=f"how long they wait for one another (default: {WAIT})",
    )
    parser.add_argument(
        "--restarts",
        metavar="K",
        type=int,
        default=0,
        help="start all again, so often, when a process fails (default: 0)",
    )
    parser.add_argument(
        "--every-rank", action="store_true", help="show what all processes print, not only the first of this node"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be launched, and run nothing")
    parser.add_argument("--print", metavar="TARGET", help=f"write a file to submit instead: {' | '.join(TARGETS)}")
    parser.add_argument("--output", metavar="FILE", type=Path, help="of --print: where to (default: stdout)")
    parser.add_argument("-m", action="store_true", help=argparse.SUPPRESS)
    return parser


def _command(words: list[str]) -> tuple[str, ...]:
    """What follows the interpreter, in each process."""
    match words:
        case []:
            raise Misuse(
                "Launch what? Nothing was run: type `trueloop launch --nproc 2 -- train digits`, or `-- script.py` with its arguments."
            )
        case [verb, *_] if verb in VERBS:
            return ("-m", "trueloop", *words)
        case ["-m"]:
            raise Misuse("-m which module? Nothing was run: type `trueloop launch -- -m package.train`.")
        case ["-m", _, *_]:
            return tuple(words)
        case [script, *_] if script.endswith(".py"):
            if not Path(script).is_file():
                raise NoSuchScript(f"There is no script {script}. Nothing was run.")
            return tuple(words)
        case [word, *_]:
            known = ", ".join(VERBS)
            raise Misuse(
                f"{word!r} cannot be launched.{did_you_mean(word, VERBS)} Nothing was run: there are {known}, a .py file, and -m MODULE."
            )
    raise AssertionError(words)


def _machine() -> Machine:
    with _few_words():
        import torch

    return Machine(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        torch.cuda.device_count(),
    )


@contextmanager
def _few_words() -> Iterator[None]:
    """torch reads when it is loaded how much its C++ part may say: of a node that is not there it prints two pages. The
    launcher says so in a sentence; in the processes that it starts nothing is changed."""
    if "TORCH_CPP_LOG_LEVEL" in os.environ or "torch" in sys.modules:
        yield
        return
    os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"
    try:
        yield
    finally:
        del os.environ["TORCH_CPP_LOG_LEVEL"]


def _plan(options: argparse.Namespace, command: tuple[str, ...]) -> Plan:
    return planned(
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


def _start(plan: Plan, words: list[str], *, dry: bool = False) -> int:
    """What can be refused is refused here, once, and not by every process."""
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
    """What more processes do to the numbers: nothing; and what to do who wants them to take larger batches."""
    sharers = {"tp": 1, "fsdp+tp": max(1, world // recipe.tensor_ranks)}.get(recipe.parallel, world)
    each, left = divmod(recipe.batch, sharers)
    share = f"{each}" if not left else f"{each} or {each + 1}"
    whose = f"batch={recipe.batch} is the batch of all {world} processes, {share} samples each"
    if recipe.lr_scaling != "none":
        return f"{whose}: steps and losses are those of one process; lr follows batch (lr_scaling={recipe.lr_scaling}), not processes."
    adaptive = not (isinstance(recipe.optimizer, str) and recipe.optimizer.lower() in ("sgd", "nesterov"))
    rule = (
        "lr times the square root of k (adaptive optimizers)"
        if adaptive
        else "lr times k, with warmup (the linear rule of SGD)"
    )
    return (
        f"{whose}: learning rate, steps and losses are those of one process, and nothing is scaled. If you raise batch k-fold yourself, "
        f"the usual rule is {rule}: --set lr_scaling={'sqrt' if adaptive else 'linear'} --set reference_batch={recipe.batch} follows it."
    )


def _refuse_inside() -> None:
    if "RANK" in os.environ:
        raise Misuse(
            "This is one process of several already (RANK is set). Nothing was run: leave --nproc out under torchrun or `trueloop launch`."
        )


def _print(options: argparse.Namespace, command: tuple[str, ...]) -> int:
    job = Job(command, options.nproc, options.nnodes, options.restarts)
    text = written_for(options.print, job)
    if options.output is None:
        print(text, end="")
        return 0
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotSave(f"{options.output} could not be written ({error.strerror}).") from None
    print(f"{options.output} is written. {job.how_to_submit(options.print, str(options.output))}", file=sys.stderr)
    return 0
