"""Whether a script names a column in order to leave it out."""

import ast
from collections.abc import Iterable, Iterator

from trueloop.usercode.source import source_of

__all__ = ["leaves_out"]


def leaves_out(column: str, paths: Iterable[str]) -> bool:
    return any(_leaves_out(source_of(path).tree, column) for path in paths)


def _leaves_out(tree: ast.Module, column: str) -> bool:
    """`name != "code"`, `name not in ("id", "code")`, `if name in SKIPPED: continue`, `names - {"code"}`; also where
    the names are in a variable."""
    holders = {"", *_holders(tree, column)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            excludes = any(isinstance(op, (ast.NotIn, ast.NotEq, ast.Eq)) for op in node.ops)
            if excludes and any(_names(side, column, holders) for side in (node.left, *node.comparators)):
                return True
        elif isinstance(node, ast.If) and any(isinstance(inner, ast.Continue) for inner in node.body):
            if _names(node.test, column, holders):
                return True
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Sub):
            if _names(node.right if isinstance(node, ast.BinOp) else node.value, column, holders):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            removes = node.func.attr in ("difference", "remove", "discard", "difference_update")
            if removes and any(_names(argument, column, holders) for argument in node.args):
                return True
    return False


def _holders(tree: ast.Module, column: str) -> Iterator[str]:
    """Variables that a literal with this name is assigned to."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(inner, ast.Constant) and inner.value == column for inner in ast.walk(node.value)):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _names(node: ast.expr, column: str, holders: set[str]) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and inner.value == column:
            return True
        if isinstance(inner, ast.Name) and inner.id in holders:
            return True
    return False
