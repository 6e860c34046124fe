"""Tensors of different types met in a layer, a loss or a product; or whole numbers were wanted and fractions came, or
the reverse."""

from __future__ import annotations

import re
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import Origin, came, origin
from trueloop.crash.scene import Layer, Scene
from trueloop.taps.loss import LOSSES

__all__ = ["explain"]

_SIGNS: Final = re.compile(
    r"must have the same dtype|to have the same dtype|Input type \([\w: ]+\) and (?:bias|weight) type \([\w: ]+\) should be the same"
    r"|does not match weight dtype|mixed dtype \(CPU\)|expected scalar type \w+ but found \w+|[Ff]ound dtype \w+ but expected \w+"
    r"|expected target dtype to be|Expected floating point type for target with class|can't be cast to the desired output type"
    r"|have one of the following scalar types: Long, Int|\"nll_loss\w*\" not implemented for|tensors used as indices must be long"
)
"""How torch says it, over its versions."""
_CASTS: Final = {
    torch.float32: ".float()",
    torch.float64: ".double()",
    torch.float16: ".half()",
    torch.bfloat16: ".bfloat16()",
    torch.int64: ".long()",
}
"""How a conversion is usually written."""
_BY_CLASS: Final = ("cross_entropy", "nll_loss")
"""Losses whose target holds class numbers."""


def explain(scene: Scene) -> Explanation | None:
    if _SIGNS.search(scene.message) is None:
        return None
    loss = next((step for step in scene.beyond if step.function in LOSSES), None)
    if loss is not None:
        return _loss(scene, loss.function, loss.locals.get("input"), loss.locals.get("target"))
    if scene.layer is not None:
        return _layer(scene, scene.layer)
    if isinstance(scene.library_local(("backward",), "self"), Tensor):
        return _backward(scene)
    return _operands(scene)


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _cast(name: str, wanted: torch.dtype) -> str:
    plain = name.strip("`")
    known = plain if name.startswith("`") else "x"
    return f"{known}{_CASTS.get(wanted, f'.to({wanted})')}"


def _layer(scene: Scene, layer: Layer) -> Explanation | None:
    given = layer.given
    if not isinstance(given, Tensor):
        return None
    name, came_from = came(scene, layer)
    if isinstance(layer.module, (nn.Embedding, nn.EmbeddingBag)) and given.is_floating_point():
        message = f"`{layer.name}` (Embedding) looks rows up by number and needs int64 or int32, but {name} is {described(given)}."
        return Explanation(
            "dtype",
            message,
            came_from.lines,
            f"Write {_cast(name, torch.int64)}, if its values are row numbers.",
            scene.place,
        )
    weight = next(
        (
            p
            for p in (*layer.module.parameters(recurse=False), *layer.module.buffers(recurse=False))
            if p.is_floating_point()
        ),
        None,
    )
    if weight is None or weight.dtype == given.dtype:
        return None
    message = f"`{layer.name}` ({type(layer.module).__name__}) has {_short(weight)} weights, but {name} is {described(given)}."
    return Explanation(
        "dtype", message, (*came_from.lines, *_remark(given, came_from)), _layer_fix(name, given, weight), scene.place
    )


def _remark(given: Tensor, came_from: Origin) -> tuple[str, ...]:
    if given.dtype == torch.float64 and any("numpy" in line or "np." in line for line in came_from.lines):
        return ("numpy makes float64 unless it is told otherwise; torch's layers are float32.",)
    return ()


def _layer_fix(name: str, given: Tensor, weight: Tensor) -> str:
    if given.dtype == torch.uint8:
        return f"Convert it, and for images scale it too: {_cast(name, weight.dtype)} / 255."
    if {given.dtype, weight.dtype} & {torch.float16, torch.bfloat16}:
        return f"Run the model and its loss under torch.autocast, or convert: {_cast(name, weight.dtype)}."
    return f"Convert it where the data is made, or here: {_cast(name, weight.dtype)}."


def _loss(scene: Scene, function: str, scores: object, target: object) -> Explanation | None:
    if not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        return None
    argument = scene.argument(1)
    name = f"`{scene.crash.text(argument)}`" if argument is not None else "the target"
    lines = origin(scene, scene.crash, argument).lines
    if function in _BY_CLASS and target.shape == scores.shape and not target.is_floating_point():
        message = (
            f"{function} takes {name}, {described(target)}, for class probabilities, because it has the shape of the predictions, "
            f"and those must be {_short(scores)}."
        )
        return Explanation(
            "dtype",
            message,
            lines,
            f"For one-hot labels write {_cast(name, scores.dtype)}, or class numbers: {name.strip('`')}.argmax(1).",
            scene.place,
        )
    if function in _BY_CLASS and target.dtype not in (torch.int64, torch.uint8):
        message = f"{function} needs class numbers in int64, but {name} is {described(target)}."
        return Explanation(
            "dtype", message, lines, f"Write {_cast(name, torch.int64)}, if its values are class numbers.", scene.place
        )
    if function not in _BY_CLASS and target.dtype != scores.dtype:
        message = f"{function} compares numbers of one type: the predictions are {described(scores)}, but {name} is {described(target)}."
        return Explanation("dtype", message, lines, f"Write {_cast(name, scores.dtype)}.", scene.place)
    return None


def _backward(scene: Scene) -> Explanation | None:
    """`Found dtype Double but expected Float`: a loss whose target had another type fails only when it goes back."""
    words = re.search(r"ound dtype (\w+) but expected (\w+)", scene.message)
    if words is None:
        return None
    return Explanation(
        "dtype",
        f"A gradient came back as {words[1]} where the forward had {words[2]}: a loss was computed from tensors of two types.",
        (),
        f"Convert the target to {words[2]} before the loss.",
        scene.place,
    )


def _operands(scene: Scene) -> Explanation | None:
    tensors = [
        (f"`{scene.crash.text(node)}`", value, node) for node, value in scene.operands() if isinstance(value, Tensor)
    ]
    if "used as indices" in scene.message and len(tensors) == 2:
        name, index, node = tensors[1]
        message = f"{name} is {described(index)}, and indices must be whole numbers or booleans."
        return Explanation(
            "dtype",
            message,
            origin(scene, scene.crash, node).lines,
            f"Write {_cast(name, torch.int64)}, or compare it to get a mask.",
            scene.place,
        )
    if len(tensors) != 2 or tensors[0][1].dtype == tensors[1][1].dtype:
        return None
    (left, one, left_node), (right, other, right_node) = tensors
    message = f"{left} is {described(one)} and {right} is {described(other)}: a product needs one type."
    lines = (*origin(scene, scene.crash, left_node).lines, *origin(scene, scene.crash, right_node).lines)
    wanted, odd = (one.dtype, right) if _is_default(one) or not _is_default(other) else (other.dtype, left)
    return Explanation("dtype", message, lines, f"Write {_cast(odd, wanted)}.", scene.place)


def _is_default(tensor: Tensor) -> bool:
    return tensor.dtype == torch.get_default_dtype()
