"""`--baseline FILE` and `--write-baseline FILE`: findings that are known, so that only new ones fail.

    {"version": 1,
     "findings": [{"fingerprint": "9f86d081884c7d65", "script": "train.py", "code": "GRD101", "path": "train.py", ...}]}

A finding is known if its fingerprint is listed. A JSON report (`--output findings.json`) lists fingerprints too, so it
can be a baseline.
"""

import json
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from trueloop.cli.deliver import writable, write_file
from trueloop.errors import Misuse
from trueloop.finding import Finding
from trueloop.results.check import Verdict, counted
from trueloop.trust.files import parse_json, read_regular
from trueloop.usercode.fingerprint import fingerprint, fingerprints, project_path
from trueloop.usercode.source import full_path

__all__ = ["EMPTY", "NO_BASELINE", "Baseline", "BaselineWriter", "read_baseline"]

VERSION: Final = 1
EMPTY: Final = '{"version": 1, "findings": []}'  # a baseline that knows nothing
_KEPT: Final = ("fingerprint", "script", "code", "name", "path", "line", "source")


@final
@dataclass(frozen=True, slots=True)
class Baseline:
    """The fingerprints of the findings that do not count."""

    shown: str = ""  # the file, as it was named
    names: frozenset[str] = frozenset()

    def without_known(self, verdict: Verdict) -> Verdict:
        """The verdict with the new findings only."""
        if not self.shown:
            return verdict
        found = zip(verdict.findings, fingerprints(verdict.findings), strict=True)
        new = tuple(finding for finding, name in found if name not in self.names)
        return replace(verdict, findings=new, known=len(verdict.findings) - len(new), baseline=self.shown)

    def may_know(self, finding: Finding) -> bool:
        """While the run continues: the number of a finding that looks like a second one is known at the end only."""
        return fingerprint(finding) in self.names


NO_BASELINE: Final = Baseline()


def read_baseline(file: Path) -> Baseline:
    """Raises Misuse for a file that is missing, damaged or not a regular one."""
    if not os.path.lexists(file):
        write = f"type `trueloop check --write-baseline {file} SCRIPT` first"
        raise Misuse(f"--baseline {file} does not exist. Nothing was run: {write}.")
    return Baseline(str(file), frozenset(entry["fingerprint"] for entry in _entries(file, "--baseline")))


@final
class BaselineWriter:
    """Created before the script runs: a file that cannot be written or understood is refused then."""

    def __init__(self, file: Path, script: str, rules: Collection[str]) -> None:
        """`script`: its path. `rules`: codes that are checked now; entries of other rules and scripts are kept."""
        self._shown = str(file)
        existing = _entries(file, "--write-baseline") if os.path.lexists(file) else []
        self._file = writable(file, "--write-baseline")
        self._script = project_path(full_path(script))
        self._kept = [
            entry for entry in existing if entry.get("script") != self._script or entry.get("code") not in rules
        ]

    def write(self, verdict: Verdict) -> str:
        """Writes all findings of the script; returns a sentence. A run that failed leaves the file as it was."""
        if verdict.outcome.exit_code or verdict.failures:
            return f"{self._shown} was not written, because the run failed: not every finding may have been seen"
        found = [{"script": self._script, **plain} for plain in verdict.plain()["findings"]]
        entries = [*self._kept, *({key: each[key] for key in _KEPT} for each in found)]
        entries.sort(key=lambda entry: (str(entry.get("script")), str(entry.get("path")), str(entry.get("code"))))
        text = json.dumps({"version": VERSION, "findings": entries}, indent=2, allow_nan=False) + "\n"
        write_file(self._file, text.encode("utf-8", "backslashreplace"))
        number = counted(len(found), "finding")
        return f"{number} written to {self._shown}; with `--baseline {self._shown}` only new ones fail"


def _entries(file: Path, option: str) -> list[dict[str, Any]]:
    """The findings that a file lists."""
    try:
        read = parse_json(read_regular(file))
    except OSError as error:
        raise Misuse(f"{option} {file} cannot be read ({error.strerror}). Nothing was run.") from None
    except ValueError as error:  # not JSON, or not UTF-8
        raise Misuse(f"{option} {file} is damaged ({error}). Nothing was run: {_AGAIN}.") from None
    entries = read.get("findings") if isinstance(read, dict) else None
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise Misuse(f"{option} {file} is not a baseline: no findings with fingerprints. Nothing was run: {_AGAIN}.")
    if read.get("version") != VERSION:
        newer = f"version {read.get('version')!r}, this trueloop reads version {VERSION}"
        raise Misuse(f"{option} {file} has {newer}. Nothing was run: {_AGAIN}.")
    return entries


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("fingerprint"), str)


_AGAIN: Final = "restore it, or delete it and write it again with --write-baseline"
