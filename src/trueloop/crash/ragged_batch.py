"""The samples of a batch have different sizes, so the loader cannot stack them."""

from __future__ import annotations

import re
from typing import Final

from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.crash.explanation import Explanation, spot, written
from trueloop.crash.scene import MISSING, Scene

__all__ = ["explain"]

_SIGN: Final = re.compile(
    r"stack expects each tensor to be equal size, but got (\[.*?\]) at entry (\d+) and (\[.*?\]) at entry (\d+)"
)
"""How torch says it."""


def explain(scene: Scene) -> Explanation | None:
    found = _SIGN.search(scene.message)
    collating = any(step.function in ("collate", "default_collate", "collate_tensor_fn") for step in scene.beyond)
    if found is None or not (collating or "_utils/collate.py" in scene.message):
        return None
    first, one, second, other = found.groups()
    batch = scene.library_local(("collate_tensor_fn",), "batch")
    sizes = (
        list(dict.fromkeys(written(part.shape) for part in batch if isinstance(part, Tensor)))
        if isinstance(batch, (list, tuple))
        else []
    )
    loaders = [value for step in scene.users for value in step.locals.values() if isinstance(value, DataLoader)]
    dataset = type(loaders[0].dataset).__name__ if len(loaders) == 1 else ""
    return Explanation(
        "ragged-batch",
        f"The samples of one batch differ in size: sample {one} is {first}, sample {other} is {second}, and only equal ones stack.",
        (
            *(
                (f"Sizes in this batch: {', '.join(sizes[:6])}{', …' if len(sizes) > 6 else ''}.",)
                if batch is not MISSING and sizes
                else ()
            ),
            *((f"They come from {dataset}, through the loader read at {spot(scene.place)}.",) if dataset else ()),
        ),
        "Give them one size in the dataset (resize, crop), or pad them in the loader's collate_fn, with torch.nn.utils.rnn.pad_sequence.",
        scene.place,
    )
