"""The two seams: `Exporter` writes a program as a file of its target, `Runner` runs such a file.

A target's file imports torch only inside functions: an ONNX model runs without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, final

import numpy.typing as npt

from trueloop.errors import MissingExtra, Misuse
from trueloop.export.device import no_tf32
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from trueloop.export.program import Exportable, Layout

__all__ = ["Array", "Example", "Exporter", "FakeRunner", "Runner", "TorchRunner", "installed_version"]

Array = npt.NDArray[Any]
GPU_PACKAGES: Final = {"onnxruntime": ("onnxruntime-gpu",)}  # Package -> its names on PyPI for GPUs


@dataclass(frozen=True, slots=True)
class Example:
    """A few real samples to trace the program with, and which of their dimensions are dynamic."""

    tensors: tuple[Tensor, ...]
    ports: tuple[Port, ...]  # None in a shape: dynamic. The first dimension is the batch, others a sequence length.
    layout: Layout
    device: str = "cpu"  # The device that machine code is compiled for; other targets are traced on the CPU


class Runner(ABC):
    """An opened artifact."""

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """One batch: arrays in the order of `Artifact.inputs` -> arrays in the order of `Artifact.outputs`."""

    def close(self) -> None:
        """Ends what it started, if anything."""


@final
class FakeRunner(Runner):
    """For tests: answers with a function and records the batch size of each call."""

    def __init__(self, answer: Callable[..., Sequence[Array]]) -> None:
        self.answer = answer
        self.batches: list[int] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        self.batches.append(len(inputs[0]))
        return list(self.answer(*inputs))


class Exporter(ABC):
    """One target."""

    target: ClassVar[str]
    file: ClassVar[str]  # Name of the model's file
    runtime: ClassVar[str]  # The package on PyPI that runs it
    extra: ClassVar[str] = ""  # The extra of trueloop that installs `needs`
    needs: ClassVar[tuple[str, ...]] = ()  # Packages
    inside: ClassVar[bool] = True  # Does the file contain the recipe's `prepare`?
    batch_limit: ClassVar[int | None] = None
    exact_minor: ClassVar[bool] = False  # Does it run only with the minor version of the runtime that made it?
    native: ClassVar[bool] = False  # Is it machine code?
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    notes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        """The inputs of the written program. Errors of torch or the target pass through."""

    @abstractmethod
    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        """Called after the file was checked against its hash."""

    def open_confined(self, file: BinaryIO, shown: Path) -> Runner:
        """Called in a confined process, which opens no path. `shown`: the path, for error messages."""
        # Targets that carry code or weights alone are never opened so: `confined_runner.CONFINED` names the others.
        raise NotImplementedError(f"{type(self).__name__} opens no file in a confined process.")

    def notes_of_export(self) -> tuple[str, ...]:
        """Sentences for the artifact, after it was written."""
        return self.notes

    def check_fits(self, artifact: Artifact, device: str) -> None:
        """Raises BadArtifact if this machine code is for another device."""

    def require(self, device: str = "cpu") -> None:
        """Raises MissingExtra, or Misuse if it cannot run on this device."""
        for package in self.needs:
            if not installed_version(package):
                why = f"--to {self.target} needs {package}, which is not installed."
                raise MissingExtra(f"{why} Nothing was run: pip install 'trueloop[{self.extra}]'")
        if device.partition(":")[0] not in self.devices:
            why = f"{self.target} runs on the CPU only, not on {device}."
            raise Misuse(f"{why} Nothing was run: pt2 and aoti run on a GPU.")
        if device != "cpu":
            self.check_device(device)

    def check_device(self, device: str) -> None:
        """Raises Misuse or MissingExtra if its runtime cannot use this device."""
        from trueloop.export.device import torch_device

        torch_device(device)


def installed_version(package: str) -> str:
    """Empty: not installed."""
    for name in (package, *GPU_PACKAGES.get(package, ())):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


@final
class TorchRunner(Runner):
    """Copies arrays to the device, calls, and copies the outputs back."""

    def __init__(self, called: Callable[..., Sequence[Any]], device: torch.device) -> None:
        self.called, self.device = called, device

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad(), no_tf32(self.device):
            outputs = self.called(*(torch.from_numpy(array).to(self.device) for array in inputs))
            return [tensor.cpu().numpy() for tensor in outputs]
