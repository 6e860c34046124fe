"""Backward went through a part of the graph whose saved values an earlier backward had already freed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import bound_in, head
from trueloop.crash.scene import MISSING, Scene, Step
from trueloop.event import Place
from trueloop.measure.graph import nodes
from trueloop.taps.place import is_users
from trueloop.usercode.source import is_self_attribute, source_of

__all__ = ["explain"]

_SIGN: Final = "Trying to backward through the graph a second time"
"""How torch says it."""


def explain(scene: Scene) -> Explanation | None:
    if _SIGN not in scene.message:
        return None
    root = scene.library_local(("backward",), "self")
    if root is MISSING:
        roots = scene.library_local(("backward", "grad"), "tensors")
        root = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
    if not isinstance(root, Tensor) or root.grad_fn is None:
        return None
    graph = set(nodes(root.grad_fn))
    name = _receiver(scene)
    for tell in (_carried, _module_state, _outside, _shared, _same):
        found = tell(scene, root, graph, name)
        if found is not None:
            details, fix, place = found
            message = f"{name}.backward() at {spot(scene.place)} goes through values that an earlier backward has already used up and freed."
            return Explanation("backward-twice", message, details, fix, place)
    return Explanation(
        "backward-twice",
        f"{name}.backward() at {spot(scene.place)} goes through values that an earlier backward has already used up and freed.",
        (),
        "Compute the forward again before each backward, or cut off what comes from an earlier step with .detach().",
        scene.place,
    )


_Told: TypeAlias = tuple[tuple[str, ...], str, Place]


def _receiver(scene: Scene) -> str:
    call = scene.crash.node
    return (
        scene.crash.text(call.func.value)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        else "This"
    )


def _shares(value: Any, graph: set[Any]) -> bool:
    """Was a tensor, or one in a tuple or list of them, computed by operations that belong to the graph?"""
    if isinstance(value, (tuple, list)):
        return any(_shares(part, graph) for part in value[:8])
    return isinstance(value, Tensor) and value.grad_fn is not None and not graph.isdisjoint(_inner(value))


def _computed(scene: Scene, graph: set[Any]) -> Iterator[tuple[Step, str, Any]]:
    for step in scene.users:
        for name, value in list(step.locals.items()):
            if _shares(value, graph):
                yield step, name, value


def _detached(name: str, value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{name} = {name}.detach()"
    return f"{name} = {'tuple' if isinstance(value, tuple) else 'list'}(part.detach() for part in {name})"


def _module_state(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Told | None:
    """A module that keeps its state in an attribute, with the graph of the step before."""
    for variable, model in scene.modules():
        for path, module in model.named_modules():
            for attribute, value in vars(module).items():
                if _shares(value, graph) and _is_carried(type(module), attribute):
                    where = ".".join(part for part in (variable, path, attribute) if part)
                    detail = f"`{where}` keeps the state of the step before with its graph, so this backward runs on into that step."
                    return (detail,), f"Cut it off when it is kept: self.{attribute} = state.detach().", scene.place
    return None


def _is_carried(cls: type[nn.Module], attribute: str) -> bool:
    """Does a method of the user's read self.attribute before it sets it?"""
    code: Any = getattr(cls.forward, "__code__", None)
    tree = (
        source_of(code.co_filename).class_named(cls.__name__)
        if code is not None and is_users(code.co_filename)
        else None
    )
    for method in tree.body if tree is not None else ():
        uses = [
            node for node in ast.walk(method) if is_self_attribute(node, attribute) and isinstance(node, ast.Attribute)
        ]
        read = [node.lineno for node in uses if isinstance(node.ctx, ast.Load)]
        kept = [node.lineno for node in uses if isinstance(node.ctx, ast.Store)]
        if (
            isinstance(method, ast.FunctionDef)
            and method.name != "__init__"
            and read
            and kept
            and min(read) <= min(kept)
        ):
            return True
    return False


def _carried(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Told | None:
    """A variable that is set before the loop and again inside it, from its own old value."""
    for step, variable, value in _computed(scene, graph):
        loop = step.source.enclosing_loop(step.line)
        if loop is None:
            continue
        inside = [statement for statement in _assignments(loop, variable) if _reads(statement, variable)]
        first_read = min(
            (n.lineno for n in ast.walk(loop) if isinstance(n, ast.Name) and _is_read(n, variable)), default=0
        )
        first_set = min((s.lineno for s in _assignments(loop, variable)), default=0)
        if not inside or first_read > first_set:
            continue
        place = step.source.place(inside[0])
        detail = (
            f"`{variable}` is carried from one round of the loop at {spot(step.source.place(loop))} to the next, with its graph, "
            f"at {spot(place)}: {head(step, inside[0])}"
        )
        if value is root:
            return (detail,), f"Set `{variable}` anew in each round, or go back once, after the loop.", place
        return (detail,), f"Cut it off at the start of each round: {_detached(variable, value)}.", place
    return None


def _assignments(loop: ast.stmt, variable: str) -> list[ast.stmt]:
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    return [node for node in ast.walk(loop) if isinstance(node, simple) and bound_in(node, variable)]


def _is_read(node: ast.AST, variable: str) -> bool:
    return isinstance(node, ast.Name) and node.id == variable and isinstance(node.ctx, ast.Load)


def _reads(statement: ast.stmt, variable: str) -> bool:
    return isinstance(statement, ast.AugAssign) or any(_is_read(node, variable) for node in ast.walk(statement))


def _outside(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Told | None:
    """A value that is computed once, before the loop, and used in every round."""
    for step, variable, value in _computed(scene, graph):
        loop = step.source.enclosing_loop(step.line)
        if (
            loop is None
            or value is root
            or bound_in(loop, variable)
            or not any(_is_read(node, variable) for node in ast.walk(loop))
        ):
            continue
        scope = step.source.enclosing_function(step.line) or step.source.tree
        setters = [
            s
            for s in ast.walk(scope)
            if isinstance(s, (ast.Assign, ast.AnnAssign)) and bound_in(s, variable) and s.lineno < loop.lineno
        ]
        if not setters:
            continue
        place = step.source.place(setters[-1])
        detail = (
            f"`{variable}` is computed once, before the loop, and the first round's backward freed its graph, "
            f"at {spot(place)}: {head(step, setters[-1])}"
        )
        return (
            (detail,),
            f"Compute `{variable}` inside the loop, or, if it needs no gradient, under torch.no_grad() or with .detach().",
            place,
        )
    return None


def _shared(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Told | None:
    """Another tensor whose backward ran earlier, on a graph that both share."""
    step = scene.crash
    scope = step.source.enclosing_function(step.line) or step.source.tree
    for node in ast.walk(scope):
        call = (
            node
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
            else None
        )
        if call is None or call.lineno == step.line:
            continue
        assert isinstance(call.func, ast.Attribute)
        other = step.value(call.func.value)
        if not isinstance(other, Tensor) or other.grad_fn is None or other is root or graph.isdisjoint(_inner(other)):
            continue
        text = step.text(call.func.value)
        detail = f"{text}.backward() at {spot(step.source.place(call))} ran on a graph that `{text}` and `{name}` share, and freed it."
        return (
            (detail,),
            f"Add them and go back once: ({text} + {name}).backward(); or keep the graph: {text}.backward(retain_graph=True).",
            step.place,
        )
    return None


def _inner(tensor: Tensor) -> Iterator[Any]:
    """Nodes that may hold saved values; leaves hold none."""
    return (node for node in nodes(tensor.grad_fn) if node.next_functions)


def _same(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Told | None:
    """The same tensor's backward, twice."""
    step = scene.crash
    scope = step.source.enclosing_function(step.line) or step.source.tree
    own = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    ]
    lines = sorted(
        call.lineno for call in own if isinstance(call.func, ast.Attribute) and step.value(call.func.value) is root
    )
    if len(lines) > 1:
        detail = f"`{name}` goes back more than once: at lines {', '.join(map(str, lines))} of {spot(step.place).rpartition(':')[0]}."
        return (
            (detail,),
            "Take out one of the calls; gradients add up, so a second backward would double them.",
            step.place,
        )
    loop = step.source.enclosing_loop(step.line)
    if loop is not None and name.isidentifier() and not bound_in(loop, name):
        detail = f"`{name}` is computed outside the loop at {spot(step.source.place(loop))}, so every round goes back through the same graph."
        return (detail,), f"Compute `{name}` inside the loop.", step.place
    return None
