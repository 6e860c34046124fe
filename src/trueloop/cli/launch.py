"""`trueloop launch -- train RECIPE`: several processes, by torchrun."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import write_file
from trueloop.cli.options import Parser, offer
from trueloop.cli.processes import refuse_inside, start, this_machine
from trueloop.errors import Misuse, NoSuchScript, did_you_mean
from trueloop.parallel.launch import WAIT, planned
from trueloop.parallel.submit import TARGETS, Job, written_for

if TYPE_CHECKING:
    from trueloop.recipe.recipe import Recipe

__all__ = ["launch", "parser"]

VERBS: Final = ("train", "resume", "check")  # Verbs that can be one process of several
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
    add = made.add_argument
    made.epilog = EXAMPLES
    add("--nproc", metavar="N", default="auto", help="processes per machine: N | auto (default) | gpu | cpu")
    add("--nnodes", metavar="N", type=int, default=1, help="number of machines (1)")
    add("--node-rank", metavar="I", type=int, help="the number of this machine, from 0")
    add("--rendezvous", metavar="HOST:PORT", help="a free port of machine 0; the same on all machines")
    add("--wait", metavar="SECONDS", type=int, default=WAIT, help=f"how long to wait for one another ({WAIT})")
    add("--restarts", metavar="K", type=int, default=0, help="restarts of all processes when one fails (0)")
    add("--every-rank", action="store_true", help="show the output of all processes, not only of the first")
    add("--dry-run", action="store_true", help="print what would be launched, and run nothing")
    offer(add("--print", metavar="TARGET", help=f"write a file to submit instead: {' | '.join(TARGETS)}"), TARGETS)
    add("--output", metavar="FILE", type=Path, help="with --print: the file (default: stdout)")
    add("-m", action="store_true", help=argparse.SUPPRESS)
    return made


def launch(arguments: list[str]) -> int:
    options, words = parser().split(arguments)
    command = _command(words)
    if options.print is not None:
        return _print(options, command)
    if options.output is not None:
        raise Misuse(f"--output needs --print. Nothing was run: add --print {' or '.join(TARGETS)}, or drop it.")
    refuse_inside()
    plan = planned(
        command,
        this_machine(),
        nproc=options.nproc,
        nnodes=options.nnodes,
        node_rank=options.node_rank,
        rendezvous=options.rendezvous,
        restarts=options.restarts,
        wait=options.wait,
        every_rank=options.every_rank,
        environment=os.environ,
    )
    return start(plan, _recipe(words), dry=options.dry_run)


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
            raise Misuse(f"{word!r} cannot be launched.{hint} Nothing was run: launch {known}, a .py file or -m NAME.")
    raise AssertionError(words)


def _recipe(words: list[str]) -> Recipe | None:
    """Checked here, so that a mistake is reported once and not by every process."""
    from trueloop.cli import resume, train

    match words:
        case ["train", *rest]:
            return train.recipe_for(rest)
        case ["resume", *rest]:
            return resume.recipe_for(rest)
        case _:
            return None


def _print(options: argparse.Namespace, command: tuple[str, ...]) -> int:
    job = Job(command, options.nproc, options.nnodes, options.restarts)
    text = written_for(options.print, job)
    if options.output is None:
        print(text, end="")
        return 0
    write_file(options.output, text.encode("utf-8"))
    print(f"{options.output} is written. {job.how_to_submit(options.print, str(options.output))}", file=sys.stderr)
    return 0
