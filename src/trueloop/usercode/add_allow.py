"""Writes `# trueloop: allow[rule-name]` at the lines of findings."""

import ast
from collections.abc import Iterable
from typing import Final

from trueloop.finding import Finding
from trueloop.usercode.allow import ALLOW, statement_lines
from trueloop.usercode.notebook import is_cell
from trueloop.usercode.ownership import is_users
from trueloop.usercode.source import lines_on_disk

__all__ = ["with_comments"]

_WIDEST: Final = 120  # columns of a line with a comment at its end; a longer one gets the comment above
_MARK: Final = "\ufeff"

Files = dict[str, tuple[list[str], list[str]]]  # Path -> its lines before and after


def with_comments(findings: Iterable[Finding]) -> tuple[Files, list[Finding]]:
    """The files with comments, and the findings that get none: without a line, in a notebook or in a library."""
    wanted: dict[str, dict[tuple[int, int], list[Finding]]] = {}
    left: list[Finding] = []
    for finding in findings:
        place = finding.place
        if place is None or is_cell(place.path) or not is_users(place.path) or not lines_on_disk(place.path):
            left.append(finding)
        else:
            wanted.setdefault(place.path, {}).setdefault(statement_lines(place.path, place.line), []).append(finding)
    files: Files = {}
    for path, places in wanted.items():
        before = lines_on_disk(path)
        after = list(before)
        for (first, last), found in sorted(places.items(), reverse=True):
            _add(after, first, last, sorted({finding.name for finding in found}))
        if _same_code(before, after):
            files[path] = before, after
        else:  # a comment inside of a string, or between lines that a backslash joins
            left += [finding for found in places.values() for finding in found]
    return files, left


def _add(lines: list[str], first: int, last: int, names: list[str]) -> None:
    """Adds the names to the comment of the statement, or a comment."""
    above = [first - 1] if first > 1 and lines[first - 2].lstrip().startswith("#") else []
    for number in (*range(first, last + 1), *above):
        if found := ALLOW.search(lines[number - 1]):
            words = [word.strip() for word in found[1].split(",") if word.strip()]
            text = ", ".join([*words, *(name for name in names if name not in words)])
            start, end = found.span(1)
            lines[number - 1] = f"{lines[number - 1][:start]}{text}{lines[number - 1][end:]}"
            return
    comment = f"# trueloop: allow[{', '.join(names)}]"
    line = lines[first - 1]
    text = line.rstrip("\r\n")
    if first == last and "#" not in text and len(text) + len(comment) + 2 <= _WIDEST:
        lines[first - 1] = f"{text.rstrip()}  {comment}{line[len(text) :]}"
        return
    indent = text[: len(text) - len(text.lstrip())]
    lines.insert(first - 1, f"{indent}{comment}{line[len(text) :] or chr(10)}")


def _same_code(before: list[str], after: list[str]) -> bool:
    try:
        old, new = (ast.parse("".join(lines).removeprefix(_MARK)) for lines in (before, after))
    except SyntaxError:
        return False
    return ast.dump(old) == ast.dump(new)
