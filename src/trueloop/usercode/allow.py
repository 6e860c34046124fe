"""Findings that the user allows.

A finding is allowed by `# trueloop: allow[gradients-never-cleared]` on its line, on another line of the same statement,
or alone on the line above; or by a `per-file-ignores` pattern that matches its file.
"""

import ast
import linecache
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from trueloop.event import Place
from trueloop.finding import Finding
from trueloop.usercode.settings import Settings
from trueloop.usercode.source import line_of, source_of

__all__ = ["ALLOW", "filter_findings", "is_allowed", "is_suppressed", "locate_at_model", "statement_lines"]

ALLOW: Final = re.compile(r"#\s*trueloop:\s*allow\[([^\]]*)\]")  # its group: the rules, with commas between them


def locate_at_model(findings: Iterable[Finding], home: Place | None) -> list[Finding]:
    """Findings without a line point to the model: a `trueloop train` run has no loop of the user's to point at."""
    return [
        replace(f, place=home, source=line_of(home)) if f.place is None and home is not None else f for f in findings
    ]


def filter_findings(findings: Iterable[Finding], settings: Settings) -> tuple[tuple[Finding, ...], int]:
    """The findings to show, with the severity from the settings, most severe first; and how many the user allows."""
    found = list(findings)
    kept = [replace(f, severity=settings.severity_of(f)) for f in found if not is_suppressed(f, settings)]
    return tuple(sorted(kept, key=lambda f: -f.severity)), len(found) - len(kept)


def is_suppressed(finding: Finding, settings: Settings) -> bool:
    return settings.ignores(finding) or is_allowed(finding)


def is_allowed(finding: Finding) -> bool:
    """Is there an allow comment at its place?"""
    place = finding.place
    if place is None:
        return False
    first, last = statement_lines(place.path, place.line)
    words = {word for line in range(first, last + 1) for word in _allowed_on(linecache.getline(place.path, line))}
    above = linecache.getline(place.path, first - 1).strip() if first > 1 else ""
    if above.startswith("#"):
        words |= _allowed_on(above)
    return finding.name.lower() in words or finding.code.lower() in words


def statement_lines(path: str, line: int) -> tuple[int, int]:
    """First and last line of the simple statement at a line; for a loop, a class or a function, only that line."""
    statement = source_of(path).statement(line)
    if statement is None or isinstance(statement, _COMPOUND) or statement.end_lineno is None:
        return line, line
    return statement.lineno, statement.end_lineno


_COMPOUND: Final = (
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)  # Statements with a body: a comment inside of it does not apply to the whole statement


def _allowed_on(line: str) -> set[str]:
    return {word.strip().lower() for match in ALLOW.finditer(line) for word in match.group(1).split(",")}
