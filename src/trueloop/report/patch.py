"""All fixes that can be written mechanically, as one unified diff that `patch -p0` applies.

Each finding has a diff against the file on disk. Several diffs of one file cannot simply be concatenated, because the
first may change lines that the second expects, so their edits are merged into one diff per file. Where two edits touch
the same lines, the more severe finding wins; applying the patch and checking again gives the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import Final

from trueloop.results.check import Verdict, counted
from trueloop.usercode.source import HUNK, full_path, lines_on_disk, unified

__all__ = ["Change", "changes_of", "patched_files", "remark", "render"]

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Change:
    """Lines first..last of the file on disk (from 0, last excluded) become `lines`."""

    first: int
    last: int
    lines: tuple[str, ...]

    def overlaps(self, other: Change) -> bool:
        """Do both touch the same lines, or insert at the same place?"""
        if (self.first, self.last) == (other.first, other.last):
            return True
        return self.first < other.last and other.first < self.last


def render(verdict: Verdict) -> str:
    """The patch; empty when no finding has a diff."""
    files, _ = patched_files(_diffs(verdict))
    return "".join(unified(full_path(name), before, after) for name, (before, after) in files.items())


def remark(verdict: Verdict) -> str:
    """One sentence: how many findings the patch fixes."""
    diffs = _diffs(verdict)
    left_out = len(patched_files(diffs)[1])
    total = len(verdict.findings) + (verdict.crash is not None)
    text = f"{counted(len(diffs) - left_out, 'finding')} of {total} can be patched"
    if left_out:
        more = counted(left_out, "more patch", "more patches")
        text += f"; {more} would touch the same lines: apply this one and check again"
    return text


def patched_files(diffs: list[str]) -> tuple[dict[str, tuple[list[str], list[str]]], set[int]]:
    """The lines of each file before and after, and the indexes of diffs that were left out: an earlier one touches the
    same lines."""
    files: dict[str, list[Change]] = {}
    left_out: set[int] = set()
    for index, diff in enumerate(diffs):
        for name, wanted in changes_of(diff):
            taken = files.setdefault(name, [])
            fresh = [change for change in wanted if change not in taken]
            if any(change.overlaps(other) for change in fresh for other in taken):
                left_out.add(index)
            else:
                taken.extend(fresh)
    return {name: _patched(name, changes) for name, changes in files.items() if changes}, left_out


def _diffs(verdict: Verdict) -> list[str]:
    """The crash comes first: nothing else can be checked before it is fixed."""
    crash = [verdict.crash.diff] if verdict.crash is not None else []
    return [diff for diff in (*crash, *(finding.diff for finding in verdict.findings)) if diff]


def changes_of(diff: str) -> Iterator[tuple[str, list[Change]]]:
    """(file, changes) of a diff."""
    lines = _joined(diff)
    heads = [i for i, (old, new) in enumerate(pairwise(lines)) if old.startswith("--- ") and new.startswith("+++ ")]
    for head, end in pairwise([*heads, len(lines)]):
        yield lines[head + 1][4:].split("\t")[0].rstrip("\n"), list(_hunks(lines[head + 2 : end]))


def _joined(diff: str) -> list[str]:
    """Lines of a diff; the newline is removed where the file has none."""
    lines: list[str] = []
    for line in StringIO(diff):
        if line == _NO_NEWLINE:
            lines[-1] = lines[-1].rstrip("\n")
        else:
            lines.append(line)
    return lines


def _hunks(lines: list[str]) -> Iterator[Change]:
    at = start = 0
    new: list[str] = []
    for line in [*lines, "@@"]:
        if line[0] in "-+":
            at += line[0] == "-"
            new += [line[1:]] if line[0] == "+" else []
            continue
        if at > start or new:
            yield Change(start, at, tuple(new))
        if head := HUNK.match(line):
            at = int(head[1]) - (head[2] != "0")
        elif line[0] in " \n":
            at += 1
        start, new = at, []


def _patched(name: str, changes: list[Change]) -> tuple[list[str], list[str]]:
    before = lines_on_disk(full_path(name))
    after = list(before)
    for change in sorted(changes, key=lambda change: (change.first, change.last), reverse=True):
        after[change.first : change.last] = change.lines
    return before, after
