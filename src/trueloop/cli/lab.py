"""`trueloop lab [NAME [FILE]]`: questions that this machine answers, and exercises that are checked."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from trueloop.cli.deliver import Delivery, deliver
from trueloop.cli.options import Parser
from trueloop.errors import Misuse
from trueloop.labs.catalogue import all_labs, entry_named, lab_named
from trueloop.labs.kept_proof import folder, keep_exercise, keep_run, with_proof
from trueloop.report import Live, document_of
from trueloop.report.from_lab import run_part
from trueloop.results.lab import LabEntry, LabRuns, Labs

__all__ = ["lab", "parser"]

USAGE: Final = ("", "NAME [options]", "NAME --start FILE.py", "NAME FILE.py", "--progress | --all")
ABOUT: Final = """A lab is a question: its code, a measurement on this machine, and an answer whose sentences are
compared with the measurement (exit code 1 if one is contradicted). Without a name: the list.

Some labs have an exercise: --start writes it, with the task in its docstring; NAME FILE.py checks it and gives hints.
Solved exercises and measured answers are kept as proofs in ~/.local/share/trueloop/labs, or in TRUELOOP_LABS."""
QUICK: Final = 20  # Seconds of an ordinary lab


def parser() -> Parser:
    made = Parser("lab", USAGE, ABOUT)
    made.add_argument("name", nargs="?", metavar="LAB", help="a lab; `trueloop lab` lists them")
    made.add_argument("file", nargs="?", metavar="FILE", help="your solution of its exercise, to be checked")
    made.add_argument("--start", metavar="FILE", help="write the exercise to this new file")
    made.add_argument("--progress", action="store_true", help="what is proven, what is stale, what is left")
    made.add_argument("--all", action="store_true", help="run every lab; one line each")
    made.add_report_options(quiet="print nothing when all is right")
    return made


def lab(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.name is not None:
        if options.all or options.progress:
            raise Misuse("--all and --progress are about all labs. Nothing was run: leave out the name.")
        entry_named(options.name)
    if options.start is not None:
        return _start(options)
    if options.all:
        return _run_all(options)
    if options.name is None:
        entries = tuple(map(with_proof, all_labs().values()))
        deliver(Labs(entries, str(folder()), options.progress), options)
        return 0
    return _check(options) if options.file else _run(options)


def _quiet_profiler() -> None:
    """It would write lines of its own to stderr; torch reads this when it is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def _run(options: argparse.Namespace) -> int:
    _quiet_profiler()
    delivery = Delivery(options)
    from trueloop.labs.run_lab import run_lab

    seconds = entry_named(options.name).seconds
    if seconds > QUICK and delivery.in_terminal and not delivery.quiet:
        print(f"Measuring; this lab takes about {seconds} s ...", file=sys.stderr, flush=True)
    run = run_lab(options.name)
    if lost := keep_run(run):
        run = replace(run, notes=(lost,))
    delivery.deliver(run, healthy=run.holds())
    return run.exit_code()


def _run_all(options: argparse.Namespace) -> int:
    _quiet_profiler()
    delivery = Delivery(options)
    from trueloop.labs.run_lab import run_one_of_many

    live = Live(sys.stdout, color=delivery.color) if delivery.in_terminal else None
    runs = []
    for name in all_labs():
        runs.append(run_one_of_many(name))
        keep_run(runs[-1])
        if live is not None and not (delivery.quiet and not runs[-1].exit_code()):
            live.show(run_part(runs[-1]))
            sys.stdout.flush()
    result = LabRuns(tuple(runs))
    if live is None:
        delivery.deliver(result)
    elif result.exit_code() or not delivery.quiet:
        live.close(document_of(result))
    return result.exit_code()


# -- exercises --


def _with_exercise(name: str | None) -> LabEntry:
    others = ", ".join(entry.name for entry in all_labs().values() if entry.exercise)
    if name is None:
        raise Misuse(
            f"Which exercise? Nothing was written: type `trueloop lab NAME --start FILE.py`. There are: {others}."
        )
    entry = entry_named(name)
    if not entry.exercise:
        raise Misuse(
            f"The lab {name} has no exercise. Nothing was run: `trueloop lab {name}` runs it. With one: {others}."
        )
    return entry


def _start(options: argparse.Namespace) -> int:
    entry, file = _with_exercise(options.name), Path(options.start)
    if options.file:
        raise Misuse("--start FILE writes an exercise, and NAME FILE checks one. Nothing was run: choose one.")
    if file.suffix != ".py":
        raise Misuse(f"--start {file} is not a Python file. Nothing was written: name a file that ends in .py.")
    exercise = lab_named(entry.name).exercise
    assert exercise is not None
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(exercise.skeleton)
    except FileExistsError:
        raise Misuse(f"{file} exists and was not overwritten. Name a new file, or remove it first.") from None
    except OSError as error:
        raise Misuse(f"{file} cannot be written ({error.strerror}). Name a different file.") from None
    print(f"{file}: the task is in its docstring. Then: `trueloop lab {entry.name} {file}`")
    return 0


def _check(options: argparse.Namespace) -> int:
    entry, delivery, file = _with_exercise(options.name), Delivery(options), Path(options.file)
    from trueloop.labs.run_lab import check_exercise
    from trueloop.recipes.catalogue import load_file

    exercise = lab_named(entry.name).exercise
    assert exercise is not None
    result = check_exercise(entry.name, exercise, load_file(file), str(file))
    if lost := keep_exercise(result, file):
        result = replace(result, notes=(lost,))
    delivery.deliver(result, healthy=result.holds())
    return result.exit_code()
