"""The hidden state handed to a recurrent layer has another size than this batch needs."""

from __future__ import annotations

import re
from typing import Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGN: Final = re.compile(r"Expected hidden(?:\[(\d)\])? size \(([\d, ]+)\), got \[([\d, ]+)\]")
"""How torch says it."""


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
    state = scene.argument(1)
    name = f"`{scene.crash.text(state)}`" if state is not None else "the hidden state"
    order = "(batch, steps, features)" if layer.module.batch_first else "(steps, batch, features)"
    first = layer.module.batch_first
    fix = f"Make the state for this batch: torch.zeros({wanted[0]}, x.size({0 if first else 1}), {wanted[-1]})."
    if len(wanted) == len(got) == layer.given.ndim == 3 and got[1] == layer.given.shape[1 if first else 0] != wanted[1]:
        fix = (
            f"The state was made for {got[1]} samples, which are read as steps here: set batch_first={not first}, "
            "or swap the input's first two dimensions."
        )
    return Explanation(
        "rnn-state",
        f"`{layer.name}` ({type(layer.module).__name__}) needs a hidden state of {wanted} for this batch, but {name} is {got}.",
        (f"Its input is {described(layer.given)}, read as {order}.", *origin(scene, scene.crash, state).lines),
        fix,
        scene.place,
    )
