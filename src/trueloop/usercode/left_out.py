"""Whether a script takes all columns of a file, and whether it names a column in order to leave it out."""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from trueloop.usercode.source import source_of

__all__ = ["leaves_out", "takes_all_columns", "takes_the_rest"]

_TAKES_ALL: Final = re.compile(r"\b(DictReader|read_csv|read_parquet|read_sql|read_table)\b")
_TAKES_ALL_BUT_ENDS: Final = re.compile(r"\b(loadtxt|genfromtxt)\b")
_TAKES_THE_REST: Final = re.compile(
    r"for (\w+) in (?:\w+\.)?(?:header|head|columns|names|fieldnames)\b[^\]\n]*\bif \1 (?:not in|!=)"
)
_PICKS: Final = re.compile(r"\b(usecols|iloc|select_dtypes)\b|\b(filter|delete)\(")
_PICKS_BY_PLACE: Final = re.compile(r"\[\s*:\s*,(?!\s*(:\s*-1|-1|1:|0)\s*\])")
"""Columns of an array, but for the first or the last one, which is the target."""


def takes_all_columns(text: str) -> bool:
    """Whether a script reads tables and picks no columns, by the words in it."""
    by_place = _TAKES_ALL_BUT_ENDS.search(text) is not None and _PICKS_BY_PLACE.search(text) is None
    return (by_place or _TAKES_ALL.search(text) is not None) and _PICKS.search(text) is None


def takes_the_rest(text: str) -> bool:
    """Whether a script takes all columns of a header but for some that it names."""
    return _TAKES_THE_REST.search(text) is not None and _PICKS.search(text) is None


def leaves_out(column: str, paths: Iterable[str]) -> bool:
    return any(_leaves_out(source_of(path).tree, column) for path in paths)


def _leaves_out(tree: ast.Module, column: str) -> bool:
    """`name != "code"`, `name not in ("id", "code")`, `if name in SKIPPED: continue`, `names - {"code"}`,
    `table.drop(columns=["code"])`, `row.pop("code")`, `del row["code"]`; also where the names are in a variable.

    What a `drop` or `pop` takes away counts as this column if its arguments say no names."""
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
            if node.func.attr in ("drop", "pop") and _takes_away(node, column, holders, _holders(tree, None)):
                return True
        elif isinstance(node, ast.Delete):
            keys = [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
            if any(_names(key, column, holders) or not _literals(key) for key in keys):
                return True
    return False


def _takes_away(call: ast.Call, column: str, holders: set[str], known: Iterable[str]) -> bool:
    """`self.drop(x)` is a layer, `stack.pop()` and `stack.pop(0)` have no names."""
    assert isinstance(call.func, ast.Attribute)
    if isinstance(call.func.value, ast.Name) and call.func.value.id == "self":
        return False
    given = [*call.args, *(each.value for each in call.keywords if each.arg in ("columns", "labels"))]
    if call.func.attr == "pop":
        given = given[:1]
    if any(_names(argument, column, holders) for argument in given):
        return True
    names = set(known)
    return any(not _literals(each) and not (isinstance(each, ast.Name) and each.id in names) for each in given)


def _literals(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [node]
    return all(isinstance(part, (ast.Constant, ast.UnaryOp)) for part in parts)


def _holders(tree: ast.Module, column: str | None) -> Iterator[str]:
    """Variables that a literal with this name is assigned to; without a name: with any."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            words = [inner.value for inner in ast.walk(node.value) if isinstance(inner, ast.Constant)]
            if column in words or (column is None and any(isinstance(word, str) for word in words)):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _names(node: ast.expr, column: str, holders: set[str]) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and inner.value == column:
            return True
        if isinstance(inner, ast.Name) and inner.id in holders:
            return True
    return False
