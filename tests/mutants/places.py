"""Where our own code can be changed by one operator or one constant, and the text with that change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Mutant", "mutants_of"]

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    path: Path
    line: int
    before: str
    after: str
    text: str
    """The whole file, with the change."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file: one changed expression each, in the file's own layout."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    skipped = set(_without_effect(tree))
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.expr):
            for after in _changes(node):
                yield Mutant(path, node.lineno, ast.unparse(node), after, _replace(text, node, f"({after})"))


def _changes(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _COMPARISONS:
            yield ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]()], comparators))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC and not _is_text(left, right):
            yield ast.unparse(ast.BinOp(left, _ARITHMETIC[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            yield ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() | float() as value):
            yield repr(value + 1)


def _is_text(*operands: ast.expr) -> bool:
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in operands)


def _without_effect(tree: ast.Module) -> Iterator[int]:
    """Annotations, `__all__`, decorators' keywords, assertions, formats of numbers: a change there is no change of behaviour."""  # noqa: E501
    for node in ast.walk(tree):
        hidden: list[ast.AST | None] = []
        match node:
            case ast.AnnAssign():
                hidden = [node.annotation]
            case ast.arg():
                hidden = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                hidden = [node.returns, *node.decorator_list]
            case ast.ClassDef():
                hidden = [*node.decorator_list, *node.bases]
            case ast.Assert() | ast.FormattedValue() | ast.Import() | ast.ImportFrom():
                hidden = [node]
            case ast.Assign(targets=[ast.Name(id=name)]) if name == "__all__" or (
                name[0].isupper() and not name.isupper()
            ):
                hidden = [node]
            case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
                hidden = [node]
            case ast.Call(func=func) if ast.unparse(func) in ("cast", "TypeVar", "print"):
                hidden = [node]
        for each in hidden:
            if each is not None:
                yield from (id(inner) for inner in ast.walk(each))


def _replace(text: str, node: ast.expr, new: str) -> str:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = lines[node.lineno - 1].encode(), lines[node.end_lineno - 1].encode()
    joined = first[: node.col_offset] + new.encode() + last[node.end_col_offset :]
    return "".join([*lines[: node.lineno - 1], joined.decode(), *lines[node.end_lineno :]])
