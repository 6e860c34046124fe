"""Backward was called on a loss that no parameter leads to: nothing in its history requires grad."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType
from typing import Final, TypeAlias

from torch import nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import head, origin, setter
from trueloop.crash.scene import Scene, Step
from trueloop.event import Place
from trueloop.usercode.source import called_name, calls_in

__all__ = ["explain"]

_SIGN: Final = "does not require grad and does not have a grad_fn"
"""How torch says it."""
_CUTS: Final = frozenset({"detach", "item", "numpy", "argmax", "tensor", "as_tensor", "from_numpy", "tolist"})
"""Calls whose result has no graph, whatever went in."""
_OFF: Final = ("no_grad", "inference_mode")
"""What switches recording off for a block or a function."""
_HOPS: Final = 4
"""How many variables back the history is read: farther away than that, the reader has lost the thread too."""


def explain(scene: Scene) -> Explanation | None:
    if _SIGN not in scene.message:
        return None
    call = scene.crash.node
    receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    name = scene.crash.text(receiver) if receiver is not None else "the loss"
    message = f"`{name}` has no graph behind it: nothing that it was computed from requires a gradient."
    lines = origin(scene, scene.crash, receiver).lines
    for reason in (_switched_off(scene), _cut(scene, scene.crash, receiver), _frozen(scene)):
        if reason is not None:
            detail, fix, place = reason
            return Explanation("no-graph", message, (*lines, detail), fix, place)
    fix = f"Compute `{name}` from the outputs of a model whose parameters require grad, without detach(), item() or numpy in between."
    return Explanation("no-graph", message, lines, fix, scene.place)


_Reason: TypeAlias = tuple[str, str, Place]


def _switched_off(scene: Scene) -> _Reason | None:
    """Recording gradients was off: for good, or around the forward."""
    if not scene.grad_enabled:  # a plain torch.set_grad_enabled(False) outlives the crash
        calls = [(step, node) for step in scene.users for node in calls_in(step.source.tree) if _is_switch(node)]
        place = calls[0][0].source.place(calls[0][1]) if calls else scene.place
        at = f" at {spot(place)}" if calls else ""
        return (
            f"Recording of gradients is switched off{at}.",
            "Switch it on before the forward: torch.set_grad_enabled(True).",
            place,
        )
    for step in scene.users:
        for node in _around(step):
            text = ast.unparse(node.items[0].context_expr) if isinstance(node, ast.With) else ""
            if isinstance(node, ast.With) and any(word in text for word in _OFF):
                place = step.source.place(node)
                return (
                    f"It runs inside `with {text}` at {spot(place)}.",
                    "Take the training step out of that block.",
                    place,
                )
            if isinstance(node, ast.FunctionDef) and any(
                word in ast.unparse(d) for d in node.decorator_list for word in _OFF
            ):
                place = step.source.place(node)
                return (
                    f"`{node.name}` at {spot(place)} is decorated with no_grad.",
                    f"Take the decorator off `{node.name}`.",
                    place,
                )
    return None


def _is_switch(call: ast.Call) -> bool:
    off = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return called_name(call) == "set_grad_enabled" and off


def _around(step: Step) -> Iterator[ast.AST]:
    return step.source.parents(step.statement) if step.statement is not None else iter(())


def _cut(scene: Scene, step: Step, node: ast.AST | None) -> _Reason | None:
    """The statement in the loss's history that drops the graph."""
    for _ in range(_HOPS):
        if not isinstance(node, ast.Name):
            return None
        statement = setter(step, node.id)
        if statement is None or isinstance(statement, (ast.For, ast.FunctionDef, ast.With)):
            return None
        place = step.source.place(statement)
        within = next(
            (
                p
                for p in step.source.parents(statement)
                if isinstance(p, ast.With) and any(w in ast.unparse(p.items[0]) for w in _OFF)
            ),
            None,
        )
        if within is not None:
            where = step.source.place(within)
            return (
                f"`{node.id}` is computed inside `{head(step, within).removesuffix(':')}` at {spot(where)}.",
                "Compute it outside of that block.",
                where,
            )
        spine = list(_spine(step, statement))
        drop = next((part for part in spine if _drops(part)), None)
        if drop is not None:
            return (
                f"`{step.text(drop)}` at {spot(place)} leaves the graph behind.",
                f"Compute `{node.id}` without it.",
                place,
            )
        node = spine[-1] if spine else None
    return None


def _drops(part: ast.expr) -> bool:
    return (isinstance(part, ast.Call) and called_name(part) in _CUTS) or (
        isinstance(part, ast.Attribute) and part.attr == "data"
    )


def _spine(step: Step, statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement's value is made from, step by step: of `loss(model(x).detach(), y)` the calls of loss, detach
    and model, then x."""
    node = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
    while node is not None:
        yield node
        match node:
            case ast.Call(func=ast.Attribute(value=base), args=arguments) if not isinstance(
                step.value(base), (ModuleType, nn.Module)
            ):
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
    """Every parameter of the only model at hand is frozen."""
    models = [
        (name, module) for name, module in scene.modules() if name != "self" and any(True for _ in module.parameters())
    ]
    if len(models) != 1 or any(parameter.requires_grad for parameter in models[0][1].parameters()):
        return None
    name, module = models[0]
    count = sum(1 for _ in module.parameters())
    detail = f"All {count} parameters of `{name}` ({type(module).__name__}) have requires_grad=False."
    return (
        detail,
        "Let the part that is to learn require gradients: for p in head.parameters(): p.requires_grad_(True).",
        scene.place,
    )
