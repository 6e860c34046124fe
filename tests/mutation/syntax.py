"""Finding places in a syntax tree, and making a changed copy of the tree for each of them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Site", "calls_method", "copies", "is_call_of", "statement"]


@dataclass(frozen=True)
class Site:
    """One node of a copy of the tree, with what stands around it."""

    tree: ast.Module
    node: ast.AST
    above: dict[int, ast.AST]
    """The parent of each node, by the node's identity."""

    def parents(self) -> Iterator[ast.AST]:
        """Innermost first."""
        node = self.node
        while (parent := self.above.get(id(node))) is not None:
            yield parent
            node = parent

    def block(self) -> tuple[list[ast.stmt], int]:
        """The list of statements that holds the statement of this node, and its index there."""
        inner = self.node
        while not isinstance(inner, ast.stmt):
            inner = self.above[id(inner)]
        parent = self.above[id(inner)]
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(parent, name, [])
            if isinstance(statements, list) and inner in statements:
                return statements, statements.index(inner)
        raise LookupError(ast.unparse(inner))

    def loops(self) -> list[ast.For]:
        """The loops around the node, innermost first."""
        return [parent for parent in self.parents() if isinstance(parent, ast.For)]

    def remove(self) -> None:
        statements, index = self.block()
        statements[index : index + 1] = [] if len(statements) > 1 else [ast.Pass()]

    def replace(self, other: ast.expr) -> None:
        """Put another expression where this one is."""
        parent = self.above[id(self.node)]
        for name, value in ast.iter_fields(parent):
            if value is self.node:
                setattr(parent, name, other)
            elif isinstance(value, list) and self.node in value:
                value[value.index(self.node)] = other


def copies(
    tree: ast.Module, wanted: Callable[[ast.AST], bool], change: Callable[[Site], bool | None]
) -> Iterator[ast.Module]:
    """A changed copy of the tree for each node that is wanted, unless the change says False: it did not apply."""
    for index, node in enumerate(ast.walk(tree)):
        if not wanted(node):
            continue
        mutant = copy.deepcopy(tree)
        nodes = list(ast.walk(mutant))
        above = {id(child): parent for parent in nodes for child in ast.iter_child_nodes(parent)}
        if change(Site(mutant, nodes[index], above)) is not False:
            yield ast.fix_missing_locations(mutant)


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def calls_method(node: ast.AST, method: str, on: str = "") -> bool:
    """A statement that is nothing but `something.method(...)`, where something's text holds the word `on`."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == method
        and on in ast.unparse(node.value.func.value)
    )


def is_call_of(node: ast.AST, *names: str) -> bool:
    """A call of a function or class with one of these last names: `nn.ModuleList(...)`, `F.dropout(...)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in names
