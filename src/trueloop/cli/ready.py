"""`trueloop ready RUN|SCRIPT`: a note on whether a training is ready for more, from recorded evidence only. Of a run no
torch is loaded."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import names
from trueloop.cli.options import Parser
from trueloop.errors import CannotSave, Misuse, did_you_mean
from trueloop.readiness.gather import readiness_of
from trueloop.report import FORMATS, print_report, render
from trueloop.results.check import ExitCode
from trueloop.results.readiness import VERDICTS, Readiness
from trueloop.session.folder import find_run

__all__ = ["ready"]

USAGE: Final = "[options] RUN\n       trueloop ready [options] SCRIPT [its own arguments]"
ABOUT: Final = (
    "Write training-readiness.md and .html into the run: what its files prove, what is at risk, and what nobody has measured, each line "
    "with its evidence or the command that would produce it. A script is run once, checked and recorded; then the note lies here."
)
NOTE: Final = "training-readiness"
LEAST: Final = {"ready": "ready", "risks": "ready with risks"}
"""--fail-under's words -> the verdict that is still well."""


def ready(arguments: list[str]) -> int:
    options, words = _parsed(arguments)
    if words[0] == "-m" or words[0].endswith(".py"):
        from trueloop.cli.ready_script import review

        made, folder = review(words, options.steps), Path()
    else:
        if len(words) > 1:
            raise Misuse(f"{words[1]!r} is one word too many: a run has no arguments. Nothing was judged.")
        folder = find_run(words[0], options.runs, "judged")
        made = readiness_of(
            folder, names(), find_run(options.baseline, options.runs, "judged") if options.baseline else None
        )
    written = [
        _written(folder / f"{NOTE}.{ending}", made, name) for ending, name in (("md", "markdown"), ("html", "html"))
    ]
    if options.format == "text":
        print_report(made, to=sys.stdout, color=not options.no_color)
        print(f"written to {' and '.join(map(str, written))}", file=sys.stderr)
    else:
        sys.stdout.write(render(made, options.format))
    least = options.fail_under
    below = least is not None and VERDICTS.index(made.verdict) < VERDICTS.index(least)
    return ExitCode.FINDINGS if below else ExitCode.CLEAN


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = Parser("ready", USAGE, ABOUT)
    parser.add_argument(
        "--baseline", metavar="RUN", help="the last good run; else the run's own baseline, or the best one before it"
    )
    parser.add_argument(
        "--fail-under", metavar="WORD", type=_least, help="ready | risks: exit code 1 where the verdict is worse"
    )
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    parser.add_argument(
        "--steps", metavar="N", type=_steps, help="of a script: end its run after so many optimizer steps"
    )
    parser.add_argument("--format", metavar="NAME", type=_format, default="text", help=" | ".join(FORMATS))
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    # Options may also follow a run's name; what follows a script is the script's.
    options, words = parser.split(arguments)
    if words and words[0] != "-m" and not words[0].endswith(".py") and len(words) > 1:
        options, words = parser.split([*arguments[: len(arguments) - len(words)], *words[1:], words[0]])
    if not words:
        raise Misuse(
            "Which run? Type `trueloop ready runs/NAME`, or `trueloop ready train.py`; `trueloop runs` lists the runs."
        )
    return options, words


def _least(word: str) -> str:
    if word not in LEAST:
        raise Misuse(
            f"--fail-under cannot be {word!r}.{did_you_mean(word, LEAST)} Nothing was judged. There are: {', '.join(LEAST)}."
        )
    return LEAST[word]


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--steps cannot be {text!r}. Nothing was run: write a number of optimizer steps.")
    return int(text)


def _format(word: str) -> str:
    if word not in FORMATS:
        raise Misuse(
            f"There is no format {word!r}.{did_you_mean(word, FORMATS)} Nothing was judged. There are: {', '.join(FORMATS)}."
        )
    return word


def _written(path: Path, made: Readiness, name: str) -> Path:
    try:
        path.write_text(render(made, name), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CannotSave(f"{path} could not be written ({error.strerror or error}).") from None
    return path
