"""The report as a patch: every fix that can be written mechanically, in one unified diff that `patch -p0` applies.

Each finding brings a diff against the file as it stands. Several of them for one file cannot simply follow one another
(the lines that the second expects may have been changed by the first), so their edits are gathered and one diff per
file is written. Of two edits to the same lines the more severe finding's is taken; applying the patch and checking
again brings the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import Final

from trueloop.results.check import Verdict, counted
from trueloop.usercode.source import full_path, lines_on_disk, unified

__all__ = ["remark", "render"]

_HUNK: Final = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NO_NEWLINE: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Change:
    """Lines first..last of the file as it stands (counted from 0, last excluded) become `lines`."""

    first: int
    last: int
    lines: tuple[str, ...]

    def meets(self, other: Change) -> bool:
        """Do both touch the same lines, or write at the same spot? What one writes beside the lines of the other has
        its own spot."""
        if (self.first, self.last) == (other.first, other.last):
            return True
        return self.first < other.last and other.first < self.last


def render(verdict: Verdict) -> str:
    """The patch; empty when no finding has a diff."""
    return "".join(_file_patch(name, changes) for name, changes in _gathered(verdict)[0].items())


def remark(verdict: Verdict) -> str:
    """What the patch leaves for people: one sentence."""
    left_out = _gathered(verdict)[1]
    whole = len(verdict.findings) + (verdict.crash is not None)
    said = f"{counted(len(_diffs(verdict)) - left_out, 'finding')} of {whole} can be patched"
    if left_out:
        said += f"; {counted(left_out, 'more patch', 'more patches')} would touch the same lines: apply this one and check again"
    return said


def _gathered(verdict: Verdict) -> tuple[dict[str, list[Change]], int]:
    """The changes per file, and how many findings had to wait because an earlier one touches the same lines."""
    files: dict[str, list[Change]] = {}
    left_out = 0
    for diff in _diffs(verdict):
        for name, wanted in _changes(diff):
            taken = files.setdefault(name, [])
            fresh = [change for change in wanted if change not in taken]
            if any(change.meets(other) for change in fresh for other in taken):
                left_out += 1
            else:
                taken.extend(fresh)
    return {
        name: sorted(changes, key=lambda c: (c.first, c.last)) for name, changes in files.items() if changes
    }, left_out


def _diffs(verdict: Verdict) -> list[str]:
    """What made the script crash comes first: nothing else can be seen to work before that is mended."""
    crash = [verdict.crash.diff] if verdict.crash is not None else []
    return [diff for diff in (*crash, *(finding.diff for finding in verdict.findings)) if diff]


def _changes(diff: str) -> Iterator[tuple[str, list[Change]]]:
    """(file, changes) of a diff."""
    lines = _joined(diff)
    heads = [i for i, (old, new) in enumerate(pairwise(lines)) if old.startswith("--- ") and new.startswith("+++ ")]
    for head, end in pairwise([*heads, len(lines)]):
        yield lines[head + 1][4:].split("\t")[0].rstrip("\n"), list(_hunks(lines[head + 2 : end]))


def _joined(diff: str) -> list[str]:
    """Lines of a diff; one that is marked as having no newline in the file loses it here."""
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
        if head := _HUNK.match(line):
            at = int(head[1]) - (head[2] != "0")
        elif line[0] in " \n":
            at += 1
        start, new = at, []


def _file_patch(name: str, changes: list[Change]) -> str:
    before = lines_on_disk(full_path(name))
    after = list(before)
    for change in reversed(changes):
        after[change.first : change.last] = change.lines
    return unified(full_path(name), before, after)
