"""`check --try`: every fix that can be written mechanically, tried one after another."""

import sys
from collections.abc import Callable

from trueloop.errors import Misuse
from trueloop.experiment.compare import Comparison
from trueloop.experiment.folder_copy import Snapshot
from trueloop.experiment.patch import apply_patch
from trueloop.results.check import Verdict, counted

__all__ = ["progress", "split_module", "try_fixes"]


def try_fixes(
    verdict: Verdict, taken: Snapshot, target: list[str], seeds: int, steps: int | None, *, quiet: bool
) -> list[str]:
    """One line for each finding with a patch."""
    crash = [("the crash", verdict.crash.diff)] if verdict.crash is not None else []
    fixes = [*crash, *((f"{finding.code} {finding.name}", finding.diff) for finding in verdict.findings)]
    fixable = [(name, diff) for name, diff in fixes if diff]
    comparison = Comparison(taken, split_module(target), seeds, steps, progress(quiet))
    lines = []
    for name, diff in fixable:
        try:
            sentence = comparison.effect(apply_patch(diff, taken.find)).sentence()
        except Misuse as error:
            sentence = f"not tried: {error}"
        lines.append(f"fix of {name}: {sentence}")
    left = len(fixes) - len(fixable)
    return [*lines, *([f"{counted(left, 'finding')} without a patch: no fix was tried"] if left else [])]


def split_module(target: list[str]) -> list[str]:
    """-mpackage.train is -m package.train."""
    joined = target[0].startswith("-m") and target[0] != "-m"
    return ["-m", target[0][2:], *target[1:]] if joined else target


def progress(quiet: bool) -> Callable[[str], None]:
    """Where the progress of the runs is reported."""
    return (lambda _: None) if quiet else _say


def _say(text: str) -> None:
    sys.stderr.write(f"trueloop: {text}\n")
    sys.stderr.flush()
