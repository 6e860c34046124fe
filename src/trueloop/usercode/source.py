"""Reads the user's source: the line of a place, the code around it, and patches to it.

Rules point to lines and write diffs with this. It never imports or runs the code. For a file that cannot be read or
parsed (a deleted notebook cell, generated code) the results are empty: the finding then has no source line and no diff.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from trueloop.event import Place
from trueloop.usercode.notebook import cell_in_kernel, is_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Edit", "Removal", "Source", "called_name", "calls_in", "diff", "full_path", "is_self_attribute", "line_of"]
__all__ += [
    "lines_on_disk",
    "prefix_of_layers",
    "remove_activation",
    "set_base_folder",
    "shown_path",
    "shown_place",
    "source_of",
]
__all__ += ["HUNK", "unified"]

Loop: TypeAlias = ast.For | ast.While | ast.AsyncFor
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

HUNK: Final = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")  # The head of a part of a unified diff
_MARK: Final = "\ufeff"  # The byte order mark that some editors write; Python ignores it


def line_of(place: Place | None) -> str:
    """The user's line, without its newline."""
    return linecache.getline(place.path, place.line).rstrip("\n") if place else ""


_base_folder: list[str] = []  # The folder that trueloop was started in, once set; a script may change the directory


def set_base_folder(folder: str) -> None:
    """Show paths relative to this folder from now on, even if the script changes the directory."""
    _base_folder[:] = [folder]


def shown_path(path: str) -> str:
    """Relative to the folder that trueloop was started in, if the file is below it."""
    if cell := cell_in_kernel(path):
        return cell
    if path.startswith("<"):  # <stdin>
        return path
    relative = os.path.relpath(path, *_base_folder)
    return path if relative.startswith("..") else relative


def shown_place(place: Place) -> str:
    """'train.py:12'; in a notebook 'book.ipynb, cell 3, line 12'."""
    between = ", line " if is_cell(place.path) else ":"
    return f"{shown_path(place.path)}{between}{place.line}"


def full_path(shown: str) -> str:
    """The inverse of `shown_path`."""
    return os.path.join(*_base_folder, shown)


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines first..last (counted from 1, inclusive) become `lines`; last = first - 1 inserts before `first`."""

    first: int
    last: int
    lines: tuple[str, ...]


def diff(path: str, edits: list[Edit]) -> str:
    """A unified diff for `patch -p0` in the folder trueloop runs in; empty if the result does not parse."""
    before = lines_on_disk(path)
    if not before or is_cell(path):  # no `patch` for a notebook
        return ""
    end = "\r\n" if before[0].endswith("\r\n") else "\n"
    after = list(before)
    for edit in sorted(edits, key=lambda e: e.first, reverse=True):
        after[edit.first - 1 : edit.last] = [line + end for line in edit.lines]
    after = [line if line.endswith("\n") else line + end for line in after]
    if after and not before[-1].endswith("\n"):
        after[-1] = after[-1].removesuffix(end)
    try:
        ast.parse("".join(after).removeprefix(_MARK))
    except SyntaxError:
        return ""
    return unified(path, before, after)


def unified(path: str, before: list[str], after: list[str]) -> str:
    """The diff between two lists of lines of a file, as `patch` reads it."""
    name = shown_path(path)
    pieces = difflib.unified_diff(before, after, name, name)
    return "".join(piece if piece.endswith("\n") else piece + "\n\\ No newline at end of file\n" for piece in pieces)


def lines_on_disk(path: str) -> list[str]:
    """The lines with their original line endings, as `patch` needs them; empty if the file is not UTF-8.

    `linecache` normalizes line endings. Its lines are used if the file does not exist (a notebook cell) or has changed.
    """
    known = linecache.getlines(path)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(file)
    except OSError:
        return known
    except UnicodeDecodeError:
        return []
    bare = [line.rstrip("\r\n") for line in lines]
    return lines if [line.removeprefix(_MARK) for line in bare] == [line.rstrip("\r\n") for line in known] else known


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
        self._parent = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._statements: dict[int, ast.stmt | None] = {}  # By line: a rule may ask for one line in every step

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Innermost first."""
        while node in self._parent:
            node = self._parent[node]
            yield node

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost simple statement, or header of a compound one, that covers the line."""
        if line not in self._statements:
            self._statements[line] = self._find_statement(line)
        return self._statements[line]

    def _find_statement(self, line: int) -> ast.stmt | None:
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

    def _calls_beside(self, line: int, method: str) -> list[ast.Call]:
        """The same in all statements of a line: `loss.backward(); optimizer.step()`."""
        simple = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
        beside = [node for node in simple if node.lineno == line == node.end_lineno]
        return [call for node in beside for call in calls_in(node) if called_name(call) == method]

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

    def backward_target(self, line: int) -> ast.expr | None:
        """`loss` of the `loss.backward()` or `accelerator.backward(loss)` at the line."""
        calls = self.calls(line, "backward") or self._calls_beside(line, "backward")
        if len(calls) != 1 or not isinstance(calls[0].func, ast.Attribute):
            return None
        call, receiver = calls[0], calls[0].func.value
        given = call.args[0] if call.args else None
        names_loss = isinstance(given, ast.Name) and "loss" in given.id.lower()
        return given if names_loss or self.text(receiver).endswith("autograd") else receiver

    def class_named(self, name: str) -> ast.ClassDef | None:
        return next((n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef) and n.name == name), None)

    def assignment_to_self(self, class_name: str, attribute: str) -> ast.stmt | None:
        """The first `self.attribute = …` in a class."""
        owner = self.class_named(class_name)
        for node in ast.walk(owner) if owner else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(is_self_attribute(t, attribute) for t in targets):
                return node
        return None

    def is_after_init(self, statement: ast.stmt | None) -> bool:
        """In a constructor, does `super().__init__()` come before it? A module takes no layers or buffers before."""
        function = None if statement is None else self.enclosing_function(statement.lineno)
        if statement is None or function is None or function.name != "__init__":
            return statement is not None
        lines = [call.lineno for call in calls_in(function) if called_name(call) == "__init__"]
        return not lines or min(lines) < statement.lineno

    def indent(self, line: int) -> str:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return text[: len(text) - len(text.lstrip())]

    def indent_unit(self) -> str:
        """One level of indentation, as in the first block."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                return self.indent(body[0].lineno).removeprefix(self.indent(node.lineno))
        return "    "

    def text(self, node: ast.AST) -> str:
        """The node as written."""
        return ast.get_source_segment("".join(self.lines), node) or ""

    def replacing(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Replaces the source of a node."""
        last = node.end_lineno or node.lineno
        before = self.lines[node.lineno - 1].encode()[: node.col_offset].decode()
        after = self.lines[last - 1].encode()[node.end_col_offset or 0 :].decode().rstrip("\n")
        return Edit(node.lineno, last, tuple(f"{before}{text}{after}".split("\n")))

    def without_item(self, items: list[ast.expr], item: ast.expr) -> Edit | None:
        """Removes one item of an argument list with its comma; None if that needs more than a line edit."""
        first, last = item.lineno, item.end_lineno or item.lineno
        before = self.lines[first - 1].encode()[: item.col_offset].decode()
        after = self.lines[last - 1].encode()[item.end_col_offset or 0 :].decode().strip().removeprefix(",").lstrip()
        if not before.strip() and (after.startswith("#") or not after):
            return Edit(first, last, ())
        index = items.index(item)
        if index == 0 or first != last or items[index - 1].end_lineno != first:
            return None
        kept = self.lines[first - 1].encode()[: items[index - 1].end_col_offset].decode()
        rest = self.lines[first - 1].encode()[item.end_col_offset or 0 :].decode().rstrip("\n")
        return Edit(first, first, (kept + rest,))

    def place(self, node: ast.stmt | ast.expr, function: str = "") -> Place:
        return Place(self.path, node.lineno, function)


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def called_name(call: ast.Call) -> str:
    """`step` for `optimizer.step()`, `clip` for `clip(x)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def prefix_of_layers(source: Source) -> str:
    """The prefix that the file uses for layers: `nn.` or `torch.nn.`; empty if it imports neither."""
    for node in ast.walk(source.tree):
        names = [(a.name, a.asname) for a in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        from_torch = isinstance(node, ast.ImportFrom) and node.module == "torch" and ("nn", None) in names
        if from_torch or (isinstance(node, ast.Import) and ("torch.nn", "nn") in names):
            return "nn."
    imports = (node for node in ast.walk(source.tree) if isinstance(node, ast.Import))
    imported = any((alias.asname or alias.name) == "torch" for node in imports for alias in node.names)
    return "torch.nn." if imported else ""


def is_self_attribute(node: ast.AST, attribute: str) -> TypeGuard[ast.Attribute]:
    base = node.value if isinstance(node, ast.Attribute) and node.attr == attribute else None
    return isinstance(base, ast.Name) and base.id == "self"


@dataclass(frozen=True, slots=True)
class Removal:
    """The line that applies or builds something to remove, and the diff that removes it; '' if none can be written."""

    place: Place
    diff: str


def remove_activation(place: Place, functions: tuple[str, ...], layer: str, *, by_layer: bool) -> Removal:
    """Remove an activation: `torch.softmax(f(x), 1)`, `f(x).softmax(1)` and `self.softmax(f(x))` become `f(x)`; a
    Sequential loses the layer.

    `place` is where it ran. `by_layer`: a layer object applied it, so the line may only call the model around it.
    """
    source = source_of(place.path)
    statement = source.statement(place.line)
    probabilities = _uses_threshold(source)
    if statement is not None and not isinstance(statement, (Function, ast.ClassDef)):
        found = ((call, _operand(source, call, functions, layer)) for call in calls_in(statement))
        calls = [(call, inner) for call, inner in found if inner is not None]
        if len(calls) == 1:
            call, inner = calls[0]
            text = source.text(inner)
            simple = isinstance(inner, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
            bare = simple or isinstance(next(source.parents(call), None), (ast.Return, ast.Assign, ast.Call))
            patch = "" if probabilities else diff(place.path, [source.replacing(call, text if bare else f"({text})")])
            return Removal(place, patch)
    built = [call for call in calls_in(source.tree) if called_name(call) == layer] if by_layer else []
    if len(built) != 1:
        return Removal(place, "")
    parent = next(source.parents(built[0]), None)
    items = parent.elts if isinstance(parent, ast.List) else []
    if isinstance(parent, ast.Call) and called_name(parent) == "Sequential":
        items = parent.args
    edit = source.without_item(items, built[0]) if built[0] in items and len(items) > 1 and not probabilities else None
    return Removal(source.place(built[0], place.function), "" if edit is None else diff(place.path, [edit]))


def _operand(source: Source, call: ast.Call, functions: tuple[str, ...], layer: str) -> ast.expr | None:
    """The input of the activation, if this call applies it."""
    if isinstance(call.func, ast.Call):
        return call.args[0] if called_name(call.func) == layer and len(call.args) == 1 else None
    name = called_name(call)
    if name in functions:
        if isinstance(call.func, ast.Name) or source.text(call.func).split(".")[0] in _imported(source):
            return call.args[0] if call.args else None
        if isinstance(call.func, ast.Attribute) and all(_is_number(argument) for argument in call.args):
            return call.func.value  # scores.softmax(1)
    return call.args[0] if len(call.args) == 1 and name in _names_of(source, layer) else None


def _uses_threshold(source: Source) -> bool:
    """`out > 0.5`, `out.round()`: other lines may expect probabilities, and would misread logits."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and called_name(node) == "round":
            return True
        if isinstance(node, ast.Compare) and not any(word in ast.unparse(node) for word in ("rand", "loss")):
            numbers = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
            if any(isinstance(number, float) and 0 < number < 1 for number in numbers):
                return True
    return False


def _imported(source: Source) -> set[str]:
    """Names that the file imports."""
    imports = (node for node in ast.walk(source.tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _names_of(source: Source, layer: str) -> set[str]:
    """Names and attributes that are assigned a layer of this class: act in `self.act = nn.Softmax(dim=1)`."""
    names: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called_name(node.value) == layer:
            names |= {ast.unparse(target).rpartition(".")[2] for target in node.targets}
    return names
