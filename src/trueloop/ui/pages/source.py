"""The source of a run, with its findings beside their lines and the share of step time of each line."""

from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.report.editors import EDITORS
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.profile_file import read_profile
from trueloop.ui.run_rows import findings_of, read_about
from trueloop.ui.script_files import ScriptFile, is_same_file, source_files

__all__ = ["data"]

KEPT: Final = ("code", "name", "severity", "message", "fix", "line", "path", "first_step", "count", "diff", "source")
LONGEST: Final = 20_000  # Characters of a text in a finding


def data(library: Library, query: Query) -> dict[str, Any]:
    folder = library.folder(query.text("run"))
    about = read_about(folder)
    files = source_files(about, library.root)
    problems = [file.note for file in files if file.note and not file.text]
    files = [file for file in files if file.text]
    try:
        findings = [_finding(each, files) for each in findings_of(folder)]
    except NotARun as error:
        findings = []
        problems.append(str(error))
    shown = [_file(file, library) for file in files]
    for file, each in zip(files, shown, strict=True):
        each["shares"] = _shares(folder_lines(library, query), file)
    return {
        "files": shown,
        "findings": findings,
        "problems": problems,
        "editor": EDITORS[library.editor],
        "kind": about.get("kind") if isinstance(about.get("kind"), str) else "train",
    }


def _file(file: ScriptFile, library: Library) -> dict[str, Any]:
    linked = file.path if EDITORS[library.editor] else ""
    return {"name": file.name, "text": file.text, "note": file.note, "path": linked}


def _finding(finding: dict[str, Any], files: list[ScriptFile]) -> dict[str, Any]:
    """`file` is the number of the file that has its line; -1: none of them."""
    kept = {name: finding.get(name) for name in KEPT}
    short = {name: value[:LONGEST] if isinstance(value, str) else value for name, value in kept.items()}
    numbers = (number for number, file in enumerate(files) if is_same_file(file.path, finding.get("path")))
    line = finding.get("line")
    known = isinstance(line, int) and not isinstance(line, bool)
    return {**short, "line": line if known else None, "file": next(numbers, -1) if known else -1}


def folder_lines(library: Library, query: Query) -> list[dict[str, Any]]:
    """The lines of a profile, where there is one."""
    try:
        profile = read_profile(library.folder(query.text("run")))
    except NotARun:
        return []
    lines = profile.get("lines") if profile else None
    return [each for each in lines if isinstance(each, dict)][:2000] if isinstance(lines, list) else []


def _shares(lines: list[dict[str, Any]], file: ScriptFile) -> list[list[Any]]:
    """[line, share of the sampled steps in which it was running, phase with most of it], by line."""
    found: dict[int, list[Any]] = {}
    for each in lines:
        path, _, line = str(each.get("place")).rpartition(":")
        share = each.get("share")
        if line.isdigit() and isinstance(share, (int, float)) and is_same_file(file.path, path):
            row = found.setdefault(int(line), [int(line), 0.0, str(each.get("phase", ""))[:40]])
            row[1] += float(share)
    return sorted(found.values())
