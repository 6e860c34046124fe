"""A name of a finding that stays the same while the lines around it move.

It is made of the rule's code, the file (from its repository's folder on), the function around the line and the
statement itself, without its formatting and comments. Baselines and SARIF reports carry it.
"""

import ast
import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from trueloop.event import Place
from trueloop.finding import Finding
from trueloop.usercode.notebook import notebook_of
from trueloop.usercode.source import Source, full_path, source_of

__all__ = ["fingerprint", "fingerprints", "project_path"]

_DIGITS: Final = 16  # of the hash: 64 bits
_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """One for each finding, in their order. Findings that look the same are numbered by their lines: abc, abc-2."""
    found = [(fingerprint(finding), finding.place.line if finding.place else 0) for finding in findings]
    counts: Counter[str] = Counter()
    names = [""] * len(found)
    for index, (name, _) in sorted(enumerate(found), key=lambda pair: pair[1][1]):
        counts[name] += 1
        names[index] = name if counts[name] == 1 else f"{name}-{counts[name]}"
    return names


def fingerprint(finding: Finding) -> str:
    """Without the number that tells findings apart that look the same."""
    parts = [finding.code, *(_at(finding.place, finding.source) if finding.place else ())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]


def project_path(path: str) -> str:
    """The path from the repository's folder on; without one, from the folder that trueloop was started in."""
    path = notebook_of(path) or path
    if path.startswith("<"):
        return path
    full = os.path.realpath(full_path(path))
    root = _repository(os.path.dirname(full)) or os.path.realpath(full_path(""))
    return os.path.relpath(full, root).replace(os.sep, "/")


@lru_cache(maxsize=256)
def _repository(folder: str) -> str:
    """The nearest folder above with `.git`; empty if there is none."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _at(place: Place, line: str) -> tuple[str, str, str]:
    """(file, function, statement)"""
    source = source_of(place.path)
    statement = source.statement(place.line)
    if statement is None:  # no source any more, or a line between statements
        return project_path(place.path), "", " ".join(line.split())
    return project_path(place.path), _scope(source, statement), _text(source, statement)


def _scope(source: Source, statement: ast.stmt) -> str:
    """`Trainer.fit`; empty at the top of the file."""
    return ".".join(reversed([parent.name for parent in source.parents(statement) if isinstance(parent, _NAMED)]))


def _text(source: Source, statement: ast.stmt) -> str:
    """The statement without white space; of a loop, a class or a function only what stands before its body.

    As written and not by `ast.unparse`: versions of Python differ in how they spell it.
    """
    if isinstance(statement, _NAMED):
        return f"{type(statement).__name__} {statement.name}"
    if not hasattr(statement, "body") and not isinstance(statement, ast.Match):
        return "".join(source.text(statement).split())
    items = getattr(statement, "items", [])
    head = [*(item.context_expr for item in items), *ast.iter_child_nodes(statement)]
    words = ["".join(source.text(part).split()) for part in head if isinstance(part, ast.expr)]
    return " ".join([type(statement).__name__, *words])
