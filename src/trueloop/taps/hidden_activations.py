"""Hidden activations, read from the graph of a loss: relu, sigmoid and tanh save their output until backward has used
it.

So function calls and layers look the same, on any chosen step, without patches. An activation is hidden if a layer with
a weight feeds it, and every path from it to the loss goes through further weights. An activation that reaches the loss
by another path (the model's output, a penalty for sparsity) has its values on purpose.
"""

from typing import Any, Final, Literal, NamedTuple

from torch import Tensor, nn

from trueloop.measure.graph import is_view, node_name, operation_name
from trueloop.torch_private.autograd import saved_result

__all__ = ["Activation", "hidden_activations"]

Function = Literal["relu", "sigmoid", "tanh"]

_FUNCTIONS: Final[dict[str, Function]] = {"ReluBackward": "relu", "SigmoidBackward": "sigmoid", "TanhBackward": "tanh"}
_NORMS: Final = ("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm", "NativeLayerNorm", "NativeGroupNorm")
_PRODUCTS: Final = ("Addmm", "Mm", "Linear")
_TURNS: Final = ("T", "Transpose", "Permute")
_CONVOLUTION: Final = "Convolution"
_FAR: Final = 8  # Nodes between an activation and its layer: a norm, views, a residual sum


class Activation(NamedTuple):
    """One use of an activation function. Holds live tensors: do not keep it."""

    function: Function
    weight: Tensor  # Of the layer that feeds it
    dimension: int  # The dimension of the values that counts units
    rows: int  # The dimension of the weight that counts units
    values: Tensor
    gate: bool  # Its values go into a product or sum before any weight, as with a gate


def hidden_activations(root: Any, limit: int = 20_000) -> list[Activation]:
    """The hidden activations in the graph behind a node, nearest to the loss first."""
    users: dict[Any, list[Any]] = {root: []}
    waiting = [root]
    while waiting and len(users) < limit:
        node = waiting.pop()
        for behind in _behind(node):
            if behind not in users:
                users[behind] = []
                waiting.append(behind)
            users[behind].append(node)
    bare = _before_any_weight(root, limit)
    found = (_activation(node, users) for node in users if _function(node) is not None and node not in bare)
    return [activation for activation in found if activation is not None]


def _behind(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions if following is not None]


def _function(node: Any) -> Function | None:
    return _FUNCTIONS.get(node_name(node).rstrip("0123456789"))


def _before_any_weight(root: Any, limit: int) -> set[Any]:
    """Nodes with a path to the loss that has no weight on it."""
    seen, waiting = {root}, [root]
    while waiting and len(seen) < limit:
        node = waiting.pop()
        if _weight_of(node) is not None:
            continue
        for behind in _behind(node):
            if behind not in seen:
                seen.add(behind)
                waiting.append(behind)
    return seen


def _weight_of(node: Any) -> Tensor | None:
    """The weight that an operation applies: a parameter among its operands, perhaps transposed or cast."""
    for behind in _behind(node):
        for _ in range(3):
            following = behind.next_functions
            if not following:
                variable = getattr(behind, "variable", None)
                if isinstance(variable, nn.Parameter) and variable.dim() >= 2:
                    return variable
                break
            if not is_view(behind) or following[0][0] is None:
                break
            behind = following[0][0]
    return None


def _activation(node: Any, users: dict[Any, list[Any]]) -> Activation | None:
    function, layer = _function(node), _layer_feeding(node)
    weight = None if layer is None else _weight_of(layer)
    values = None if weight is None else saved_result(node)
    if function is None or layer is None or weight is None or values is None or not values.numel():
        return None
    if operation_name(layer) == _CONVOLUTION:
        rows = 0 if weight.shape[0] == values.shape[1] else 1  # a transposed convolution has its outputs second
        dimension = 1
    else:
        dimension, rows = values.dim() - 1, 0 if _is_transposed(layer) else 1
    if values.dim() < 2 or weight.shape[rows] != values.shape[dimension]:
        return None
    gate = any(_is_gated(user, users) for user in users[node])
    return Activation(function, weight, dimension, rows, values.detach(), gate)


def _layer_feeding(node: Any) -> Any:
    """The product or convolution behind an activation, through norms, views, biases and residual sums; or None."""
    for _ in range(_FAR):
        inner = [behind for behind in _behind(node) if behind.next_functions]
        if not inner:
            return None
        node = inner[0]
        name = operation_name(node)
        if name in _PRODUCTS or name == _CONVOLUTION:
            return node
        if not (is_view(node) or name in _NORMS or name == "Add"):
            return None
    return None


def _is_transposed(layer: Any) -> bool:
    """nn.Linear applies its weight transposed; `x @ weight` does not."""
    return operation_name(layer) == "Linear" or any(operation_name(behind) in _TURNS for behind in _behind(layer))


def _is_gated(user: Any, users: dict[Any, list[Any]], depth: int = 0) -> bool:
    """Does anything but a weight, through views, norms and dropout, use the values?"""
    if _weight_of(user) is not None and (operation_name(user) in _PRODUCTS or operation_name(user) == _CONVOLUTION):
        return False
    if depth >= _FAR or not (is_view(user) or operation_name(user) in _NORMS or _drops(user)):
        return True
    return any(_is_gated(later, users, depth + 1) for later in users.get(user, ())) or not users.get(user)


def _drops(node: Any) -> bool:
    """A dropout: a product with a mask that holds zeros and one other value."""
    name = operation_name(node)
    if name == "NativeDropout":
        return True
    mask = saved_result(node, "other") if name == "Mul" and len(_behind(node)) == 1 else None
    return mask is not None and mask.numel() > 1 and bool(((mask == 0) | (mask == mask.max())).all())
