"""The device of an exported model: cpu, cuda or cuda:N. Computation is fp32 on all of them; TF32 is off."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, did_you_mean

if TYPE_CHECKING:
    import torch

__all__ = ["device_index", "device_type", "gpu_facts", "gpu_label", "no_tf32", "parse_device", "torch_device"]

_WORD: Final = re.compile(r"cpu|cuda(:(0|[1-9]\d{0,2}))?")


def parse_device(text: str) -> str:
    """The value of --device. Whether the device exists is checked later."""
    if not _WORD.fullmatch(text):
        guess = f"{did_you_mean(text, ('cpu', 'cuda', 'cuda:0'))} Nothing was run"
        raise Misuse(f"--device cannot be {text!r}.{guess}: write cpu, cuda, or cuda:1 for the second GPU.")
    return text


def device_type(device: str) -> str:
    """cpu or cuda."""
    return device.partition(":")[0]


def device_index(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def torch_device(device: str) -> torch.device:
    """With its index: torch.device("cuda") does not equal the device of its tensors. Raises Misuse if unavailable."""
    import torch

    if device_type(device) == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this torch was built without it)"
        missing = f"--device {device} needs CUDA, which torch does not find{built}"
        raise Misuse(f"{missing}. Nothing was run: use --device cpu.")
    count = torch.cuda.device_count()
    if device_index(device) >= count:
        gpus = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise Misuse(f"--device {device} does not exist: this machine has {gpus}. Nothing was run.")
    return torch.device("cuda", device_index(device))


def gpu_facts(device: str) -> dict[str, str]:
    """What machine code for this device depends on."""
    import torch

    if device_type(device) == "cpu":
        return {"device": "cpu"}
    major, minor = torch.cuda.get_device_capability(torch_device(device))
    return {"device": "cuda", "gpu": torch.cuda.get_device_name(torch_device(device)), "capability": f"{major}.{minor}"}


def gpu_label(device: str) -> str:
    """With the name of the GPU, if torch can see it: ONNX Runtime may use a GPU that torch cannot."""
    import torch

    known = device_type(device) == "cuda" and torch.cuda.is_available()
    return f"{device} ({torch.cuda.get_device_name(torch_device(device))})" if known else device


def no_tf32(device: torch.device) -> AbstractContextManager[None]:
    """TF32 is a global setting, on by default for convolutions."""
    from trueloop.engine.precision import Precision

    return nullcontext() if device.type == "cpu" else Precision("fp32", device).matmul_precision()
