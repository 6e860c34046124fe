"""Tensors of different dtypes met in a layer, a loss or a product; or floats and integers were confused."""

import re
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import layer_input, origins
from trueloop.crash.scene import Layer, Scene
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.taps.loss import LOSS_FUNCTIONS

__all__ = ["explain"]

_SIGNS: Final = re.compile(
    r"(?:must|to) have the same dtype|Input type \([\w: ]+\) and (?:bias|weight) type \([\w: ]+\) should be the same"
    r"|does not match weight dtype|mixed dtype \(CPU\)|expected scalar type \w+ but found \w+"
    r"|[Ff]ound dtype \w+ but expected \w+|Expected floating point type for target with class"
    r"|expected target dtype to be|can't be cast to the desired output type|of the following scalar types: Long, Int"
    r"|\"nll_loss\w*\" not implemented for|tensors used as indices must be long"
)  # Messages of torch, over its versions
_CASTS: Final = {
    torch.float32: ".float()",
    torch.float64: ".double()",
    torch.float16: ".half()",
    torch.bfloat16: ".bfloat16()",
    torch.int64: ".long()",
}


def explain(scene: Scene) -> Explanation | None:
    if _SIGNS.search(scene.message) is None:
        return None
    loss = next((step for step in scene.beyond if step.function in LOSS_FUNCTIONS), None)
    if loss is not None:
        return _loss(scene, loss.function, loss.locals.get("input"), loss.locals.get("target"))
    if scene.layer is not None:
        return _layer(scene, scene.layer)
    return _operands(scene) if scene.backward_root is None else _backward(scene)


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _cast(name: str, wanted: torch.dtype) -> str:
    return f"{name.strip('`') if name.startswith('`') else 'x'}{_CASTS.get(wanted, f'.to({wanted})')}"


def _layer(scene: Scene, layer: Layer) -> Explanation | None:
    given, module = layer.given, layer.module
    if not isinstance(given, Tensor):
        return None
    name, came_from = layer_input(scene, layer)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and given.is_floating_point():
        needs = f"`{layer.name}` (Embedding) looks up rows by index and needs int64 or int32"
        message = f"{needs}, but {name} is {described(given)}."
        fix = f"Write {_cast(name, torch.int64)} if its values are row indices."
        return scene.explanation(message, came_from.lines, fix)
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    weight = next((tensor for tensor in own if tensor.is_floating_point()), None)
    if weight is None or weight.dtype == given.dtype:
        return None
    message = f"{layer.title} has {_short(weight)} weights, but {name} is {described(given)}."
    lines = came_from.lines
    if given.dtype == torch.float64 and any("numpy" in line or "np." in line for line in lines):
        lines = (*lines, "numpy creates float64 arrays by default; torch layers are float32.")
    return scene.explanation(message, lines, _layer_fix(name, given, weight))


def _layer_fix(name: str, given: Tensor, weight: Tensor) -> str:
    cast = _cast(name, weight.dtype)
    if given.dtype == torch.uint8:
        return f"Convert it, and scale images to 0..1: {cast} / 255."
    if {given.dtype, weight.dtype} & {torch.float16, torch.bfloat16}:
        return f"Run the model and its loss under torch.autocast, or convert: {cast}."
    return f"Convert it where the data is created, or here: {cast}."


def _loss(scene: Scene, function: str, scores: object, target: object) -> Explanation | None:
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        return None
    argument = scene.argument(1)
    name, lines = scene.named(argument, "the target"), origins(scene, argument)
    if function in CLASS_LOSSES and target.shape == scores.shape and not target.is_floating_point():
        seen_as = f"so {function} takes it for class probabilities, which must be {_short(scores)}"
        message = f"{name}, {described(target)}, has the shape of the predictions, {seen_as}."
        cast, indices = _cast(name, scores.dtype), f"{name.strip('`')}.argmax(1)"
        fix = f"For one-hot labels write {cast}, or use class indices: {indices}."
        return scene.explanation(message, lines, fix)
    if function in CLASS_LOSSES and target.dtype not in (torch.int64, torch.uint8):
        message = f"{function} needs class indices in int64, but {name} is {described(target)}."
        return scene.explanation(message, lines, f"Write {_cast(name, torch.int64)} if its values are class indices.")
    if function not in CLASS_LOSSES and target.dtype != scores.dtype:
        both = f"the predictions are {described(scores)}, but {name} is {described(target)}"
        return scene.explanation(f"{function} needs one dtype: {both}.", lines, f"Write {_cast(name, scores.dtype)}.")
    return None


def _backward(scene: Scene) -> Explanation | None:
    """`Found dtype Double but expected Float`: a loss over two dtypes fails only in its backward."""
    words = re.search(r"ound dtype (\w+) but expected (\w+)", scene.message)
    if words is None:
        return None
    message = f"A gradient is {words[1]} where the forward was {words[2]}: a loss combined tensors of two dtypes."
    return scene.explanation(message, (), f"Convert the target to {words[2]} before the loss.")


def _operands(scene: Scene) -> Explanation | None:
    tensors = [(scene.named(node, ""), value, node) for node, value in scene.tensors()]
    if "used as indices" in scene.message and len(tensors) == 2:
        name, index, node = tensors[1]
        message = f"{name} is {described(index)}, but indices must be integers or booleans."
        fix = f"Write {_cast(name, torch.int64)}, or compare it to get a mask."
        return scene.explanation(message, origins(scene, node), fix)
    if len(tensors) != 2 or tensors[0][1].dtype == tensors[1][1].dtype:
        return None
    (left, one, left_node), (right, other, right_node) = tensors
    message = f"{left} is {described(one)} and {right} is {described(other)}: a matrix product needs one dtype."
    default = torch.get_default_dtype()
    keeps_left = one.dtype == default or other.dtype != default
    wanted, odd = (one.dtype, right) if keeps_left else (other.dtype, left)
    return scene.explanation(message, origins(scene, left_node, right_node), f"Write {_cast(odd, wanted)}.")
