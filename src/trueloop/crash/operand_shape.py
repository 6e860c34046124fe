"""The shapes of two tensors do not fit together: `@`, `+`, cat, stack, einsum."""

import ast
import re
from typing import Final, NamedTuple

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, spot, written
from trueloop.crash.origin import origins
from trueloop.crash.scene import MISSING, Scene
from trueloop.event.operation_names import JOINS
from trueloop.usercode.source import called_name

__all__ = ["explain"]

_PRODUCT: Final = re.compile(
    r"shapes cannot be multiplied \((?P<a>\d+x\d+) and (?P<b>\d+x\d+)\)"
    r"|dimensions of batch2 tensor to be: \[\d+, (?P<wanted>\d+)\] but got: \[\d+, (?P<found>\d+)\]"
    r"|size mismatch, got input|inconsistent tensor size"
)
_SUM: Final = re.compile(
    r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)"
)
_STORE: Final = re.compile(r"The expanded size of the tensor")
_JOIN: Final = re.compile(
    r"Sizes of tensors must match except in dimension|Tensors must have same number of dimensions|stack expects each"
)
_EINSUM: Final = re.compile(
    r"subscript (\w) has size (\d+) for operand (\d+) which does not broadcast with previously seen size (\d+)"
)

_THIN: Final = ("einsum", "tensordot", "wrapped", "_wrapper")  # Python functions of torch around one operation
_PRODUCTS: Final = ("matmul", "mm", "bmm", "mv", "dot", "inner")
_JOINS: Final = JOINS | {"stack", "hstack", "vstack", "dstack"}


class _Operand(NamedTuple):
    text: str
    value: object  # The tensor; MISSING if no variable holds it
    node: ast.AST

    def __str__(self) -> str:
        return f"`{self.text}`" + (f" is {described(self.value)}" if isinstance(self.value, Tensor) else "")

    @property
    def shape(self) -> tuple[int, ...] | None:
        return tuple(self.value.shape) if isinstance(self.value, Tensor) else None


def explain(scene: Scene) -> Explanation | None:
    if any(step.function not in _THIN for step in scene.beyond):
        return None  # raised inside a layer or a loss: another kind explains it
    kinds = ((_PRODUCT, _product), (_SUM, _sum), (_STORE, _store), (_JOIN, _join), (_EINSUM, _einsum))
    found = ((kind, match) for pattern, kind in kinds if (match := pattern.search(scene.message)) is not None)
    return next((kind(scene, match) for kind, match in found), None)


def _operands(scene: Scene) -> list[_Operand]:
    return [_Operand(scene.crash.text(node), value, node) for node, value in scene.operands()]


def _explanation(scene: Scene, message: str, operands: list[_Operand], fix: str, *more: str) -> Explanation:
    lines = origins(scene, *(operand.node for operand in operands))
    return scene.explanation(message, (*more, *dict.fromkeys(lines)), fix)


def _product(scene: Scene, found: re.Match[str]) -> Explanation | None:
    operands = _operands(scene)
    node = scene.crash.node
    if len(operands) != 2 or node is None or (isinstance(node, ast.Call) and called_name(node) not in _PRODUCTS):
        return None
    left, right = operands
    sizes = [str(left.shape[-1]) if left.shape else "", str(right.shape[-2:][0]) if right.shape else ""]
    inner = found["a"].split("x")[1] if found["a"] else found["wanted"] or sizes[0]
    outer = found["b"].split("x")[0] if found["b"] else found["found"] or sizes[1]
    if not inner or not outer:
        return None
    fix = f"Make the last dimension of `{left.text}` equal to the second-to-last of `{right.text}`."
    if left.shape and right.shape and len(right.shape) > 1 and left.shape[-1] == right.shape[-1]:
        fix = f"Both end in {inner}: multiply by the transpose, {right.text}.transpose(-2, -1)."
    found_sizes = f"but they are {inner} and {outer}: {left} and {right}"
    message = f"`{scene.crash.text(node)}` needs equal inner sizes, {found_sizes}."
    return _explanation(scene, message, operands, fix)


def _sum(scene: Scene, found: re.Match[str]) -> Explanation | None:
    operands = _operands(scene)
    if len(operands) != 2:
        return None
    left, right = operands
    a, b, dimension = found.groups()
    message = f"{left} and {right}: in dimension {dimension} they have {a} and {b}, which cannot be broadcast."
    fix = f"Give both the same size in dimension {dimension}."
    if left.shape and right.shape:
        if len(left.shape) == len(right.shape) == 4 and dimension == "1":
            shortcut = f"On a shortcut, use nn.Conv2d({b}, {a}, 1) for `{right.text}`."
            fix = f"Give both the same number of channels. {shortcut}"
        missing = abs(len(left.shape) - len(right.shape))
        small, large = sorted((left, right), key=lambda operand: len(operand.shape or ()))
        if missing == 1 and small.shape and large.shape and small.shape == large.shape[:-1]:
            fix = f"`{small.text}` lacks the last dimension of `{large.text}`: write {small.text}.unsqueeze(-1)."
    return _explanation(scene, message, operands, fix)


def _store(scene: Scene, found: re.Match[str]) -> Explanation | None:
    statement = scene.crash.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target = statement.targets[0]
    value, into = (_Operand(scene.crash.text(n), scene.crash.value(n), n) for n in (statement.value, target.value))
    sizes = re.search(r"Target sizes: (\[.*?\]).*Tensor sizes: (\[.*?\])", scene.message)
    if into.shape is None or sizes is None:
        return None
    part = f"`{scene.crash.text(target)}` is a {sizes[1]} part of {described(into.value)}"
    fix = "Index the part that has the value's shape, or reshape the value."
    return _explanation(scene, f"{part}, but `{value.text}` is {sizes[2]}.", [into, value], fix)


def _join(scene: Scene, found: re.Match[str]) -> Explanation | None:
    call = scene.crash.node
    if not isinstance(call, ast.Call) or called_name(call) not in _JOINS:
        return None
    operands = [operand for operand in _operands(scene) if operand.shape is not None]
    held = scene.crash.value(call.args[0]) if call.args else MISSING
    if not operands and isinstance(held, (list, tuple)):
        name = scene.crash.text(call.args[0])
        parts = [(index, part) for index, part in enumerate(held) if isinstance(part, Tensor)]
        operands = [_Operand(f"{name}[{index}]", part, call.args[0]) for index, part in parts]
    odd = next((operand for operand in operands[1:] if operand.shape != operands[0].shape), None)
    if odd is None:
        return None
    verb, first = called_name(call), operands[0]
    rule = "equal shapes" if verb == "stack" else "equal sizes in all dimensions but the joined one"
    message = f"torch.{verb} needs {rule}, but {first} and {odd}."
    every = ", ".join(f"`{o.text}` {written(o.shape or ())}" for o in operands[:8])
    more = (f"All of them: {every}.",) if len(operands) > 2 else ()
    culprits = [first, odd] if first.node is not odd.node else [first]
    return _explanation(scene, message, culprits, _join_fix(verb, first, odd), *more)


def _join_fix(verb: str, first: _Operand, odd: _Operand) -> str:
    one, other = first.shape or (), odd.shape or ()
    if len(one) != len(other):
        return f"Give both the same number of dimensions: they have {len(one)} and {len(other)}."
    differing = [index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differing) == 1 and verb in JOINS | {"stack"}:
        only = differing[0]
        return f"They differ only in dimension {only}: join along it with torch.cat(…, dim={only}), or pad or cut it."
    return "Give them one size first: pad, cut or interpolate."


def _einsum(scene: Scene, found: re.Match[str]) -> Explanation | None:
    letter, now, operand, before = found.groups()
    tensors = [operand for operand in _operands(scene) if operand.shape is not None]
    shapes = "; ".join(str(tensor) for tensor in tensors)
    end = f": {shapes}." if shapes else "."
    message = f"In einsum the letter {letter} has size {before} at first and {now} in operand {operand}{end}"
    fix = f"Use another letter, or transpose the operand, at {spot(scene.place)}."
    return _explanation(scene, message, tensors, fix)
