"""`trueloop fix SCRIPT ...`: write the fixes that can be written mechanically, run again, report which findings are
gone."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from trueloop.cli.baseline import EMPTY
from trueloop.cli.check import add_rule_choice, program_of
from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, whole_number
from trueloop.doctor.allow import chosen_rules
from trueloop.errors import CannotSave, Misuse
from trueloop.experiment.fixes import progress, split_module
from trueloop.report.patch import patched_files
from trueloop.results.check import ExitCode, counted
from trueloop.results.document import Code, Document, Item, Items, Part
from trueloop.rules.catalogue import find_rule
from trueloop.usercode.child_python import child_python
from trueloop.usercode.rewrite_file import rewrite_file
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import full_path, set_base_folder, unified

__all__ = ["fix", "parser", "start_check"]

USAGE: Final = ("[options] SCRIPT [arguments of the script]", "[options] -m MODULE [arguments of the module]")
ABOUT: Final = """Run a script under `check`, write the fixes that can be written mechanically into its files, show the
diff, run it again, and report which findings are gone.

Without --unsafe only fixes that leave the trained weights as they are: `no_grad` around an evaluation, pinned memory.
With it also fixes that change the result on purpose: `zero_grad()`, a softmax too many, a missing shuffle.

Options of trueloop stand before SCRIPT. If the script has an option of the same name, write `--` before SCRIPT."""

Files = dict[str, tuple[list[str], list[str]]]  # Name -> its lines before and after


def parser() -> Parser:
    made = Parser("fix", USAGE, ABOUT)
    made.add_argument("-m", metavar="MODULE", help="run a module, like python -m")
    made.add_argument("--unsafe", action="store_true", help="also fixes that change the result of the training")
    dry = "print the diff only; write nothing, and do not run again"
    made.add_argument("--diff", dest="dry_run", action="store_true", help=dry)
    made.add_argument("--steps", metavar="N", type=whole_number(), help="end each run after N optimizer steps")
    add_rule_choice(made)
    made.add_report_options(quiet="no progress, only the report")
    return made


@dataclass(frozen=True, slots=True)
class Report:
    """What one `check` of the script found."""

    findings: list[dict[str, Any]]
    crash: dict[str, Any] | None
    failure: str  # how the script itself failed; empty: it did not

    def fixes(self) -> list[dict[str, Any]]:
        """What has a diff; the crash comes first, because nothing else can be checked before it is fixed."""
        crash = [] if self.crash is None else [{"code": "", "name": "the crash", **self.crash}]
        return [each for each in (*crash, *self.findings) if each["diff"]]

    def named(self) -> dict[str, dict[str, Any]]:
        """The findings by their fingerprints."""
        return {finding["fingerprint"]: finding for finding in self.findings}

    def exit_code(self) -> int:
        wrong = self.failure or any(finding["severity"] == "error" for finding in self.findings)
        return ExitCode.FINDINGS if wrong else ExitCode.CLEAN


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done about the findings."""

    exit_code: int
    remark: str
    fixes: tuple[tuple[dict[str, Any], str], ...] = ()
    """Each finding with a fix, and what became of it: proposed, gone, still found, put back."""
    new: tuple[dict[str, Any], ...] = ()  # Findings of the second run alone

    def lines(self) -> Iterator[str]:
        """What the second run shows."""
        for each, state in self.fixes:
            if state in SIGNS:
                yield f"{SIGNS[state]} {_name(each)}: {state}"
        yield from (f"! {_name(each)}: new" for each in self.new)

    def plain(self) -> dict[str, Any]:
        fixes = [{**each, "state": state} for each, state in self.fixes]
        return {"remark": self.remark, "fixes": fixes, "new": list(self.new)}


SIGNS: Final = {"gone": "✓", "still found": "✗"}


def fix(arguments: list[str]) -> int:
    options, target = parser().split(arguments, strict=True)
    if not target:
        raise Misuse("Which script? Nothing was run: type `trueloop fix train.py`, with options before it.")
    if "RANK" in os.environ:
        raise Misuse("`fix` runs a script in one process. Nothing was run: start it without torchrun.")
    set_base_folder(os.getcwd())
    chosen_rules(load_settings(Path.cwd()), options.select, options.ignore)
    if program_of(target, "fix").notebook is not None:
        raise Misuse("Fixes of a notebook cannot be written. Nothing was run: `trueloop check` shows them.")
    delivery, say = Delivery(options), progress(options.quiet)
    words = _words(options, target)
    say("checking the script.")
    before = _check(words)
    if isinstance(before, int):
        return before
    chosen = [each for each in before.fixes() if options.unsafe or not each["code"] or _keeps_result(each["code"])]
    files, left_out = patched_files([each["diff"] for each in chosen])
    applied = [each for index, each in enumerate(chosen) if index not in left_out]
    diff = "".join(unified(full_path(name), old, new) for name, (old, new) in files.items())
    if delivery.in_terminal:
        print(diff, end="", flush=True)
    remark = partial(_remark, overlapping=len(left_out), unsafe=options.unsafe)
    if options.dry_run or not files:
        code = ExitCode.FINDINGS if files else before.exit_code()
        outcome = Outcome(code, remark(before, len(applied)), tuple((each, "proposed") for each in applied))
    else:
        _write(files)
        say("checking it again, with the fixes.")
        outcome = _second_run(before, words, applied, files, remark)
    _deliver(outcome, diff, delivery)
    return outcome.exit_code


def _second_run(
    before: Report, words: list[str], applied: list[dict[str, Any]], files: Files, remark: Callable[[Report, int], str]
) -> Outcome:
    after = _check(words)
    if isinstance(after, int) or (after.failure and not before.failure):
        _write({name: (new, old) for name, (old, new) in files.items()})
        why = f" ({after.failure})" if isinstance(after, Report) else ""
        failed = f"the script fails with the fixes{why}. {', '.join(files)} were put back as before"
        return Outcome(ExitCode.FINDINGS, failed, tuple((each, "put back") for each in applied))
    left, known, codes = after.named(), before.named(), {each["code"] for each in applied}

    def is_left(each: dict[str, Any]) -> bool:
        return each["fingerprint"] in left if "fingerprint" in each else after.crash is not None

    states = tuple((each, "still found" if is_left(each) else "gone") for each in applied)
    new = tuple(each for name, each in left.items() if name not in known and each["code"] not in codes)
    return Outcome(after.exit_code(), remark(after, 0), states, new)


def _words(options: argparse.Namespace, target: list[str]) -> list[str]:
    """For `check`. `--`: what follows a script is the script's, without a hint."""
    rules = [word for name in ("select", "ignore") for rule in getattr(options, name) for word in (f"--{name}", rule)]
    steps = [] if options.steps is None else ["--steps", str(options.steps)]
    return [*rules, *steps, "--", *split_module(target)]


def _keeps_result(code: str) -> bool:
    return find_rule(code).fix_keeps_result


# -- runs --


def start_check(words: list[str]) -> int:
    """`trueloop check` in a process of its own: the second run must import the changed files. What the script prints
    goes to stderr."""
    command = child_python("-m", "trueloop", "check", *words)
    return subprocess.run(command, stdout=sys.stderr.fileno(), stdin=subprocess.DEVNULL, check=False).returncode


def _check(words: list[str]) -> Report | int:
    """What was found; the exit code where there is no report: the child has printed why."""
    with tempfile.TemporaryDirectory(prefix="trueloop-fix-") as folder:
        report, baseline = Path(folder, "report.json"), Path(folder, "baseline.json")
        baseline.write_text(EMPTY, encoding="utf-8")  # known findings are fixed too
        own = ["--no-run", "--fail-on", "never", "--format", "json", "--output", str(report)]
        code = start_check([*own, "--baseline", str(baseline), *words])
        if not report.is_file():
            return code or ExitCode.TRUELOOP_FAILED
        read = json.loads(report.read_text(encoding="utf-8"))
    script = read["script"]
    failed = script["exception"] or (f"exit code {script['exit_code']}" if script["exit_code"] else "")
    return Report(read["findings"], read["crash"], failed)


# -- files --


def _write(files: Files) -> None:
    for name, (before, after) in files.items():
        if why := rewrite_file(full_path(name), before, after):
            raise CannotSave(f"{name} could not be written ({why}). Files that the diff shows before it are changed.")


# -- what is reported --


def _deliver(outcome: Outcome, diff: str, delivery: Delivery) -> None:
    if delivery.in_terminal:
        print(*outcome.lines(), sep="\n", end="\n" if any(outcome.lines()) else "", flush=True)
        print(f"trueloop: {outcome.remark}.", file=sys.stderr, flush=True)
        return
    text = "\n".join([diff, *outcome.lines(), f"{outcome.remark}."]).lstrip("\n")
    delivery.deliver_text({"text": lambda: text}, lambda: _document(outcome, diff))


def _document(outcome: Outcome, diff: str) -> Document:
    states = [*outcome.fixes, *((each, "new") for each in outcome.new)]
    items = tuple(Item(state, _name(each), "good" if state == "gone" else "warning") for each, state in states)
    parts: list[Part] = [Items("Findings", items)] if items else []
    parts += [Code(diff, "diff", title="Diff")] if diff else []
    return Document("Fixes", tuple(parts), closing=(outcome.remark,), data={"diff": diff, **outcome.plain()})


def _name(each: dict[str, Any]) -> str:
    place = "" if each["path"] is None else f"  {each['path']}:{each['line']}"
    return f"{each['code']} {each['name']}".strip() + place


def _remark(report: Report, ready: int, *, overlapping: int, unsafe: bool) -> str:
    """What is left: fixes that change the result, fixes on the same lines, findings without a fix."""
    hidden = 0 if unsafe else sum(bool(each["code"]) and not _keeps_result(each["code"]) for each in report.fixes())
    total = len(report.findings) + (report.crash is not None)
    if not total and report.failure:
        return f"the script itself failed ({report.failure}); nothing else was found"
    if not total:
        return "nothing found; nothing to fix"
    parts = [f"{counted(ready, 'finding')} of {total} can be fixed" if ready else f"{counted(total, 'finding')} left"]
    parts += [f"{hidden} with a fix that changes the result of the training: add --unsafe"] if hidden else []
    parts += [f"{overlapping} on the same lines as another fix: run `trueloop fix` again"] if overlapping else []
    bare = total - len(report.fixes())
    parts += (
        [f"{bare} without a fix that can be written mechanically: `trueloop check` shows what to do"] if bare else []
    )
    return "; ".join(parts)
