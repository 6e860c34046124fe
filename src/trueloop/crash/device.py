"""The tensors of one operation are on different devices."""

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import Origin, layer_input, origin, setter
from trueloop.crash.scene import MISSING, Layer, Scene, Step
from trueloop.event import Place
from trueloop.usercode.ownership import class_source
from trueloop.usercode.source import Edit, called_name, calls_in, diff, source_of

__all__ = ["explain"]

_SIGNS: Final = re.compile(
    r"to be on the same device|is not on the expected device|are not at the same device|indices should be either on"
    r"|to have the same device type"
    r"|Input type \((?:torch\.cuda\.\w+\) and weight type \(torch\.\w+Tensor|torch\.\w+Tensor\) and weight type "
    r"\(torch\.cuda)"
)  # Messages of torch, over its versions
_ACCELERATOR: Final = re.compile(r"\b(?:cuda|meta|mps|xpu)(?::\d+)?\b")  # A device that is not the CPU, in a message
_MAKERS: Final = frozenset({
    "zeros", "ones", "empty", "full", "arange", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm",
    "tensor", "as_tensor", "from_numpy", "tril_indices", "triu_indices",
})  # fmt: skip
"""Functions that create a tensor on the default device unless `device=` is given."""


class _Party(NamedTuple):
    """One of the tensors involved."""

    name: str
    device: torch.device
    node: ast.expr | None  # Its expression in the user's line
    origin: Origin


def explain(scene: Scene) -> Explanation | None:
    if _SIGNS.search(scene.message) is None:
        return None
    stray = _stray_layer(scene) if scene.layer is not None else None
    if stray is not None:
        return stray
    parties = list(_parties(scene))
    on_cpu = [party for party in parties if party.device.type == "cpu"]
    elsewhere = [party for party in parties if party.device.type != "cpu"] or list(_unkept(scene))
    if on_cpu and elsewhere:
        return _left_behind(scene, on_cpu, elsewhere[0])
    other = next((party for party in elsewhere if party.device != elsewhere[0].device), None)
    if other is not None:
        return _two_devices(scene, elsewhere[0], other)
    return _made_in_place(scene, elsewhere[0]) if elsewhere else None


def _parties(scene: Scene) -> Iterator[_Party]:
    layer = scene.layer
    if layer is not None and isinstance(layer.given, Tensor):
        name, came_from = layer_input(scene, layer)
        yield _Party(name, layer.given.device, scene.argument() if layer.direct else None, came_from)
        weight = _device_of(layer.module)
        if weight is not None:
            yield _Party(f"`{layer.name}`", weight, None, Origin(()))
    for node, value in scene.tensors():
        # A CPU tensor without dimensions works with any device, so it is never the cause.
        if (layer is None or value is not layer.given) and (value.ndim or value.device.type != "cpu"):
            yield _Party(scene.named(node, ""), value.device, node, origin(scene, scene.crash, node))


def _unkept(scene: Scene) -> Iterator[_Party]:
    """The operand that no variable holds; torch's message has its device."""
    device = _ACCELERATOR.search(scene.message)
    nodes = [node for node, value in scene.operands() if value is MISSING]
    if device is not None and len(nodes) == 1:
        yield _Party(f"`{scene.crash.text(nodes[0])}`", torch.device(device[0]), None, Origin(()))


def _two_devices(scene: Scene, one: _Party, other: _Party) -> Explanation:
    message = f"{one.name} is on {one.device}, but {other.name} is on {other.device}."
    fix = f"Move one to the other's device: {other.name}.to({one.name}.device).".replace("`", "")
    return scene.explanation(message, (*one.origin.lines, *other.origin.lines), fix)


def _device_of(module: nn.Module) -> torch.device | None:
    return next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)


# -- the model stayed on the CPU --


def _stray_layer(scene: Scene) -> Explanation | None:
    layer = scene.layer
    weights = _device_of(layer.module) if layer is not None else None
    if layer is None or weights is None or weights.type != "cpu" or not isinstance(layer.given, Tensor):
        return None
    if layer.given.device.type == "cpu":
        return None
    name, _ = layer_input(scene, layer)
    message = f"The weights of {layer.title} are on cpu, but {name} is on {layer.given.device}."
    return scene.explanation(message, *_why_stray(layer))


def _why_stray(layer: Layer) -> tuple[tuple[str, ...], str]:
    model, device = type(layer.model).__name__, layer.given.device
    others = [parameter for parameter in layer.model.parameters() if parameter.device.type != "cpu"]
    registered = any(inner is layer.module for inner in layer.model.modules())
    if not registered:
        why = f"is not registered in {model} (it may be in a plain list or dict)"
        detail = f"`{layer.name}` {why}, so {model}.to(device) does not move it."
        return (detail,), "Keep layers in nn.ModuleList, nn.ModuleDict or an attribute of the module."
    if others:
        moved = f"Other parameters of {model} are on {others[0].device}"
        detail = f"{moved}: this layer was created or replaced after the model was moved."
        return (detail,), "Move the model when it is complete: model.to(device)."
    fix = f"Move the model before the first batch: model.to({str(device)!r})."
    return (f"All parameters of {model} are on cpu.",), fix


# -- a tensor stayed on the CPU --


def _left_behind(scene: Scene, strays: list[_Party], other: _Party) -> Explanation:
    party, also = strays[0], tuple(f"{stray.name} is on cpu too." for stray in strays[1:])
    message = f"{party.name} is on cpu, but {other.name} is on {other.device}."
    attribute = _plain_attribute(scene, party.node)
    if attribute is not None:
        return _attribute_left(scene, party, other, *attribute)
    thrown = _thrown_away(scene, party)
    if thrown is not None:
        return scene.explanation(message, *thrown)
    made = _maker(_part_of(party))
    where = party.origin.place
    if made is not None and where is not None and party.origin.step is not None:
        step = party.origin.step
        call = step.text(made)
        inside = f" inside `{step.function}`" if step.function != "<module>" else ""
        detail = f"It is created on the CPU{inside} at {spot(where)}: {step.text(party.origin.statement or made)}"
        reference = _reference(step, made, other)
        fix, patch = _fix_maker(made, call, reference, where), _patch(made, where, reference)
        return scene.explanation(message, (detail, *also), fix, where, patch)
    name = party.name.strip("`")
    moved = f"{name} = {name}.to({_target(other)})" if name.isidentifier() else f"{party.name}.to({_target(other)})"
    return scene.explanation(message, (*party.origin.lines, *also), f"Move it before it is used: {moved}.")


def _thrown_away(scene: Scene, party: _Party) -> tuple[tuple[str, ...], str, Place, str] | None:
    """`x.to(device)` as a statement of its own: the moved tensor is lost. Detail, fix, place and patch."""
    source, line = scene.crash.source, scene.crash.line
    name = party.name.strip("`")
    wanted = ast.unparse(party.node) if party.node is not None else name  # with quotes of one kind: batch['x']
    function = source.enclosing_function(line) or source.tree
    everywhere = source.tree if name.startswith("self.") else function  # an attribute may be set in __init__
    for node in (*ast.walk(function), *ast.walk(everywhere)):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if node.lineno < line and called_name(call) in ("to", "cuda") and ast.unparse(call.func.value) == wanted:
            place, text = source.place(node), source.text(node)
            detail = f"`{text}` at {spot(place)} returns the moved tensor, and nothing keeps it: `{name}` stays on cpu."
            row = source.lines[node.lineno - 1].rstrip("\n")
            new = f"{row[: node.col_offset]}{name} = {row[node.col_offset :]}"
            one_line = node.lineno == node.end_lineno and row.isascii()
            patch = diff(source.path, [Edit(node.lineno, node.lineno, (new,))]) if one_line else ""
            return (detail,), f"Keep the result, at {spot(place)}: {name} = {text}.", place, patch
    return None


def _part_of(party: _Party) -> ast.AST | None:
    """The statement that sets the tensor; of `x, y = one, two` the value that belongs to it."""
    statement = party.origin.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
        for target in statement.targets:
            names = [ast.unparse(each) for each in target.elts] if isinstance(target, ast.Tuple) else []
            if len(names) == len(statement.value.elts) and party.name.strip("`") in names:
                return statement.value.elts[names.index(party.name.strip("`"))]
    return statement


def _target(other: _Party) -> str:
    name = other.name.strip("`")
    simple = other.node is not None and name.replace(".", "_").isidentifier()
    return f"{name}.device" if simple else repr(str(other.device))


def _maker(statement: ast.AST | None) -> ast.Call | None:
    """The call in a statement that creates a tensor without `device=`."""
    if statement is None or isinstance(statement, (ast.For, ast.With, ast.FunctionDef)):
        return None
    calls = [call for call in calls_in(statement) if called_name(call) in _MAKERS and _from_torch(call)]
    return next((call for call in calls if not any(keyword.arg == "device" for keyword in call.keywords)), None)


def _from_torch(call: ast.Call) -> bool:
    of_module = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("torch", "th")
    return of_module or isinstance(call.func, ast.Name)


def _reference(step: Step, made: ast.Call, other: _Party) -> str:
    """`x.device`, if x is certainly set where the tensor is created; the model's device inside a module; else empty."""
    name = other.name.strip("`")
    if step is not None and name.isidentifier() and isinstance(other.node, ast.Name):
        known = setter(step, name)
        if known is not None and (isinstance(known, ast.FunctionDef) or known.lineno < made.lineno):
            return f"{name}.device"
    has_parameters = step.owner is not None and next(step.owner.parameters(), None) is not None
    return "next(self.parameters()).device" if has_parameters else ""


def _fix_maker(made: ast.Call, call: str, reference: str, where: Place) -> str:
    device = reference or "…"
    if called_name(made) == "from_numpy":
        return f"Move it where it is created, at {spot(where)}: {call}.to({device})."
    comma = ", " if made.args or made.keywords else ""
    return f"Create it on the right device, at {spot(where)}: {call[:-1]}{comma}device={device})."


def _patch(made: ast.Call, where: Place, reference: str) -> str:
    lines = source_of(where.path).lines
    one_line = made.lineno == made.end_lineno and made.end_col_offset is not None
    if not reference or not one_line or called_name(made) == "from_numpy":
        return ""
    line = lines[made.lineno - 1].rstrip("\n")
    at = len(line.encode()[: made.end_col_offset].decode()) - 1
    comma = ", " if made.args or made.keywords else ""
    return diff(where.path, [Edit(made.lineno, made.lineno, (f"{line[:at]}{comma}device={reference}{line[at:]}",))])


def _plain_attribute(scene: Scene, node: ast.expr | None) -> tuple[nn.Module, str] | None:
    """A tensor that a module holds as a plain attribute: neither parameter nor buffer."""
    if not isinstance(node, ast.Attribute):
        return None
    owner = scene.crash.value(node.value)
    plain = isinstance(owner, nn.Module) and isinstance(vars(owner).get(node.attr), Tensor)
    return (owner, node.attr) if plain else None


def _attribute_left(scene: Scene, party: _Party, other: _Party, owner: nn.Module, attribute: str) -> Explanation:
    found = class_source(type(owner))
    statement = found[0].assignment_to_self(type(owner).__name__, attribute) if found is not None else None
    place = found[0].place(statement) if found is not None and statement is not None else scene.place
    at = f" It is set at {spot(place)}." if statement is not None else ""
    message = f"{party.name} is on cpu, but {other.name} is on {other.device}."
    plain = f"`{attribute}` is a plain attribute of {type(owner).__name__}, neither a parameter nor a buffer"
    fix = f'Register it, so that it moves with the module: self.register_buffer("{attribute}", …).'
    return scene.explanation(message, (f"{plain}, so .to(device) does not move it.{at}",), fix, place)


def _made_in_place(scene: Scene, other: _Party) -> Explanation | None:
    """Only one device among the variables: the expression itself creates the other tensor."""
    unkept = [node for node, value in scene.operands() if value is MISSING]
    made = next((call for node in unkept if (call := _maker(node)) is not None), None)
    if made is None:
        return None
    text = scene.crash.text(made)
    message = f"`{text}` creates its tensor on cpu, but {other.name} is on {other.device}."
    reference = _reference(scene.crash, made, other) or _target(other)
    fix, patch = _fix_maker(made, text, reference, scene.place), _patch(made, scene.place, reference)
    return scene.explanation(message, other.origin.lines, fix, diff=patch)
