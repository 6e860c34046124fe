"""`trueloop ready RUN|SCRIPT`: a readiness report from recorded evidence only. For a run no torch is imported."""

import sys
from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import names
from trueloop.cli.deliver import Delivery, write_file
from trueloop.cli.options import Parser, whole_number
from trueloop.errors import Misuse
from trueloop.finding import Severity
from trueloop.readiness.gather import readiness_of
from trueloop.report import render
from trueloop.results.check import ExitCode
from trueloop.session.folder import find_run

__all__ = ["parser", "ready"]

USAGE: Final = ("RUN [options]", "[options] SCRIPT [arguments of the script]")
ABOUT: Final = """Write training-readiness.md and .html into the run: what its files show, what is at risk, and what
nobody has measured. Each line has its evidence, or the command that produces it. A script runs once, checked and
recorded; its report is written to the current folder."""
NOTE: Final = "training-readiness"
FAILS: Final = {Severity.ERROR: ("not ready",), Severity.WARNING: ("not ready", "ready with risks"), None: ()}
"""--fail-on -> the verdicts that end with 1."""


def parser() -> Parser:
    made = Parser("ready", USAGE, ABOUT)
    made.add_argument(
        "--baseline", metavar="RUN", help="the last good run (default: the run's own baseline, or the best before it)"
    )
    made.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    made.add_argument("--steps", metavar="N", type=whole_number(), help="script: end its run after N optimizer steps")
    made.add_fail_on(
        ("error", "warning", "never"),
        "never",
        "exit with 1 if not ready (error), or also if at risk (warning); never (default)",
    )
    made.add_report_options(quiet="print nothing if the verdict is ready")
    made.add_argument("-m", metavar="MODULE", help="review a module, like python -m")
    return made


def ready(arguments: list[str]) -> int:
    options, words = parser().split(arguments, lambda word: word.endswith(".py"))
    if not words:
        raise Misuse(
            "Which run? Type `trueloop ready runs/NAME` or `trueloop ready train.py`; `trueloop runs` lists runs."
        )
    delivery = Delivery(options)
    if words[0] == "-m" or words[0].endswith(".py"):
        from trueloop.cli.ready_script import review

        result, folder = review(words, options.steps), Path()
    else:
        if len(words) > 1:
            raise Misuse(f"Unexpected argument {words[1]!r}: a run takes no arguments. Nothing was run.")
        folder = find_run(words[0], options.runs, "judged")
        baseline = find_run(options.baseline, options.runs, "judged") if options.baseline else None
        result = readiness_of(folder, names(), baseline)
    files = [folder / f"{NOTE}.md", folder / f"{NOTE}.html"]
    for file, format in zip(files, ("markdown", "html"), strict=True):
        write_file(file, render(result, format).encode("utf-8", "backslashreplace"))
    delivery.deliver(result, healthy=result.verdict == "ready")
    if delivery.in_terminal and not delivery.quiet:
        print(f"written to {' and '.join(map(str, files))}", file=sys.stderr)
    return ExitCode.FINDINGS if result.verdict in FAILS[options.fail_on] else ExitCode.CLEAN
