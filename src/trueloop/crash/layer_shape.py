"""The input of a layer has the wrong shape."""

from math import isqrt, prod
from typing import Final, NamedTuple

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, article, described, factors, spot, written, written_layer
from trueloop.crash.origin import Built, Origin, built, layer_input
from trueloop.crash.scene import Layer, Scene
from trueloop.torch_private.autograd import saved
from trueloop.torch_private.modules import ConvNd, NormBase

__all__ = ["explain"]

_SIGNS: Final = (
    "shapes cannot be multiplied",
    "channels, but got",
    "(unbatched) or",
    "running_mean should contain",
    "D input (got",
    "normalized_shape=",
    "weight to be a vector of size equal to the number of channels",
    "must be equal to input_size",
    "was expecting embedding dimension",
    "both arguments to linear need to be at least 1D",
)  # Messages of torch for an input of a wrong shape


class _Wrong(NamedTuple):
    """What a layer expects, and how to provide it."""

    expects: str  # `256 features in the last dimension`
    has: str  # `400`
    reshape: str = ""  # The input in the right shape, if the sizes show how; {x} stands for the input
    because: str = ""
    rebuild: str = ""  # The layer that fits this input: `nn.Linear(400, 120)`


def explain(scene: Scene) -> Explanation | None:
    layer = scene.layer
    if layer is None or not isinstance(layer.given, Tensor) or not any(sign in scene.message for sign in _SIGNS):
        return None
    wrong = _compare(layer.module, layer.given)
    if wrong is None:
        return None
    name, origin = layer_input(scene, layer)
    where = built(scene, layer)
    kind = written_layer(layer.module)
    has = f"{name} has {wrong.has}: {described(layer.given)}"
    message = f"`{layer.name}`, {article(kind)} {kind}, expects {wrong.expects}, but {has}."
    return scene.explanation(message, _details(layer, wrong, origin, where), _fix(layer, wrong, name, where))


def _details(layer: Layer, wrong: _Wrong, origin: Origin, where: Built | None) -> tuple[str, ...]:
    lines = [*origin.lines]
    before = _flattened_from(layer.given)
    if before is not None and len(before) > 2 and prod(before[1:]) == layer.given.shape[-1]:
        lines.append(f"It was flattened from {written(before)}: {factors(before[1:])}.")
    if wrong.because:
        lines.append(wrong.because)
    if where is not None:
        lines.append(where.line)
    return tuple(lines)


def _fix(layer: Layer, wrong: _Wrong, name: str, where: Built | None) -> str:
    if wrong.reshape and not layer.direct:
        reshaped = f"Pass it {wrong.reshape.format(x='x')}, where x is its input."
        return "Put nn.Flatten() before it." if "flatten" in wrong.reshape else reshaped
    if wrong.reshape:
        plain = name.strip("`")
        return f"Call it with {wrong.reshape.format(x=plain if plain.isidentifier() or plain.endswith(')') else 'x')}."
    if not wrong.rebuild:
        return "Pass the shape that the layer expects, or build the layer for this one."
    at = f" at {spot(where.place)}" if where else ""
    return f"Write {wrong.rebuild}{at}, or change the layers before it."


def _flattened_from(tensor: Tensor) -> list[int] | None:
    """The shape before the view that created the tensor, from its graph."""
    sizes = saved(tensor.grad_fn, "self_sym_sizes")
    viewed = sizes is not None and "View" in type(tensor.grad_fn).__name__
    return [int(dimension) for dimension in sizes] if viewed else None


# -- one function per family of layers; None if the shape is right --


def _compare(module: nn.Module, given: Tensor) -> _Wrong | None:
    if isinstance(module, nn.Linear):
        return _linear(module, given)
    if isinstance(module, ConvNd):
        return _convolution(module, given)
    if isinstance(module, NormBase):
        return _batch_norm(module, given)
    if isinstance(module, nn.GroupNorm) and given.ndim > 1 and given.shape[1] != module.num_channels:
        found, groups = given.shape[1], module.num_groups
        rebuild = "" if found % groups else f"nn.GroupNorm({groups}, {found})"
        return _Wrong(f"{module.num_channels} channels in dimension 1", str(found), rebuild=rebuild)
    if isinstance(module, nn.LayerNorm):
        wanted, last = module.normalized_shape, written(given.shape[-len(module.normalized_shape) :])
        expects = f"the last dimensions to be {written(wanted)}"
        return None if last == written(wanted) else _Wrong(expects, last, rebuild=f"nn.LayerNorm({last})")
    if isinstance(module, nn.RNNBase) and given.ndim and given.shape[-1] != module.input_size:
        rebuild = f"nn.{type(module).__name__}({given.shape[-1]}, {module.hidden_size}, …)"
        return _Wrong(f"{module.input_size} features in the last dimension", str(given.shape[-1]), rebuild=rebuild)
    if isinstance(module, nn.MultiheadAttention) and given.shape[-1] != module.embed_dim:
        return _Wrong(f"{module.embed_dim} features in the last dimension (embed_dim)", str(given.shape[-1]))
    return None


def _linear(module: nn.Linear, given: Tensor) -> _Wrong | None:
    wanted = module.in_features
    if given.ndim == 0:
        return _Wrong(f"{wanted} features in the last dimension", "no dimensions", "{x}.reshape(1, -1)")
    found = given.shape[-1]
    if found == wanted:
        return None
    expects = f"{wanted} features in the last dimension"
    if given.ndim > 2 and prod(given.shape[1:]) == wanted:
        because = f"One sample has {factors(given.shape[1:])} values, but it is not flattened."
        return _Wrong(expects, str(found), "{x}.flatten(1)", because)
    if given.ndim == 1 and found > wanted and found % wanted == 0:
        product = f"{found} = {found // wanted} * {wanted}"
        because = f"It has one dimension, and {product}: the batch dimension was flattened too."
        reshape = f"{{x}}.reshape(-1, {wanted}) (or use flatten(1), which keeps the batch)"
        return _Wrong(expects, str(found), reshape, because)
    if given.ndim == 3 and given.shape[1] == wanted:
        return _Wrong(expects, str(found), "{x}.transpose(1, 2)", f"The {wanted} are in dimension 1.")
    return _Wrong(expects, str(found), rebuild=f"nn.Linear({found}, {module.out_features})")


def _convolution(module: ConvNd, given: Tensor) -> _Wrong | None:
    dimensions, wanted = len(module.kernel_size), module.in_channels
    if given.ndim == dimensions + 2:
        order = (0, dimensions + 1, *range(1, dimensions + 1))
        return _channels(module, given, 1, f"{{x}}.permute{order}")
    if given.ndim == dimensions + 1:
        if wanted == 1 and given.shape[0] != 1 and given.shape[-1] != 1:
            read_as = f"With {given.ndim} dimensions it is read as one sample of {given.shape[0]} channels"
            because = f"{read_as}: the channel dimension is missing."
            return _Wrong("1 channel", str(given.shape[0]), "{x}.unsqueeze(1)", because)
        return _channels(module, given, 0, f"{{x}}.permute{(dimensions, *range(dimensions))}")
    axes = ("depth", "height", "width")[-dimensions:] if dimensions > 1 else ("length",)
    expects = f"{dimensions + 2} dimensions (batch, channels, {', '.join(axes)})"
    side = isqrt(given.shape[-1] // wanted) if given.ndim == 2 and dimensions == 2 else 0
    if side > 1 and side * side * wanted == given.shape[-1]:
        because = f"Each sample is flat: {given.shape[-1]} = {wanted}*{side}*{side}."
        return _Wrong(expects, str(given.ndim), f"{{x}}.reshape(-1, {wanted}, {side}, {side})", because)
    return _Wrong(expects, str(given.ndim))


def _channels(module: ConvNd, given: Tensor, dimension: int, permute: str) -> _Wrong | None:
    wanted, found = module.in_channels, given.shape[dimension]
    if found == wanted:
        return None
    expects = f"{wanted} channels in dimension {dimension}"
    if given.shape[-1] == wanted:
        because = f"The last dimension is {wanted}: the channels are last, but torch expects them first."
        return _Wrong(expects, str(found), permute, because)
    because = "" if dimension else f"With {given.ndim} dimensions it is read as one sample without a batch dimension."
    rebuild = f"nn.{type(module).__name__}({found}, {module.out_channels}, …)"
    return _Wrong(expects, str(found), "", because, rebuild)


def _batch_norm(module: NormBase, given: Tensor) -> _Wrong | None:
    allowed = {"1d": (2, 3), "2d": (4,), "3d": (5,)}.get(type(module).__name__[-2:], ())
    if allowed and given.ndim not in allowed:
        dims = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}.get(given.ndim, "")
        rebuild = f"nn.{type(module).__name__[:-2]}{dims}({module.num_features})" if dims else ""
        return _Wrong(f"{' or '.join(map(str, allowed))} dimensions", str(given.ndim), rebuild=rebuild)
    if given.ndim > 1 and given.shape[1] != module.num_features:
        last = given.ndim == 3 and given.shape[-1] == module.num_features
        because = f"The last dimension is {module.num_features}." if last else ""
        reshape = "{x}.transpose(1, 2), and transpose the output back" if because else ""
        rebuild = f"nn.{type(module).__name__}({given.shape[1]})"
        return _Wrong(f"{module.num_features} channels in dimension 1", str(given.shape[1]), reshape, because, rebuild)
    return None
