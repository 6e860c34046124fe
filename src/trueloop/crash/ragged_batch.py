"""The samples of a batch have different sizes, so the loader cannot stack them."""

import re
from typing import Final

from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.crash.explanation import Explanation, spot, written
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_SIGN: Final = re.compile(
    r"stack expects each tensor to be equal size, but got (\[.*?\]) at entry (\d+) and (\[.*?\]) at entry (\d+)"
)


def explain(scene: Scene) -> Explanation | None:
    found = _SIGN.search(scene.message)
    collating = any(step.function in ("collate", "default_collate", "collate_tensor_fn") for step in scene.beyond)
    if found is None or not (collating or "_utils/collate.py" in scene.message):
        return None
    first, one, second, other = found.groups()
    batch = scene.library_local(("collate_tensor_fn",), "batch")
    parts = batch if isinstance(batch, (list, tuple)) else ()
    sizes = list(dict.fromkeys(written(part.shape) for part in parts if isinstance(part, Tensor)))
    loaders = [value for step in scene.users for value in step.locals.values() if isinstance(value, DataLoader)]
    details = [f"Sizes in this batch: {', '.join(sizes[:6])}{', …' if len(sizes) > 6 else ''}."] if sizes else []
    if len(loaders) == 1:
        details.append(
            f"The samples come from {type(loaders[0].dataset).__name__}; {spot(scene.place)} reads the loader."
        )
    return scene.explanation(
        f"The samples of one batch differ in size, so they cannot be stacked: sample {one} is {first}, sample "
        f"{other} is {second}.",
        tuple(details),
        "Bring them to one size in the dataset (resize, crop), or pad them in the loader's collate_fn "
        "with torch.nn.utils.rnn.pad_sequence.",
    )
