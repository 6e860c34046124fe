"""`trueloop check [options] SCRIPT ...`: run it as it stands, and report what is silently wrong with its training."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trueloop.cli.deliver import Delivery
from trueloop.cli.hang_after import add_hang_after
from trueloop.cli.options import Parser, ReportOptions, add_report_options, report_options
from trueloop.doctor.allow import chosen_rules
from trueloop.errors import Misuse
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import stand_in

if TYPE_CHECKING:
    from trueloop.doctor.launch import Program
    from trueloop.finding import Finding
    from trueloop.results.check import Verdict

__all__ = ["check", "program_of"]

USAGE = "[options] SCRIPT [its own arguments]\n       trueloop check [options] -m MODULE [its own arguments]"
ABOUT = "Run a training script as it stands and report its silent bugs. Everything after SCRIPT belongs to the script."


@dataclass(frozen=True, slots=True)
class CheckOptions:
    report: ReportOptions
    steps: int | None
    budget: float | None
    record: Path | None
    fail_fast: bool
    hang_after: float


def check(arguments: list[str]) -> int:
    options, target = _options(arguments)
    stand_in(os.getcwd())
    settings = load_settings(Path.cwd())
    chosen_rules(
        settings, options.report.select, options.report.ignore
    )  # misspelt rules are refused before torch is loaded
    delivery = Delivery(options.report, text_to=sys.stderr)

    from trueloop.doctor.examine import examine
    from trueloop.doctor.traceback import come_last, leave, show
    from trueloop.doctor.watch import Watch

    program = program_of(target)
    watch = Watch(
        select=options.report.select,
        ignore=options.report.ignore,
        budget=options.budget,
        last_step=options.steps,
        record=options.record,
        settings=settings,
        script=program.shown,
        on_error=_at_once(options),
        hang_after=options.hang_after,
        on_hang=_ending(delivery, options),
    )
    delivery.take_stdout()
    come_last()
    verdict, error = examine(program, watch)
    if error is not None:
        show(error)
    if not verdict.reported_elsewhere:
        delivery.deliver(verdict)
    leave(error, verdict.exit_code(options.report.fail_on))


def _options(arguments: list[str]) -> tuple[CheckOptions, list[str]]:
    """Our options, and the target: SCRIPT or -m MODULE, with its arguments."""
    parser = Parser("check", USAGE, ABOUT)
    parser.add_argument("-m", metavar="MODULE", help="run a module, as python -m does")
    run = parser.add_argument_group("run")
    run.add_argument("--steps", metavar="N", type=_steps, help="end the run after N optimizer steps")
    run.add_argument(
        "--budget",
        metavar="SHARE",
        type=_budget,
        help="what watching may cost: 5%% or 0.05; probes sample to stay inside it",
    )
    run.add_argument("--record", metavar="DIR", type=Path, help="keep the run's events there, for `trueloop judge DIR`")
    run.add_argument("--fail-fast", action="store_true", help="end the run at the first error found")
    add_hang_after(run)
    add_report_options(parser)
    parsed, target = parser.split(arguments)
    if not target:
        raise Misuse(
            "Which script? Nothing was run: type `trueloop check train.py`, with our options before it and its own after it."
        )
    own = CheckOptions(
        report_options(parsed), parsed.steps, parsed.budget, parsed.record, parsed.fail_fast, parsed.hang_after
    )
    return own, target


def program_of(target: list[str], verb: str = "check") -> Program:
    """What was named, found; nothing of it has run."""
    from trueloop.doctor.launch import find_module, find_script

    if not target[0].startswith("-m"):
        return find_script(target[0], target[1:])
    words = target[1:] if target[0] == "-m" else [target[0][2:], *target[1:]]
    if not words:
        raise Misuse(f"-m needs the name of a module. Nothing was run: type `trueloop {verb} -m mypackage.train`.")
    return find_module(words[0], words[1:])


def _at_once(options: CheckOptions) -> Callable[[Finding], bool]:
    """One short line for the first error, as soon as it is found; the report follows at the end. Ends the run with
    --fail-fast."""
    from trueloop.doctor.ranks import is_first

    printed: list[str] = []

    def tell(finding: Finding) -> bool:
        if options.report.for_people and not printed and is_first() and not _may_be_a_symptom(finding):
            from trueloop.report.evidence import where

            printed.append(finding.code)
            place = f" at {where(finding.place)}" if finding.place else ""
            line = f"trueloop: {finding.code} {finding.name}{place}, step {finding.first_step:,}"
            print(f"{line}; the report follows at the end", file=sys.stderr)
        return options.fail_fast

    return tell


def _ending(delivery: Delivery, options: CheckOptions) -> Callable[[Verdict], NoReturn]:
    """Shows what was found when the ranks hang, and ends this process: its own thread stands in a collective and cannot
    be called back."""
    from trueloop.doctor.ranks import told

    def end(verdict: Verdict) -> NoReturn:
        if not verdict.reported_elsewhere:
            delivery.deliver(verdict)
            told()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(verdict.exit_code(options.report.fail_on))

    return end


def _may_be_a_symptom(finding: Finding) -> bool:
    """Where another rule may yet name the cause, this finding may be gone from the report: it is not called out
    early."""
    from trueloop.rules.catalogue import find_rule

    return bool(find_rule(finding.code).explained_by)


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(
            f"--steps cannot be {text!r}. Nothing was run: write a number of optimizer steps, as in --steps 100."
        )
    return int(text)


def _budget(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise Misuse(
            f"--budget cannot be {text!r}. Nothing was run: write the share of the run that watching may cost, as in 5% or 0.05."
        )
    return share
