"""`trueloop try --patch FIX.diff SCRIPT ...`: run it without and with a change, and report what the change did."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.check import program_of
from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, whole_number
from trueloop.errors import Misuse
from trueloop.experiment.compare import Comparison
from trueloop.experiment.fixes import progress, split_module
from trueloop.experiment.folder_copy import Snapshot, snapshot
from trueloop.experiment.patch import Contents, apply_patch, replace_text
from trueloop.results.check import ExitCode
from trueloop.usercode.source import set_base_folder

if TYPE_CHECKING:
    from trueloop.doctor.launch import Program

__all__ = ["parser", "try_"]

USAGE: Final = (
    "--patch FIX.diff [options] SCRIPT [its arguments]",
    "--change 'OLD => NEW' [options] SCRIPT [its arguments]",
)
ABOUT: Final = """Run a script without and with a change, with the same seeds, and report what the change did to the
loss, to printed metrics, to the gradient norm and to the findings of `check`, next to the noise over the seeds.

Each run is a process in its own copy of the folder, so your files are not modified. A path outside of it is used as it
is."""


def parser() -> Parser:
    made = Parser("try", USAGE, ABOUT)
    add = made.add_argument
    add("--patch", metavar="FILE", type=Path, help="a unified diff, as `check --diff` prints it")
    add("--change", metavar="TEXT", action="append", default=[], help="'OLD => NEW', where OLD occurs once; repeatable")
    add("--seeds", metavar="N", type=whole_number(), default=1, help="runs of each version, with shifted seeds (1)")
    add("--steps", metavar="N", type=whole_number(), help="end each run after N optimizer steps")
    add("--link", metavar="DIR", type=Path, action="append", default=[], help="link this folder, do not copy it")
    add("-m", metavar="MODULE", help="run a module, like python -m")
    made.add_report_options(quiet="no progress, only the report")
    return made


def try_(arguments: list[str]) -> int:
    options, target = parser().split(arguments)
    if not target:
        raise Misuse("Which script? Nothing was run: type `trueloop try --patch fix.diff train.py`.")
    if bool(options.patch) == bool(options.change):
        how = "--patch fix.diff or --change 'OLD => NEW'"
        raise Misuse(f"Which change? Nothing was run: type {how}; `trueloop check --try` tries the fixes it finds.")
    set_base_folder(os.getcwd())
    delivery = Delivery(options)
    program = program_of(target, "try")
    patch = None if options.patch is None else _read(options.patch)
    with snapshot(Path(program.path), options.link) as taken:
        change = _change(patch, options.change, taken, program)
        comparison = Comparison(taken, split_module(target), options.seeds, options.steps, progress(options.quiet))
        result = comparison.effect(change)
    delivery.deliver(result)
    return ExitCode.CLEAN if result.conclusion() == "helps" else ExitCode.FINDINGS


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Misuse(f"--patch {file} cannot be read ({why}). Nothing was run.") from None


def _change(patch: str | None, changes: list[str], taken: Snapshot, program: Program) -> Contents:
    if patch is not None:
        return apply_patch(patch, taken.find)
    contents: Contents = {}
    script = taken.kept(Path(os.path.realpath(program.path)))
    for change in changes:
        contents |= replace_text(change, script, taken.kept(taken.roots[0]), contents)
    return contents
