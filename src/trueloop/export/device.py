"""On which device an exported model runs: cpu, cuda, or cuda:N. Its numbers are single precision everywhere: TF32 is
off."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.errors import Misuse, did_you_mean
from trueloop.export.exporter import Array, Runner

if TYPE_CHECKING:
    import torch

__all__ = ["TorchRunner", "device_asked", "exact", "gpu_facts", "kind_of", "number_of", "shown", "torch_device"]

_WORD: Final = re.compile(r"cpu|cuda(:(0|[1-9]\d{0,2}))?")


def device_asked(text: str) -> str:
    """What was typed behind --device. Whether it is there is asked by whoever is to run on it."""
    if not _WORD.fullmatch(text):
        guess = did_you_mean(text, ("cpu", "cuda", "cuda:0"))
        raise Misuse(
            f"--device cannot be {text!r}.{guess} Nothing was run: write cpu, cuda, or cuda:1 for the second GPU."
        )
    return text


def kind_of(device: str) -> str:
    """cpu or cuda."""
    return device.partition(":")[0]


def number_of(device: str) -> int:
    """Of a GPU; the first one unless it is told."""
    return int(device.partition(":")[2] or 0)


def torch_device(device: str) -> torch.device:
    """With its number: a device without one is not equal to that of the tensors on it. Raises Misuse if torch finds
    none here."""
    import torch

    if kind_of(device) == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this torch was built without it)"
        raise Misuse(
            f"--device {device} needs CUDA, and torch finds none here{built}. Nothing was run: give --device cpu."
        )
    count = torch.cuda.device_count()
    if number_of(device) >= count:
        there = "one GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise Misuse(f"--device {device} is not there: this machine has {there}. Nothing was run.")
    return torch.device("cuda", number_of(device))


def gpu_facts(device: str) -> dict[str, str]:
    """What machine code for this device is bound to."""
    import torch

    if kind_of(device) == "cpu":
        return {"device": "cpu"}
    major, minor = torch.cuda.get_device_capability(torch_device(device))
    return {"device": "cuda", "gpu": torch.cuda.get_device_name(torch_device(device)), "capability": f"{major}.{minor}"}


def shown(device: str) -> str:
    """With the GPU's name, if torch knows it: ONNX Runtime may have a GPU that torch has not."""
    import torch

    known = kind_of(device) == "cuda" and torch.cuda.is_available()
    return f"{device} ({torch.cuda.get_device_name(torch_device(device))})" if known else device


def exact(device: torch.device) -> AbstractContextManager[None]:
    """TF32 is a setting of the whole process, and on for convolutions by itself: off here, and put back."""
    from trueloop.engine.precision import Precision

    return nullcontext() if device.type == "cpu" else Precision("fp32", device).matmul_precision()


@final
class TorchRunner(Runner):
    """What torch calls with tensors. Arrays are copied to its device, and its answers back: then they are computed."""

    def __init__(self, called: Callable[..., Sequence[Any]], device: torch.device) -> None:
        self.called, self.device = called, device

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad(), exact(self.device):
            answered = self.called(*(torch.from_numpy(array).to(self.device) for array in inputs))
            return [tensor.cpu().numpy() for tensor in answered]
