"""The scene of a crash: the exception, the frames it passed through, and their local variables.

Python records the exact expression that each frame was evaluating, so `self.fc1(x)` is distinguished from the
`F.relu(…)` around it. Values are only looked up, never computed: no user code runs again. A scene holds live objects
and is dropped when the explanation has been written.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final, NamedTuple

from torch import Tensor, nn

from trueloop.event import Place
from trueloop.results.check import CrashExplanation
from trueloop.taps.place import full_name, is_users
from trueloop.torch_private.modules import CALL_FRAMES, MEMBERS
from trueloop.usercode.source import Source, source_of

__all__ = ["MISSING", "Layer", "Scene", "Step"]

MISSING: Final = object()  # The value of an expression that cannot be looked up without running code

_VIEWS: Final = frozenset({"T", "mT"})  # Attributes of tensors that return a transposed view


class Step:
    """One frame that the exception passed through."""

    def __init__(self, traceback: TracebackType) -> None:
        self.frame: FrameType = traceback.tb_frame
        self.line: int = traceback.tb_lineno
        self._instruction = traceback.tb_lasti
        code = self.frame.f_code
        self.function = code.co_name
        self.is_users = is_users(code.co_filename)
        self.place = Place(full_name(code.co_filename), self.line, code.co_qualname)

    @cached_property
    def locals(self) -> Mapping[str, Any]:
        return self.frame.f_locals

    @cached_property
    def owner(self) -> nn.Module | None:
        """The module whose method is running."""
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
        """The expression that was being evaluated; the whole statement if Python did not record it."""
        spans = islice(self.frame.f_code.co_positions(), self._instruction // 2, None)
        first, last, start, end = next(spans, (None, None, None, None))
        if first is None or last is None or start is None or end is None or self.statement is None:
            return self.statement
        within = [node for node in ast.walk(self.statement) if _covers(node, (first, start), (last, end))]
        # ast.walk yields the innermost node last: of nodes with equal extent, take that one.
        return min(reversed(within), key=_extent, default=self.statement)

    def text(self, node: ast.AST) -> str:
        """The source of a node, on one line."""
        return " ".join(self.source.text(node).split())

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression, if it can be looked up; MISSING otherwise."""
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
    """Runs no property and no `__getattr__` of the user's."""
    if isinstance(base, ModuleType):
        return vars(base).get(name, MISSING)
    if isinstance(base, nn.Module):
        for members in MEMBERS:
            held = vars(base).get(members, {})
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


class Layer(NamedTuple):
    """The torch layer that raised the exception."""

    module: nn.Module
    name: str  # Its path in the model: `features.3`
    given: Any  # Its first argument
    before: str  # The preceding layer of an nn.Sequential, whose output it is: `features.2 (ReLU)`
    direct: bool  # The user's line passed the argument, perhaps through an nn.Sequential that begins with this layer
    model: nn.Module

    @property
    def title(self) -> str:
        """`fc1` (Linear)."""
        return f"`{self.name}` ({type(self.module).__name__})"


class Scene:
    """A crash, from the user's outermost frame to the one that raised."""

    def __init__(self, error: BaseException, steps: tuple[Step, ...], grad_enabled: bool) -> None:
        self.error = error
        self.grad_enabled = grad_enabled  # Was gradient recording still on when the exception had left every block?
        self.message = str(error)
        self.steps = steps
        self._at = max(index for index, step in enumerate(steps) if step.is_users)

    @classmethod
    def of(cls, error: BaseException, grad_enabled: bool = True) -> Scene | None:
        """None if no line of the user's is involved, or if the user's own code raised it deliberately."""
        steps = tuple(_steps(error.__traceback__))
        if not any(step.is_users for step in steps):
            return None
        deliberate = steps[-1].is_users and isinstance(steps[-1].node, (ast.Raise, ast.Assert))
        return None if deliberate else cls(error, steps, grad_enabled)

    def explanation(
        self, message: str, details: tuple[str, ...], fix: str, place: Place | None = None, diff: str = ""
    ) -> CrashExplanation:
        """Without a kind, which `explain` fills in. The default place is the user's line that crashed."""
        return CrashExplanation("", message, details, fix, place or self.place, diff)

    @property
    def crash(self) -> Step:
        """The innermost frame in the user's code."""
        return self.steps[self._at]

    @property
    def place(self) -> Place:
        return self.crash.place

    @property
    def users(self) -> list[Step]:
        """Frames in the user's code, innermost first."""
        return [step for step in reversed(self.steps) if step.is_users]

    @property
    def beyond(self) -> tuple[Step, ...]:
        """Library frames between the user's line and the one that raised."""
        return self.steps[self._at + 1 :]

    def library_local(self, functions: tuple[str, ...], name: str) -> Any:
        """A local variable of the innermost frame of one of these library functions."""
        frames = (step.locals for step in reversed(self.beyond) if step.function in functions and name in step.locals)
        return next((variables[name] for variables in frames), MISSING)

    def argument(self, index: int = 0) -> ast.expr | None:
        """A positional argument of the call that failed, as the user wrote it."""
        arguments = self.crash.node.args if isinstance(self.crash.node, ast.Call) else []
        starred = any(isinstance(argument, ast.Starred) for argument in arguments)
        return arguments[index] if index < len(arguments) and not starred else None

    def named(self, argument: ast.AST | None, fallback: str) -> str:
        """An argument as the user wrote it, in backticks."""
        return f"`{self.crash.text(argument)}`" if argument is not None else fallback

    @property
    def receiver(self) -> ast.expr | None:
        """`loss` in `loss.backward()`."""
        call = self.crash.node
        return call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None

    @property
    def backward_root(self) -> Tensor | None:
        """The tensor that the failing backward started from."""
        root = self.library_local(("backward",), "self")
        if root is MISSING:
            roots = self.library_local(("backward", "grad"), "tensors")
            root = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
        return root if isinstance(root, Tensor) else None

    def tensors(self) -> list[tuple[ast.expr, Tensor]]:
        """Those operands whose value is known to be a tensor."""
        return [(node, value) for node, value in self.operands() if isinstance(value, Tensor)]

    def operands(self) -> list[tuple[ast.expr, Any]]:
        """The tensors that the failing expression combines, each with its value; MISSING if no variable holds it."""
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
                owner = function.value if isinstance(function, ast.Attribute) else None
                if owner is not None and not isinstance(self.crash.value(owner), (ModuleType, nn.Module)):
                    nodes.insert(0, owner)
            case _:
                return []
        flat = [part for node in nodes for part in (node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node])]
        found = [(node, self.crash.value(node)) for node in flat if not isinstance(node, ast.Constant)]
        return [(node, value) for node, value in found if value is MISSING or isinstance(value, Tensor)]

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The modules in the user's local variables, each once, with the variable's name."""
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
        if not path and module is not model:  # not an attribute of the model: name it as the calling line does
            called = self.crash.node.func if isinstance(self.crash.node, ast.Call) else None
            return self.crash.text(called) if called is not None else type(module).__name__
        outer = next((step for step in self.users if any(inner.owner is model for inner in self._after(step))), None)
        variable = outer.text(outer.node.func) if outer is not None and isinstance(outer.node, ast.Call) else ""
        return ".".join(part for part in (variable, path) if part) or type(module).__name__

    def _after(self, step: Step) -> tuple[Step, ...]:
        return self.steps[self.steps.index(step) + 1 :]

    def _before(self, inner: nn.Module, model: nn.Module) -> tuple[str, bool]:
        """The preceding layer, if an nn.Sequential passed its output to `inner`; else, whether the user's line did."""
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
