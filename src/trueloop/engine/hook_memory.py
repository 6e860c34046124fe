"""Attributes that a hook changes while the run goes, and that no checkpoint holds: a resumed run begins without them.

Read from the source of its class: what `__init__` and `begin` set is set again on resume.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Final

from trueloop.hook import Hook

__all__ = ["unsaved_attributes"]

SET_AGAIN: Final = ("__init__", "__post_init__", "begin", "state_dict", "load_state_dict")
CHANGES: Final = frozenset(
    ("append", "add", "extend", "update", "insert", "pop", "popleft", "appendleft", "clear", "remove", "setdefault")
)


def unsaved_attributes(hook: Hook) -> list[str]:
    """Empty for a hook with `state_dict`, for trueloop's own, and for one whose source cannot be read."""
    kind = type(hook)
    own = [each for each in kind.__mro__ if not each.__module__.startswith("trueloop.") and issubclass(each, Hook)]
    if kind.state_dict is not Hook.state_dict:
        return []
    return sorted({name for each in own for name in _changed_in(each)})


def _changed_in(kind: type) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return
    for method in tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and method.name not in SET_AGAIN and method.args.args:
            me = method.args.args[0].arg
            for node in ast.walk(method):
                yield from _changed_by(node, me)


def _changed_by(node: ast.AST, me: str) -> Iterator[str]:
    """`self.x = ...`, `self.x += ...`, `self.x[0] = ...` and `self.x.append(...)`."""
    if isinstance(node, ast.Call):
        changes = isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES
        target: ast.AST | None = node.func.value if changes and isinstance(node.func, ast.Attribute) else None
    elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        target = node
    else:
        return
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == me:
        yield target.attr
