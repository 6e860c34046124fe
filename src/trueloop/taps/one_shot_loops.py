"""The running loop over batches, if its iterator can be used only once and was made before the loop around it.

Read from the user's frames and their source: `for x, y in batches:` where `batches` is a generator, and a loop around
it (in the same function or in a caller) that does not make a new one.
"""

import ast
import itertools
import operator
import sys
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from types import CodeType, FrameType, GeneratorType
from typing import Any, Final

from trueloop.event import Place
from trueloop.taps.place import full_name, is_users
from trueloop.taps.variables import variables_of
from trueloop.torch_private.dataloader import LoaderIterator
from trueloop.usercode.source import Source, called_name, source_of

__all__ = ["ONE_SHOT", "OneShotLoop", "counter_of", "is_inside", "running_loop"]

ONE_SHOT: Final[tuple[type, ...]] = (
    GeneratorType, map, zip, filter, enumerate, reversed, type(iter([])), type(iter(())), itertools.islice,
    itertools.chain, itertools.starmap, LoaderIterator,
)  # fmt: skip
"""Iterators that stay empty once they have ended. A class of the user may start again in `__iter__`."""
WRAPPERS: Final = frozenset({"enumerate", "tqdm", "iter", "track"})  # `for i, batch in enumerate(tqdm(batches)):`
RANGES: Final = frozenset({"tqdm", "list", "track"})
FRAMES: Final = 12  # of the user's code, from the inside
_ARITHMETIC: Final = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_LEAVING: Final = (ast.Return, ast.Continue, ast.Break)
_Loop = ast.For | ast.While


@dataclass(frozen=True, slots=True)
class OneShotLoop:
    place: Place  # of the loop over batches
    iterable: str  # as written there
    kind: str  # generator, zip ..
    inner: tuple[CodeType, int, int]  # the loop over batches: its function, first and last line
    outer: tuple[CodeType, int, int]  # the loop around it
    outer_place: Place
    counters: tuple[str, ...]  # variables that differ in each turn of the outer loop
    planned: int | None  # its turns, if they are known and nothing can leave it


@dataclass(slots=True)
class _Frame:
    code: CodeType
    line: int
    source: Source
    variables: Mapping[str, Any]
    globals: Mapping[str, Any]


def running_loop(depth: int = 1) -> OneShotLoop | None:
    """None also if the loop over batches may end early, or does not run in every turn of the loop around it."""
    inner: tuple[_Frame, ast.For, ast.expr, object] | None = None
    for frame in _frames(depth + 1):
        if inner is not None and not _runs_always(frame, frame.source.statement(frame.line)):
            return None
        for loop in _loops_around(frame):
            if inner is None:
                expression = _unwrapped(loop.iter) if isinstance(loop, ast.For) else None
                drawn = None if expression is None else _value(expression, frame)
                if isinstance(loop, ast.For) and expression is not None and isinstance(drawn, ONE_SHOT):
                    if _can_be_left(loop) or not _runs_always(frame, loop):
                        return None
                    inner = (frame, loop, expression, drawn)
                continue
            return _found(*inner, frame, loop)
    return None


def _found(
    inside: _Frame, loop: ast.For, expression: ast.expr, drawn: object, around: _Frame, outer: _Loop
) -> OneShotLoop | None:
    kept = (_is_kept(expression, outer, around) if around is inside
            else _is_reachable(expression, drawn, inside, outer, around))  # fmt: skip
    if not kept:
        return None
    if isinstance(outer, ast.For):
        counters = {node.id for node in ast.walk(outer.target) if isinstance(node, ast.Name)}
    else:
        counters = {node.target.id for node in ast.walk(outer)
                    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}  # fmt: skip
        counters -= {node.target.id for node in ast.walk(loop)
                     if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}  # fmt: skip
    return OneShotLoop(
        inside.source.place(loop, inside.code.co_qualname),
        inside.source.text(expression),
        "iterator of a DataLoader" if isinstance(drawn, LoaderIterator) else type(drawn).__name__,
        (inside.code, loop.lineno, loop.end_lineno or loop.lineno),
        (around.code, outer.lineno, outer.end_lineno or outer.lineno),
        around.source.place(outer, around.code.co_qualname),
        tuple(sorted(counters)),
        None if _can_be_left(outer) else _turns(outer, around),
    )


def counter_of(loop: OneShotLoop, depth: int = 1) -> tuple[Any, ...] | None:
    """The counters of the outer loop now; None outside of it."""
    for frame in _users_frames(depth + 1):
        code, first, last = loop.outer
        if frame.f_code is code and first < frame.f_lineno <= last:
            variables = variables_of(frame)
            values = [variables.get(name) for name in loop.counters]
            return tuple(value if isinstance(value, (int, float, str)) else id(value) for value in values)
    return None


def is_inside(loop: OneShotLoop, depth: int = 1) -> bool:
    """Is the loop over batches running?"""
    code, first, last = loop.inner
    return any(f.f_code is code and first < f.f_lineno <= last for f in _users_frames(depth + 1))


# -- frames --


def _users_frames(depth: int) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(depth + 1)
    left = FRAMES
    while frame is not None and left:
        if is_users(frame.f_code.co_filename):
            left -= 1
            yield frame
        frame = frame.f_back


def _frames(depth: int) -> list[_Frame]:
    return [
        _Frame(f.f_code, f.f_lineno, source_of(full_name(f.f_code.co_filename)), variables_of(f), f.f_globals)
        for f in _users_frames(depth + 1)
    ]


def _loops_around(frame: _Frame) -> Iterator[_Loop]:
    """The loops of this function whose bodies are running, innermost first."""
    statement = frame.source.statement(frame.line)
    if statement is None:
        return
    for parent in frame.source.parents(statement):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            return
        if isinstance(parent, (ast.For, ast.While)) and all(frame.line < each.lineno for each in parent.orelse):
            yield parent


def _runs_always(frame: _Frame, statement: ast.stmt | None) -> bool:
    """Does every turn of the loop around it, or every call of its function, reach this statement?"""
    if statement is None:
        return False
    for parent in frame.source.parents(statement):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.For, ast.While)):
            leaving = (ast.Return,) if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) else _LEAVING
            return not any(isinstance(node, leaving) and node.lineno < statement.lineno for node in ast.walk(parent))
        if isinstance(parent, (ast.If, ast.ExceptHandler, ast.Match, ast.Lambda)):
            return isinstance(parent, ast.If) and frame.source.text(parent.test) == '__name__ == "__main__"'
    return True


# -- is it the same iterator in every turn? --


def _is_kept(expression: ast.expr, outer: _Loop, frame: _Frame) -> bool:
    """Nothing in the loop assigns what the expression is made of."""
    root = _root(expression)
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    if root is None or names & (_stored_names(outer) | _declared(frame.source)):
        return False
    if isinstance(expression, ast.Attribute):
        return _attribute_stores(frame.source, expression.attr) <= 1 and not _stores(outer, expression)
    if root not in frame.variables and _name_stores(frame.source, root) > 1:  # a global of several lines
        return False
    return not _stores(outer, expression)


def _is_reachable(expression: ast.expr, drawn: object, inside: _Frame, outer: _Loop, around: _Frame) -> bool:
    """The same iterator, or the object that holds it, is a variable that the outer loop of a caller does not assign."""
    chains = (node for node in ast.walk(outer) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)))
    for node in chains:
        if isinstance(node.ctx, ast.Load) and _value(node, around) is drawn:
            return _is_kept(node, outer, around)
    root = _root(expression)
    if isinstance(expression, ast.Name):
        is_global = root not in inside.variables and _name_stores(inside.source, expression.id) == 1
        return is_global and root not in _stored_names(outer)
    if root is None or _stores_more_than_once(inside.source, expression):
        return False
    holder = _value(ast.Name(root, ast.Load()), inside)
    names = [node.id for node in ast.walk(outer) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    holding = [name for name in names if _value(ast.Name(name, ast.Load()), around) is holder]
    return bool(holding) and not set(holding) & (_stored_names(outer) | _declared(around.source))


def _stores_more_than_once(source: Source, expression: ast.expr) -> bool:
    return not isinstance(expression, ast.Attribute) or _attribute_stores(source, expression.attr) > 1


def _root(expression: ast.expr) -> str | None:
    while isinstance(expression, (ast.Attribute, ast.Subscript)):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else None


def _stored_names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node)
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}  # fmt: skip


def _stores(node: ast.AST, expression: ast.expr) -> bool:
    """An assignment to this attribute or item, or to another of the same name."""
    written = [each for each in ast.walk(node)
               if isinstance(each, (ast.Attribute, ast.Subscript)) and not isinstance(each.ctx, ast.Load)]  # fmt: skip
    return any(_root(each) == _root(expression) for each in written)


def _declared(source: Source) -> set[str]:
    """Names that some function changes from afar."""
    return {name for node in ast.walk(source.tree) if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names}  # fmt: skip


def _name_stores(source: Source, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
               for node in ast.walk(source.tree))  # fmt: skip


def _attribute_stores(source: Source, name: str) -> int:
    return sum(isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load)
               for node in ast.walk(source.tree))  # fmt: skip


# -- values, without running any code of the user's --


def _unwrapped(expression: ast.expr) -> ast.expr | None:
    while isinstance(expression, ast.Call):
        if called_name(expression) not in WRAPPERS or not expression.args:
            return None
        expression = expression.args[0]
    return expression if isinstance(expression, (ast.Name, ast.Attribute, ast.Subscript)) else None


def _value(expression: ast.expr, frame: _Frame) -> Any:
    """Of a name, an attribute in an instance's own dictionary, an item of a plain dict or list; else None."""
    if isinstance(expression, ast.Name):
        return frame.variables.get(expression.id, frame.globals.get(expression.id))
    if isinstance(expression, ast.Attribute):
        holder = _value(expression.value, frame)
        own = getattr(type(holder), "__dictoffset__", 0) and object.__getattribute__(holder, "__dict__")
        return own.get(expression.attr) if isinstance(own, dict) else None
    if isinstance(expression, ast.Subscript):
        holder, key = _value(expression.value, frame), _value(expression.slice, frame)
        if type(holder) in (dict, list) and isinstance(key, (str, int)):
            known = key in holder if isinstance(holder, dict) else -len(holder) <= int(key) < len(holder)
            return holder[key] if known else None
    if isinstance(expression, ast.Constant):
        return expression.value
    return None


def _number(expression: ast.expr, frame: _Frame) -> int | None:
    if isinstance(expression, ast.BinOp) and type(expression.op) in _ARITHMETIC:
        left, right = _number(expression.left, frame), _number(expression.right, frame)
        known = left is not None and right is not None
        return int(_ARITHMETIC[type(expression.op)](left, right)) if known else None
    value = _value(expression, frame)
    return value if type(value) is int else None


def _turns(outer: _Loop, frame: _Frame) -> int | None:
    if isinstance(outer, ast.While):
        return None
    iterable: ast.expr = outer.iter
    while isinstance(iterable, ast.Call) and called_name(iterable) in RANGES and iterable.args:
        iterable = iterable.args[0]
    if isinstance(iterable, ast.Call):
        numbers = [_number(each, frame) for each in iterable.args]
        whole = [number for number in numbers if number is not None]
        named = called_name(iterable) in ("range", "trange") and not (set(numbers) & {None}) and 1 <= len(whole) <= 3
        return len(range(*whole)) if named and whole[2:3] != [0] else None
    value = _value(iterable, frame)
    return len(value) if isinstance(value, Sized) and isinstance(value, (range, list, tuple)) else None


def _can_be_left(loop: _Loop) -> bool:
    """By break, return or yield, before its iterator has ended."""

    def leaves(node: ast.AST, nested: bool) -> bool:
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) or (isinstance(node, ast.Break) and not nested):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            return False
        inner = nested or isinstance(node, (ast.For, ast.While))
        return any(leaves(child, inner) for child in ast.iter_child_nodes(node))

    return any(leaves(statement, False) for statement in loop.body)
