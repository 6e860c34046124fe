"""`trueloop ready RUN|SCRIPT`: a readiness report from recorded evidence only. For a run no torch is imported."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from trueloop.claims.catalogue import names
from trueloop.cli.deliver import Delivery, write_file
from trueloop.cli.options import Parser, whole_number
from trueloop.errors import CannotSave, Misuse
from trueloop.finding import Severity
from trueloop.readiness.gather import readiness_of
from trueloop.readiness.record import Record
from trueloop.readiness.script import PROBE, readiness_of_script
from trueloop.readiness.statements import Run
from trueloop.report import render
from trueloop.results.check import ExitCode
from trueloop.results.readiness import Readiness
from trueloop.session.folder import find_run, read_about
from trueloop.usercode.child_python import child_python
from trueloop.usercode.settings import load_settings

__all__ = ["EVIDENCE", "drop_old_proofs", "parser", "ready", "review"]

USAGE: Final = ("RUN [options]", "[options] SCRIPT [arguments of the script]")
ABOUT: Final = """Write training-readiness.md and .html into the run: what its files show, what is at risk, and what
nobody has measured. Each line has its evidence, or the command that produces it. A script runs once, checked and
recorded; its report is written to the current folder."""
NOTE: Final = "training-readiness"
FAILS: Final = {Severity.ERROR: ("not ready",), Severity.WARNING: ("not ready", "ready with risks"), None: ()}
"""--fail-on -> the verdicts that end with 1."""
EVIDENCE: Final = Path("training-readiness")  # The folder of the evidence, beside the report
PROOFS: Final = "proofs.json"


def parser() -> Parser:
    made = Parser("ready", USAGE, ABOUT)
    made.add_argument("--baseline", metavar="RUN", help="the last good run (default: its own, or the best before it)")
    made.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    made.add_argument("--steps", metavar="N", type=whole_number(), help="script: end its run after N optimizer steps")
    help = "exit with 1 if not ready (error), or at risk (warning); never (default)"
    made.add_fail_on(("error", "warning", "never"), "never", help)
    made.add_report_options(quiet="print nothing if the verdict is ready")
    made.add_argument("-m", metavar="MODULE", help="review a module, like python -m")
    return made


def ready(arguments: list[str]) -> int:
    options, words = parser().split(arguments, lambda word: word.endswith(".py"))
    if not words:
        typed = "Type `trueloop ready runs/NAME` or `trueloop ready train.py`"
        raise Misuse(f"Which run? {typed}; `trueloop runs` lists runs.")
    delivery = Delivery(options)
    if words[0] == "-m" or words[0].endswith(".py"):
        result, folder = review(words, options.steps), Path()
    else:
        if len(words) > 1:
            raise Misuse(f"Unexpected argument {words[1]!r}: a run takes no arguments. Nothing was run.")
        folder = find_run(words[0], options.runs, "judged")
        baseline = find_run(options.baseline, options.runs, "judged") if options.baseline else None
        checked = read_about(folder, ("train", "check")).get("kind") == "check"
        if checked and baseline is not None:
            raise Misuse(f"--baseline needs a run of `trueloop train`, and {folder} is one of `check`. Drop it.")
        result = review_run(folder) if checked else readiness_of(folder, names(), baseline)
    files = [folder / f"{NOTE}.md", folder / f"{NOTE}.html"]
    for file, format in zip(files, ("markdown", "html"), strict=True):
        if file.is_symlink():  # it may have come with the folder, and lead anywhere
            file.unlink()
        write_file(file, render(result, format).encode("utf-8", "backslashreplace"))
    delivery.deliver(result, healthy=result.verdict == "ready")
    if delivery.in_terminal and not delivery.quiet:
        print(f"written to {' and '.join(map(str, files))}", file=sys.stderr)
    return ExitCode.FINDINGS if result.verdict in FAILS[options.fail_on] else ExitCode.CLEAN


def review(words: list[str], steps: int | None) -> Readiness:
    """`words`: SCRIPT or -m MODULE, and its arguments."""
    script = Path(words[0])
    if words[0] != "-m" and not script.is_file():
        raise Misuse(f"There is no file {script}. Nothing was run.")
    settings = load_settings(Path.cwd())
    _record(words, steps)
    drop_old_proofs(script)
    run = Run(Record(EVIDENCE, f"{EVIDENCE}/"), shlex.join(words), claims=names(), probe=PROBE)
    return readiness_of_script(run, settings)


def review_run(folder: Path) -> Readiness:
    """Of the run folder of a checked script: what it keeps. `trueloop ready SCRIPT` records the rest."""
    about = read_about(folder, ("check",))
    words = shlex.join(map(str, (about.get("script") or "SCRIPT", *(about.get("arguments") or ()))))
    proofs = folder / PROOFS
    run = Run(Record(folder), words, claims=names(), proofs=str(proofs), probe=PROBE)
    return readiness_of_script(run, load_settings(Path.cwd()))


def _record(words: list[str], steps: int | None) -> None:
    """The script prints to stderr: stdout is for the report."""
    with tempfile.TemporaryDirectory(prefix="trueloop-ready-") as scratch:
        folder = Path(scratch) / "run"
        report = Path(scratch) / "report.json"
        options = [
            "--no-run",
            "--record",
            str(folder),
            "--format",
            "json",
            "--output",
            str(report),
            "--fail-on",
            "never",
        ]
        limit = [] if steps is None else ["--steps", str(steps)]
        command = child_python("-m", "trueloop", "check", *options, *limit, "--", *words)
        done = subprocess.run(command, stdout=2, check=False)
        if not report.is_file():
            code = done.returncode
            raise Misuse(f"`{shlex.join(words)}` was not checked: exit code {code}, see above. Nothing was written.")
        try:
            EVIDENCE.mkdir(exist_ok=True)
            for file in (folder / "run.json", folder / "events.jsonl", report):
                (EVIDENCE / file.name).write_bytes(file.read_bytes())
        except OSError as error:
            raise CannotSave(f"{EVIDENCE} could not be written ({error.strerror or error}).") from None


def drop_old_proofs(script: Path) -> None:
    """Results for an older version of the script say nothing about this one."""
    proofs = EVIDENCE / PROOFS
    if script.is_file() and proofs.is_file() and proofs.stat().st_mtime < script.stat().st_mtime:
        os.replace(proofs, EVIDENCE / f"{PROOFS}.old")
        print(f"trueloop: {proofs} is older than {script}: renamed to {PROOFS}.old", file=sys.stderr)
