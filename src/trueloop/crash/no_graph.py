"""Backward was called on a loss that does not depend on any parameter that requires grad."""

import ast
from collections.abc import Iterator
from types import ModuleType
from typing import Final, TypeAlias

from torch import nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import head, origins, setter
from trueloop.crash.scene import Scene, Step
from trueloop.event import Place
from trueloop.usercode.source import called_name, calls_in

__all__ = ["explain"]

_DETACHING: Final = frozenset({"detach", "item", "numpy", "argmax", "tensor", "as_tensor", "from_numpy", "tolist"})
"""Calls whose result has no graph."""
_OFF: Final = ("no_grad", "inference_mode")  # Contexts and decorators that switch gradient recording off
_HOPS: Final = 4  # Variables that the search for the cause goes back

_Reason: TypeAlias = tuple[str, str, Place]  # Detail, fix, place


def explain(scene: Scene) -> Explanation | None:
    if "does not require grad and does not have a grad_fn" not in scene.message:
        return None
    receiver = scene.receiver
    name = scene.named(receiver, "`the loss`")
    message = f"{name} has no autograd graph: nothing that it was computed from requires grad."
    lines = origins(scene, receiver)
    for reason in (_switched_off(scene), _detached(scene.crash, receiver), _frozen(scene)):
        if reason is not None:
            detail, fix, place = reason
            return scene.explanation(message, (*lines, detail), fix, place)
    fix = f"Compute {name} from the outputs of a model whose parameters require grad"
    return scene.explanation(message, lines, f"{fix}, without detach(), item() or numpy in between.")


def _switched_off(scene: Scene) -> _Reason | None:
    """Gradient recording is off: permanently, or around the forward."""
    if not scene.grad_enabled:  # a plain torch.set_grad_enabled(False) outlives the crash
        calls = [(step, node) for step in scene.users for node in calls_in(step.source.tree) if _is_switch(node)]
        place = calls[0][0].source.place(calls[0][1]) if calls else scene.place
        detail = f"Gradient recording is switched off{f' at {spot(place)}' if calls else ''}."
        return detail, "Switch it on before the forward: torch.set_grad_enabled(True).", place
    for step in scene.users:
        for node in step.source.parents(step.statement) if step.statement is not None else ():
            place = step.source.place(node) if isinstance(node, (ast.With, ast.FunctionDef)) else scene.place
            if isinstance(node, ast.With) and _is_off(node.items[0].context_expr):
                text = ast.unparse(node.items[0].context_expr)
                detail = f"It runs inside `with {text}` at {spot(place)}."
                return detail, "Move the training step out of that block.", place
            if isinstance(node, ast.FunctionDef) and any(map(_is_off, node.decorator_list)):
                detail = f"`{node.name}` at {spot(place)} is decorated with no_grad."
                return detail, f"Remove the decorator from `{node.name}`.", place
    return None


def _is_switch(call: ast.Call) -> bool:
    off = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return called_name(call) == "set_grad_enabled" and off


def _is_off(node: ast.expr) -> bool:
    return any(word in ast.unparse(node) for word in _OFF)


def _detached(step: Step, node: ast.AST | None) -> _Reason | None:
    """The statement in the loss's history that drops the graph."""
    for _ in range(_HOPS):
        statement = setter(step, node.id) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or statement is None:
            return None
        if isinstance(statement, (ast.For, ast.FunctionDef, ast.With)):
            return None
        around = (parent for parent in step.source.parents(statement) if isinstance(parent, ast.With))
        block = next((parent for parent in around if _is_off(parent.items[0].context_expr)), None)
        if block is not None:
            place = step.source.place(block)
            detail = f"`{node.id}` is computed inside `{head(step, block).removesuffix(':')}` at {spot(place)}."
            return detail, "Compute it outside of that block.", place
        inputs = list(_first_inputs(step, statement))
        drop = next((part for part in inputs if _drops_graph(part)), None)
        if drop is not None:
            place = step.source.place(statement)
            detail = f"`{step.text(drop)}` at {spot(place)} detaches the result from the graph."
            return detail, f"Compute `{node.id}` without it.", place
        node = inputs[-1] if inputs else None
    return None


def _drops_graph(part: ast.expr) -> bool:
    call = isinstance(part, ast.Call) and called_name(part) in _DETACHING
    return call or (isinstance(part, ast.Attribute) and part.attr == "data")


def _first_inputs(step: Step, statement: ast.stmt) -> Iterator[ast.expr]:
    """What a value is computed from: of `loss(model(x).detach(), y)` the calls of loss, detach and model, then x."""
    node = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
    while node is not None:
        yield node
        match node:
            case ast.Call(func=ast.Attribute(value=base)) if not isinstance(step.value(base), (ModuleType, nn.Module)):
                node = base
            case ast.Call(args=arguments):
                node = arguments[0] if arguments else None
            case ast.BinOp(left=left, right=right):
                node = right if isinstance(left, ast.Constant) else left
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
                node = inner
            case _:
                return


def _frozen(scene: Scene) -> _Reason | None:
    """Every parameter of the only model in sight is frozen."""
    models = [(name, module) for name, module in scene.modules() if name != "self" and list(module.parameters())]
    if len(models) != 1 or any(parameter.requires_grad for parameter in models[0][1].parameters()):
        return None
    name, module = models[0]
    count = sum(1 for _ in module.parameters())
    detail = f"All {count} parameters of `{name}` ({type(module).__name__}) have requires_grad=False."
    return detail, "Unfreeze the part to train: for p in head.parameters(): p.requires_grad_(True).", scene.place
