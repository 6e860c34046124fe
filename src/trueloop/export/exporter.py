"""The two seams: `Exporter` writes a program as a file of its target, `Runner` runs such a file. One file of this
folder per target.

A target's file imports torch only where it exports: what runs an ONNX model needs none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy.typing as npt

from trueloop.errors import MissingExtra, Misuse
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from torch import Tensor

    from trueloop.export.program import Exportable, Layout

__all__ = ["Array", "Exporter", "FakeRunner", "Given", "Runner", "installed"]

Array = npt.NDArray[Any]
FOR_GPUS: Final = {"onnxruntime": ("onnxruntime-gpu",)}
"""Package -> names under which the same is published for GPUs."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an exporter may try the program on: a few real samples, and what is free in their shapes."""

    tensors: tuple[Tensor, ...]
    ports: tuple[Port, ...]
    """None in a shape: this dimension is free; the first one is the batch, any other the length of a sequence."""
    layout: Layout
    """How the tensors stand together where the model takes them."""
    device: str = "cpu"
    """What machine code is made for; other targets are traced on the CPU, and are of no device."""


class Runner(ABC):
    """An opened artifact."""

    @abstractmethod
    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """One batch: arrays in the order of `Artifact.inputs`; the answer in the order of `Artifact.outputs`."""


@final
class FakeRunner(Runner):
    """For tests of what serves or measures: answers by a function, and remembers how many samples each call had."""

    def __init__(self, answer: Callable[..., Sequence[Array]]) -> None:
        self.answer = answer
        self.batches: list[int] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        self.batches.append(len(inputs[0]))
        return list(self.answer(*inputs))


class Exporter(ABC):
    """One target."""

    target: ClassVar[str]
    file: ClassVar[str]
    """What the model is called in the artifact's folder."""
    runtime: ClassVar[str]
    """The package that runs it, by the name that pip knows."""
    extra: ClassVar[str] = ""
    """Which extra of trueloop installs what it needs; empty: it is always there."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Packages of that extra, by their names."""
    inside: ClassVar[bool] = True
    """Does the file do what the recipe does to raw samples on the device?"""
    batch_limit: ClassVar[int | None] = None
    """The largest batch that it can take; None: any."""
    exact_minor: ClassVar[bool] = False
    """Does it run only with the very minor version of the runtime that it was made with?"""
    native: ClassVar[bool] = False
    """Is it machine code, for one kind of machine?"""
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    """Where its runtime can run it."""
    notes: ClassVar[tuple[str, ...]] = ()
    """What a person should know of this target."""

    @abstractmethod
    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        """The inputs as the written program takes them. What torch or the target raise is explained by `explained`."""

    @abstractmethod
    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        """The file is whole: it was verified against its hash."""

    def fits(self, artifact: Artifact, device: str) -> None:
        """May this very file run on this device? Raises BadArtifact; what is no machine code is of no device."""

    def require(self, device: str = "cpu") -> None:
        """Raises MissingExtra, or Misuse if it cannot run on this device here."""
        for package in self.needs:
            if not installed(package):
                raise MissingExtra(
                    f"--to {self.target} needs {package}, which is not installed. Nothing was run: pip install 'trueloop[{self.extra}]'"
                )
        if device.partition(":")[0] not in self.devices:
            raise Misuse(
                f"{self.target} runs on the CPU only, not on {device}. Nothing was run: pt2 and aoti run on a GPU."
            )
        if device != "cpu":
            self.reach(device)

    def reach(self, device: str) -> None:
        """Is this device there for its runtime? Raises Misuse or MissingExtra."""
        from trueloop.export.device import torch_device

        torch_device(device)


def installed(package: str) -> str:
    """Its version; empty: it is not there."""
    for name in (package, *FOR_GPUS.get(package, ())):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
