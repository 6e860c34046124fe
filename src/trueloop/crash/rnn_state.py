"""The hidden state passed to a recurrent layer does not fit the size of this batch."""

import re
from typing import Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGN: Final = re.compile(r"Expected hidden(?:\[(\d)\])? size \(([\d, ]+)\), got \[([\d, ]+)\]")


def explain(scene: Scene) -> Explanation | None:
    found, layer = _SIGN.search(scene.message), scene.layer
    if (
        found is None
        or layer is None
        or not isinstance(layer.module, nn.RNNBase)
        or not isinstance(layer.given, Tensor)
    ):
        return None
    wanted, got = ([int(part) for part in group.split(",")] for group in (found[2], found[3]))
    state, first = scene.argument(1), layer.module.batch_first
    fix = f"Create the state for this batch: torch.zeros({wanted[0]}, x.size({0 if first else 1}), {wanted[-1]})."
    if len(wanted) == len(got) == layer.given.ndim == 3 and got[1] == layer.given.shape[1 if first else 0] != wanted[1]:
        fix = (
            f"The state has {got[1]} samples, but the layer reads that dimension as time steps: set "
            f"batch_first={not first}, "
            "or swap the input's first two dimensions."
        )
    order = "(batch, steps, features)" if first else "(steps, batch, features)"
    return scene.explanation(
        f"`{layer.name}` ({type(layer.module).__name__}) needs a hidden state of {wanted} for this batch, "
        f"but {scene.named(state, 'the hidden state')} is {got}.",
        (f"Its input is {described(layer.given)}, read as {order}.", *origins(scene, state)),
        fix,
    )
