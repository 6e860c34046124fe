"""Backward goes through a part of the graph whose saved tensors an earlier backward has freed."""

import ast
from collections.abc import Iterator
from typing import Any, TypeAlias

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import bound_in, head
from trueloop.crash.scene import Scene, Step
from trueloop.event import Place
from trueloop.measure.graph import nodes
from trueloop.usercode.ownership import methods_of
from trueloop.usercode.source import calls_in, is_self_attribute

__all__ = ["explain"]

_Reason: TypeAlias = tuple[str, str, Place]  # Detail, fix, place


def explain(scene: Scene) -> Explanation | None:
    root = scene.backward_root
    if "backward through the graph a second time" not in scene.message or root is None or root.grad_fn is None:
        return None
    graph = set(nodes(root.grad_fn))
    name = scene.named(scene.receiver, "This").strip("`")
    message = f"{name}.backward() at {spot(scene.place)} needs tensors that an earlier backward has already freed."
    for find in (_carried, _module_state, _outside, _shared, _same):
        reason = find(scene, root, graph, name)
        if reason is not None:
            detail, fix, place = reason
            return scene.explanation(message, (detail,), fix, place)
    fix = "Run the forward again before each backward, or call .detach() on what comes from an earlier step."
    return scene.explanation(message, (), fix)


def _shares(value: Any, graph: set[Any]) -> bool:
    """Was a tensor, or one in a tuple or list of them, computed by operations of this graph?"""
    if isinstance(value, (tuple, list)):
        return any(_shares(part, graph) for part in value[:8])
    return isinstance(value, Tensor) and value.grad_fn is not None and not graph.isdisjoint(_inner(value))


def _inner(tensor: Tensor) -> Iterator[Any]:
    """Nodes that may hold saved tensors: all but the leaves."""
    return (node for node in nodes(tensor.grad_fn) if node.next_functions)


def _variables(scene: Scene, graph: set[Any]) -> Iterator[tuple[Step, str, Any]]:
    """The user's variables that belong to the graph."""
    for step in scene.users:
        yield from ((step, name, value) for name, value in list(step.locals.items()) if _shares(value, graph))


def _module_state(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Reason | None:
    """A module that keeps its state in an attribute, with the graph of the previous step."""
    for variable, model in scene.modules():
        for path, module in model.named_modules():
            for attribute, value in vars(module).items():
                if _shares(value, graph) and _is_carried(type(module), attribute):
                    where = ".".join(part for part in (variable, path, attribute) if part)
                    kept = f"`{where}` keeps the state of the previous step with its graph"
                    detail = f"{kept}, so this backward enters that step."
                    return detail, f"Detach it when you store it: self.{attribute} = state.detach().", scene.place
    return None


def _is_carried(cls: type[nn.Module], attribute: str) -> bool:
    """Does a method of the user's read self.attribute before it sets it?"""
    for method in methods_of(cls):
        uses = [node for node in ast.walk(method) if is_self_attribute(node, attribute)]
        read = [node.lineno for node in uses if isinstance(node.ctx, ast.Load)]
        stored = [node.lineno for node in uses if isinstance(node.ctx, ast.Store)]
        if method.name != "__init__" and read and stored and min(read) <= min(stored):
            return True
    return False


def _carried(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Reason | None:
    """A variable that is set before the loop and again inside it, from its own old value."""
    for step, variable, value in _variables(scene, graph):
        loop = step.source.enclosing_loop(step.line)
        stores = [] if loop is None else _assignments(loop, variable)
        inside = [node for node in stores if isinstance(node, ast.AugAssign) or _reads(node, variable)]
        if loop is None or not inside or min(_reads(loop, variable), default=0) > min(node.lineno for node in stores):
            continue
        place = step.source.place(inside[0])
        at = f"the loop at {spot(step.source.place(loop))} to the next, at {spot(place)}: {head(step, inside[0])}"
        detail = f"`{variable}` carries its graph from one iteration of {at}"
        if value is root:
            return detail, f"Reset `{variable}` in each iteration, or call backward once, after the loop.", place
        parts = f"{'tuple' if isinstance(value, tuple) else 'list'}(part.detach() for part in {variable})"
        detached = f"{variable}.detach()" if isinstance(value, Tensor) else parts
        return detail, f"Detach it at the start of each iteration: {variable} = {detached}.", place
    return None


def _assignments(scope: ast.AST, variable: str) -> list[ast.stmt]:
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    return [node for node in ast.walk(scope) if isinstance(node, simple) and bound_in(node, variable)]


def _reads(scope: ast.AST, variable: str) -> list[int]:
    """The lines that read the variable."""
    names = (node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == variable)
    return [node.lineno for node in names if isinstance(node.ctx, ast.Load)]


def _scope(step: Step) -> ast.AST:
    return step.source.enclosing_function(step.line) or step.source.tree


def _outside(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Reason | None:
    """A value that is computed once, before the loop, and used in every iteration."""
    for step, variable, value in _variables(scene, graph):
        loop = step.source.enclosing_loop(step.line)
        if loop is None or value is root or bound_in(loop, variable) or not _reads(loop, variable):
            continue
        setters = [node for node in _assignments(_scope(step), variable) if node.lineno < loop.lineno]
        setters = [node for node in setters if not isinstance(node, ast.AugAssign)]
        if setters:
            place = step.source.place(setters[-1])
            freed = "is computed once, before the loop, and the backward of the first iteration freed its graph"
            detail = f"`{variable}` {freed}, at {spot(place)}: {head(step, setters[-1])}"
            fix = f"Compute `{variable}` inside the loop. If it needs no gradient, use torch.no_grad() or .detach()."
            return detail, fix, place
    return None


def _backwards(step: Step) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls of `….backward()` in the function of a step, each with its receiver."""
    for call in calls_in(_scope(step)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            yield call, call.func.value


def _shared(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Reason | None:
    """Another tensor whose backward ran earlier, on a graph that both share."""
    step = scene.crash
    for call, receiver in _backwards(step):
        other = step.value(receiver)
        if call.lineno == step.line or other is root or not isinstance(other, Tensor) or not _shares(other, graph):
            continue
        text = step.text(receiver)
        first, keep = f"{text}.backward() at {spot(step.source.place(call))}", f"{text}.backward(retain_graph=True)"
        detail = f"{first} ran on a graph that `{text}` and `{name}` share, and freed it."
        fix = f"Call backward once on the sum: ({text} + {name}).backward(). Or keep the graph: {keep}."
        return detail, fix, step.place
    return None


def _same(scene: Scene, root: Tensor, graph: set[Any], name: str) -> _Reason | None:
    """The same tensor's backward, twice."""
    step = scene.crash
    lines = sorted(call.lineno for call, receiver in _backwards(step) if step.value(receiver) is root)
    if len(lines) > 1:
        file = spot(step.place).rpartition(":")[0]
        detail = f"`{name}.backward()` is called more than once: at lines {', '.join(map(str, lines))} of {file}."
        return detail, "Remove one of the calls: gradients add up, so a second backward would double them.", step.place
    loop = step.source.enclosing_loop(step.line)
    if loop is not None and name.isidentifier() and not bound_in(loop, name):
        at = spot(step.source.place(loop))
        detail = f"`{name}` is computed outside the loop at {at}, so every iteration uses the same graph."
        return detail, f"Compute `{name}` inside the loop.", step.place
    return None
