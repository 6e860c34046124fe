"""A layer or function received something other than a tensor: a tuple, a list, a dict, an array, None."""

import ast
import re
from typing import Any, Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, article, described, spot
from trueloop.crash.origin import Origin, layer_input, origin
from trueloop.crash.scene import MISSING, Scene
from trueloop.usercode.ownership import class_source, methods_of

__all__ = ["explain"]

_ARGUMENT: Final = re.compile(
    r"argument '\w+' \(position \d+\) must be Tensor, not|received an invalid combination of arguments - got \(\w"
)
_ATTRIBUTE: Final = re.compile(r"'(tuple|list|dict|NoneType|ndarray)' object has no attribute '(\w+)'")
_PAIRS: Final[dict[type[nn.Module], str]] = {
    nn.LSTM: "(output, (h_n, c_n))",
    nn.RNN: "(output, h_n)",
    nn.GRU: "(output, h_n)",
    nn.MultiheadAttention: "(output, weights)",
}  # Modules that return two things


def explain(scene: Scene) -> Explanation | None:
    value, name, came_from = _culprit(scene)
    if value is MISSING or isinstance(value, (Tensor, int, float, str, bool)):
        return None
    source, layer = _producer(came_from), scene.layer
    who = f"The call at {spot(scene.place)}" if layer is None else layer.title
    message = f"{who} needs a tensor, but {name} is {described(value)}."
    fix = _fix(name.strip("`"), value, source, came_from)
    return scene.explanation(message, (*came_from.lines, *_remark(source)), fix)


def _culprit(scene: Scene) -> tuple[Any, str, Origin]:
    """The value that is not a tensor, its name and its origin, as far as the message and the frames show."""
    nothing = MISSING, "", Origin(())
    lacking = _ATTRIBUTE.search(scene.message) if isinstance(scene.error, AttributeError) else None
    if lacking is not None:
        return _lacking(scene, lacking) or nothing
    if not isinstance(scene.error, TypeError) or _ARGUMENT.search(scene.message) is None:
        return nothing
    if scene.layer is not None and not isinstance(scene.layer.given, Tensor):
        return scene.layer.given, *layer_input(scene, scene.layer)
    argument = scene.argument()
    if argument is None:
        return nothing
    return scene.crash.value(argument), scene.named(argument, ""), origin(scene, scene.crash, argument)


def _lacking(scene: Scene, found: re.Match[str]) -> tuple[Any, str, Origin] | None:
    """`'tuple' object has no attribute 'view'`: the tuple, if the user's own line or a loss treats it as a tensor."""
    node = scene.crash.node
    candidates: list[ast.expr] = [*node.args] if isinstance(node, ast.Call) else []
    if not scene.beyond:
        base = scene.receiver or getattr(node, "value", None)
        candidates = [base] if isinstance(base, ast.expr) else []
    for candidate in candidates if hasattr(Tensor, found[2]) else ():
        value, came_from = scene.crash.value(candidate), origin(scene, scene.crash, candidate)
        known = _holds_tensors(value) or (value is None and isinstance(_producer(came_from), nn.Module))
        if value is not MISSING and type(value).__name__ == found[1] and known:
            return value, scene.named(candidate, ""), came_from
    return None


def _holds_tensors(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return any(isinstance(part, Tensor) or _holds_tensors(part) for part in parts)


def _producer(came_from: Origin) -> Any:
    """The module that returned it, if the statement that set it is a plain call of one."""
    statement, step = came_from.statement, came_from.step
    call = statement.value if isinstance(statement, ast.Assign) else None
    return step.value(call.func) if step is not None and isinstance(call, ast.Call) else MISSING


def _remark(source: Any) -> tuple[str, ...]:
    found = next((kind for kind in _PAIRS if isinstance(source, kind)), None)
    return () if found is None else (f"nn.{found.__name__} returns two things: {_PAIRS[found]}.",)


def _fix(name: str, value: Any, source: Any, came_from: Origin) -> str:
    kind = type(value).__name__
    if value is None and isinstance(source, nn.Module):
        return _return_fix(source)
    if _remark(source) and isinstance(came_from.statement, ast.Assign) and came_from.step is not None:
        return f"Unpack it at {spot(came_from.place)}: {name}, _ = {came_from.step.text(came_from.statement.value)}."
    if kind == "ndarray":
        return f"Convert it to a tensor: torch.from_numpy({name}).float()."
    if isinstance(value, dict):
        return f"Use one entry of it: {name}[{next(iter(value), '…')!r}]."
    if not isinstance(value, (tuple, list)):
        return f"Pass a tensor instead of {article(kind)} {kind}."
    if isinstance(came_from.statement, ast.For):
        return f"Unpack the batch in the loop header at {spot(came_from.place)}: for x, y in …."
    if value and all(isinstance(part, Tensor) for part in value):
        stacked = f", or stack them: torch.stack({'list(' + name + ')' if kind == 'tuple' else name})"
        return f"Use one of them: {name}[0]{stacked if len({part.shape for part in value}) == 1 else ''}."
    return f"Use the tensor in it: {name}[0]."


def _return_fix(module: nn.Module) -> str:
    """For a forward that returns None."""
    cls, found = type(module), class_source(type(module))
    if found is None:
        return "Use the value that the module returns."
    forward = next((method for method in methods_of(cls) if method.name == "forward"), None)
    if forward is None or any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(forward)):
        return f"Make every path through {cls.__name__}.forward return a tensor."
    return f"{cls.__name__}.forward at {spot(found[0].place(forward))} returns nothing: end it with `return …`."
