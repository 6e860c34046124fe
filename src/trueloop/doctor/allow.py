"""What the user has said: which rules are to judge, and which findings are meant.

A finding is meant when `# trueloop: allow[gradients-never-cleared]` stands on its line, on another line of the same
statement, or alone on the line above; or when a pattern of `per-file-ignores` covers its file.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from trueloop.errors import Misuse, UnknownRule
from trueloop.finding import Finding
from trueloop.rules.catalogue import select
from trueloop.rules.rule import Rule
from trueloop.settings import Settings
from trueloop.source import source_of

__all__ = ["chosen_rules", "is_allowed", "is_excused", "sift"]

_COMMENT: Final = re.compile(r"#\s*trueloop:\s*allow\[([^\]]*)\]")


def chosen_rules(settings: Settings, chosen: Iterable[str] = (), ignored: Iterable[str] = ()) -> tuple[type[Rule], ...]:
    """The rules that are to judge. What a command names outright replaces the settings; what it ignores is added to theirs."""
    for where, word in settings.words():
        try:
            select((word,), ())
        except UnknownRule as error:
            raise UnknownRule(f"[tool.trueloop] {where} in {settings.root}/pyproject.toml: {error}") from None
    chosen, ignored = tuple(chosen), tuple(ignored)
    rules = select(chosen, ignored) if chosen else select(settings.select, (*settings.ignore, *ignored))
    if not rules:
        raise Misuse("No rule is left to judge by: everything selected is also ignored. Nothing was run.")
    return rules


def sift(findings: Iterable[Finding], settings: Settings) -> tuple[tuple[Finding, ...], int]:
    """The findings to show, with the severity they are to have, most severe first; and how many the user has allowed."""
    found = list(findings)
    kept = [replace(f, severity=settings.severity_of(f)) for f in found if not is_excused(f, settings)]
    return tuple(sorted(kept, key=lambda f: -f.severity)), len(found) - len(kept)


def is_excused(finding: Finding, settings: Settings) -> bool:
    return settings.ignores(finding) or is_allowed(finding)


def is_allowed(finding: Finding) -> bool:
    """Did the user say, at this place, that it is meant?"""
    place = finding.place
    if place is None:
        return False
    first, last = _statement_lines(place.path, place.line)
    words = {word for line in range(first, last + 1) for word in _allowed_on(linecache.getline(place.path, line))}
    above = linecache.getline(place.path, first - 1).strip() if first > 1 else ""
    if above.startswith("#"):
        words |= _allowed_on(above)
    return finding.name.lower() in words or finding.code.lower() in words


def _statement_lines(path: str, line: int) -> tuple[int, int]:
    """First and last line of the simple statement at the line; of a loop, a class or a function, only the line itself."""
    statement = source_of(path).statement(line)
    if statement is None or isinstance(statement, _COMPOUND) or statement.end_lineno is None:
        return line, line
    return statement.lineno, statement.end_lineno


_COMPOUND: Final = (
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
"""Statements with a body: a comment somewhere inside it does not speak for the whole."""


def _allowed_on(line: str) -> set[str]:
    return {word.strip().lower() for match in _COMMENT.finditer(line) for word in match.group(1).split(",")}
