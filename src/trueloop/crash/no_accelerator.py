"""The script uses a device that this machine, or this build of torch, does not have."""

import re
from typing import Final

import torch

from trueloop.crash.explanation import Explanation
from trueloop.crash.scene import Scene
from trueloop.results.check import counted

__all__ = ["explain"]

_SIGNS: Final = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|invalid device ordinal"
    r"|Attempting to deserialize object on a CUDA device"
)


def explain(scene: Scene) -> Explanation | None:
    found = _SIGNS.search(scene.message)
    if found is None:
        return None
    count = torch.cuda.device_count()
    has = f"torch {torch.__version__} sees {counted(count, 'CUDA device')} here"
    if "deserialize" in found[0]:
        message = f"The file was saved from a CUDA device, but {has}."
        fix = 'Load it with torch.load(…, map_location="cpu").'
    elif "ordinal" in found[0]:
        message = f"The script asks for a CUDA device number that does not exist: {has}, numbered from 0."
        fix = f"Use cuda:0 to cuda:{count - 1}." if count > 1 else "Use cuda:0."
    else:
        build = "; this torch was built without CUDA" if torch.version.cuda is None else ""
        message = f"The script asks for a CUDA device, but {has}{build}."
        fix = 'Choose the device that exists: device = "cuda" if torch.cuda.is_available() else "cpu".'
    return scene.explanation(message, (), fix)
