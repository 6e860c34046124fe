"""The scene of a crash: the exception, the calls it passed through, and what each of them still holds.

Python keeps for every call the exact expression that was being evaluated, so that `self.fc1(x)` can be told from the
`F.relu(…)` around it. Values are only looked up, never computed: nothing of the user's runs again. A scene holds live
objects and is dropped as soon as the explanation has been written.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final

from torch import Tensor, nn

from trueloop.event import Place
from trueloop.taps.place import is_users
from trueloop.torch_private.modules import CALL_FRAMES, MEMBERS
from trueloop.usercode.source import Source, source_of

__all__ = ["MISSING", "Layer", "Scene", "Step"]

MISSING: Final = object()
"""The value of an expression that cannot be known without running it."""

_VIEWS: Final = frozenset({"T", "mT"})
"""Attributes of tensors that only look at them from another side."""


class Step:
    """One call that the exception passed through."""

    def __init__(self, traceback: TracebackType) -> None:
        self.frame: FrameType = traceback.tb_frame
        self.line: int = traceback.tb_lineno
        self._instruction = traceback.tb_lasti
        code = self.frame.f_code
        self.function = code.co_name
        self.is_users = is_users(code.co_filename)
        self.place = Place(os.path.abspath(code.co_filename), self.line, code.co_qualname)

    @cached_property
    def locals(self) -> Mapping[str, Any]:
        return self.frame.f_locals

    @cached_property
    def owner(self) -> nn.Module | None:
        """The module whose method this is."""
        owner = self.locals.get("self")
        return owner if isinstance(owner, nn.Module) else None

    @cached_property
    def source(self) -> Source:
        return source_of(self.place.path)

    @cached_property
    def statement(self) -> ast.stmt | None:
        return self.source.statement(self.line)

    @cached_property
    def node(self) -> ast.AST | None:
        """The expression that was being evaluated; the statement where Python did not keep it."""
        spans = islice(self.frame.f_code.co_positions(), self._instruction // 2, None)
        first, last, start, end = next(spans, (None, None, None, None))
        if first is None or last is None or start is None or end is None or self.statement is None:
            return self.statement
        within = [node for node in ast.walk(self.statement) if _covers(node, (first, start), (last, end))]
        return min(
            reversed(within), key=_extent, default=self.statement
        )  # of equal ones the innermost, which ast.walk gives last

    def text(self, node: ast.AST) -> str:
        """As written, on one line."""
        return " ".join(self.source.text(node).split())

    def value(self, node: ast.AST | None) -> Any:
        """What an expression stands for, if that can be looked up; MISSING otherwise."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                for scope in (self.locals, self.frame.f_globals, vars(builtins)):
                    if name in scope:
                        return scope[name]
            case ast.Attribute(value=base, attr=name):
                return _attribute(self.value(base), name)
            case ast.Subscript(value=base, slice=index):
                return _element(self.value(base), self.value(index))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return -number
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = [self.value(part) for part in parts]
                return MISSING if any(value is MISSING for value in values) else values
        return MISSING


def _covers(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> bool:
    if not isinstance(node, (ast.expr, ast.stmt)):
        return False
    return (node.lineno, node.col_offset) <= start and end <= (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _extent(node: ast.AST) -> tuple[int, int]:
    assert isinstance(node, (ast.expr, ast.stmt))
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset


def _attribute(base: Any, name: str) -> Any:
    """Without running a property or a `__getattr__` of the user's."""
    if isinstance(base, ModuleType):
        return vars(base).get(name, MISSING)
    if isinstance(base, nn.Module):
        for shelf in MEMBERS:
            held = vars(base).get(shelf, {})
            if name in held:
                return held[name]
    if isinstance(base, Tensor) and name in _VIEWS and base.ndim == 2:
        return base.detach().T
    try:
        return vars(base).get(name, MISSING)
    except TypeError:  # no __dict__: a number, a slotted object
        return MISSING


def _element(base: Any, index: Any) -> Any:
    if type(base) in (list, tuple, dict) and isinstance(index, (int, str)):
        try:
            return base[index]
        except (LookupError, TypeError):
            return MISSING
    return MISSING


@dataclass(frozen=True, slots=True)
class Layer:
    """The layer of torch's that the exception came out of."""

    module: nn.Module
    name: str
    """Its path in the model: `features.3`."""
    given: Any
    """What it was called with."""
    before: str
    """The layer whose output that is, inside an nn.Sequential: `features.2 (ReLU)`."""
    direct: bool
    """The user's own line handed it over, perhaps through the first place of an nn.Sequential."""
    model: nn.Module


class Scene:
    """A crash, from the user's outermost call to where it was raised."""

    def __init__(self, error: BaseException, steps: tuple[Step, ...], grad_enabled: bool) -> None:
        self.error = error
        self.grad_enabled = grad_enabled
        """Was recording of gradients still on when the exception had left every block of the script?"""
        self.message = str(error)
        self.steps = steps
        self._at = max(index for index, step in enumerate(steps) if step.is_users)

    @classmethod
    def of(cls, error: BaseException, grad_enabled: bool = True) -> Scene | None:
        """None if no line of the user's had a part in it, or if the user's own code raised it: those are the user's
        words."""
        steps = tuple(_steps(error.__traceback__))
        if not any(step.is_users for step in steps):
            return None
        last = steps[-1]
        return (
            None
            if last.is_users and isinstance(last.node, (ast.Raise, ast.Assert))
            else cls(error, steps, grad_enabled)
        )

    @property
    def crash(self) -> Step:
        """The innermost call in the user's own code."""
        return self.steps[self._at]

    @property
    def place(self) -> Place:
        return self.crash.place

    @property
    def users(self) -> list[Step]:
        """Calls in the user's own code, from the crash outwards."""
        return [step for step in reversed(self.steps) if step.is_users]

    @property
    def beyond(self) -> tuple[Step, ...]:
        """Calls between the user's line and where it was raised."""
        return self.steps[self._at + 1 :]

    def library_local(self, functions: tuple[str, ...], name: str) -> Any:
        """A variable of the innermost of these functions of torch's that the exception passed through."""
        found = (
            step.locals[name] for step in reversed(self.beyond) if step.function in functions and name in step.locals
        )
        return next(found, MISSING)

    def argument(self, index: int = 0) -> ast.expr | None:
        """What the user's line handed to the call that failed."""
        call = self.crash.node
        if (
            not isinstance(call, ast.Call)
            or len(call.args) <= index
            or any(isinstance(a, ast.Starred) for a in call.args)
        ):
            return None
        return call.args[index]

    def operands(self) -> list[tuple[ast.expr, Any]]:
        """The tensors that the failing expression combines, as written, each with its value (MISSING if no variable
        holds it)."""
        match self.crash.node:
            case (
                ast.BinOp(left=left, right=right)
                | ast.AugAssign(target=left, value=right)
                | ast.Compare(left=left, comparators=[right])
            ):
                nodes = [left, right]
            case ast.Subscript(value=base, slice=index):
                nodes = [base, index]
            case ast.Call(func=function, args=arguments, keywords=keywords):
                nodes = [*arguments, *(keyword.value for keyword in keywords)]
                if isinstance(function, ast.Attribute) and not isinstance(
                    self.crash.value(function.value), (ModuleType, nn.Module)
                ):
                    nodes.insert(0, function.value)
            case _:
                return []
        flat = [part for node in nodes for part in (node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node])]
        found = [(node, self.crash.value(node)) for node in flat if not isinstance(node, ast.Constant)]
        return [(node, value) for node, value in found if value is MISSING or isinstance(value, Tensor)]

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Models that the user's calls hold, each once, with the name of the variable."""
        seen: set[int] = set()
        for step in self.users:
            for name, value in list(step.locals.items()):
                if isinstance(value, nn.Module) and id(value) not in seen:
                    seen.add(id(value))
                    yield name, value

    @cached_property
    def layer(self) -> Layer | None:
        inside = [step for step in self.beyond if step.owner is not None and step.function not in CALL_FRAMES]
        if not inside:
            return None
        module = inside[-1].owner
        entry = next(step for step in inside if step.owner is module)
        model = next(step.owner for step in self.steps if step.owner is not None)
        assert module is not None
        assert model is not None
        names = entry.frame.f_code.co_varnames[: entry.frame.f_code.co_argcount]
        given = entry.locals.get(names[1], MISSING) if len(names) > 1 else MISSING
        before, direct = self._before(module, model)
        return Layer(module, self._name(module, model), given, before, direct, model)

    def _name(self, module: nn.Module, model: nn.Module) -> str:
        path = next((path for path, inner in model.named_modules() if inner is module), "")
        if path and not path[0].isdigit():
            return path
        if not path and module is not model:  # in no attribute of the model: known only by the line that called it
            called = self.crash.node.func if isinstance(self.crash.node, ast.Call) else None
            return self.crash.text(called) if called is not None else type(module).__name__
        outer = next((step for step in self.users if any(inner.owner is model for inner in self._after(step))), None)
        variable = outer.text(outer.node.func) if outer is not None and isinstance(outer.node, ast.Call) else ""
        return ".".join(part for part in (variable, path) if part) or type(module).__name__

    def _after(self, step: Step) -> tuple[Step, ...]:
        return self.steps[self.steps.index(step) + 1 :]

    def _before(self, inner: nn.Module, model: nn.Module) -> tuple[str, bool]:
        """The layer whose output reached `inner`, if an nn.Sequential passed it on; else, whether the user's line
        did."""
        for step in reversed(self.beyond):
            container = step.owner
            if container is None or container is inner or step.function in CALL_FRAMES:
                continue
            if not isinstance(container, nn.Sequential) or step.locals.get("module") is not inner:
                return "", False
            children = list(container)
            position = next((index for index, child in enumerate(children) if child is inner), 0)
            if position:
                previous = children[position - 1]
                return f"{self._name(previous, model)} ({type(previous).__name__})", False
            inner = container
        return "", True


def _steps(traceback: TracebackType | None) -> Iterator[Step]:
    while traceback is not None:
        yield Step(traceback)
        traceback = traceback.tb_next
