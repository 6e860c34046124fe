"""The user's source, read: the line of a place, what stands around it, and patches to it.

Rules point at lines and write diffs with this; it never imports or runs what it reads. A file that cannot be read or parsed
(a notebook cell that is gone, generated code) gives empty answers, and then a finding simply has no source line and no diff.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from trueloop.event import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Edit",
    "Source",
    "called_name",
    "calls_in",
    "diff",
    "is_self_attribute",
    "line_of",
    "shown_path",
    "source_of",
]

Loop: TypeAlias = ast.For | ast.While | ast.AsyncFor
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def line_of(place: Place | None) -> str:
    """The user's line, as it stands, without its newline."""
    return linecache.getline(place.path, place.line).rstrip("\n") if place else ""


def shown_path(path: str) -> str:
    """Relative to the working directory when the file lies below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines first..last (counted from 1, inclusive) become `lines`; last = first - 1 inserts before `first`."""

    first: int
    last: int
    lines: tuple[str, ...]


def diff(path: str, edits: list[Edit]) -> str:
    """A unified diff for `patch -p0`, run where trueloop was run; empty if the result does not parse."""
    before = linecache.getlines(path)
    after = list(before)
    for edit in sorted(edits, key=lambda e: e.first, reverse=True):
        after[edit.first - 1 : edit.last] = [line + "\n" for line in edit.lines]
    try:
        ast.parse("".join(after))
    except SyntaxError:
        return ""
    if not before or before == after:
        return ""
    name = shown_path(path)
    pieces = difflib.unified_diff(before, after, name, name)
    return "".join(piece if piece.endswith("\n") else piece + "\n\\ No newline at end of file\n" for piece in pieces)


@lru_cache(maxsize=256)
def source_of(path: str) -> Source:
    """The parsed source of a file; an empty module if it cannot be parsed."""
    lines = linecache.getlines(path)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module(body=[], type_ignores=[])
    return Source(path, lines, tree)


class Source:
    """One file of the user's."""

    def __init__(self, path: str, lines: list[str], tree: ast.Module) -> None:
        self.path = path
        self.lines = lines
        self.tree = tree
        self._parent: dict[ast.AST, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the innermost outwards."""
        while node in self._parent:
            node = self._parent[node]
            yield node

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost simple statement (or head of a compound one) that covers the line."""
        best: ast.stmt | None = None
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.stmt)
                and node.lineno <= line <= (node.end_lineno or node.lineno)
                and (best is None or node.lineno >= best.lineno)
            ):
                best = node
        return best

    def calls(self, line: int, method: str) -> list[ast.Call]:
        """Calls of `….method(…)` in the statement at the line."""
        statement = self.statement(line)
        return [] if statement is None else [call for call in calls_in(statement) if called_name(call) == method]

    def enclosing_loop(self, line: int) -> Loop | None:
        """The innermost loop around the line."""
        statement = self.statement(line)
        if statement is None:
            return None
        for parent in self.parents(statement):
            if isinstance(parent, Function):
                return None
            if isinstance(parent, Loop):
                return parent
        return None

    def enclosing_function(self, line: int) -> Function | None:
        statement = self.statement(line)
        if statement is None:
            return None
        return next((parent for parent in self.parents(statement) if isinstance(parent, Function)), None)

    def class_named(self, name: str) -> ast.ClassDef | None:
        return next((n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef) and n.name == name), None)

    def assignment_to_self(self, class_name: str, attribute: str) -> ast.stmt | None:
        """The first `self.attribute = …` in a class."""
        owner = self.class_named(class_name)
        for node in ast.walk(owner) if owner else ():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            for target in targets:
                if is_self_attribute(target, attribute):
                    assert isinstance(node, ast.stmt)
                    return node
        return None

    def indent(self, line: int) -> str:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return text[: len(text) - len(text.lstrip())]

    def text(self, node: ast.AST) -> str:
        """The node as written."""
        return ast.get_source_segment("".join(self.lines), node) or ""

    def place(self, node: ast.stmt | ast.expr, function: str = "") -> Place:
        return Place(self.path, node.lineno, function)


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def called_name(call: ast.Call) -> str:
    """`step` for `optimizer.step()`, `clip` for `clip(x)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_self_attribute(node: ast.AST, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.value, ast.Name) and node.value.id == "self"
