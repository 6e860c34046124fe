"""aoti: compiled ahead of time by AOTInductor into machine code, in a package that torch loads without a compiler or the model's code.

It is native code: loading it is running it, as with any program. Its hash says that it is whole, not whose it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.artefact import Artefact, Port
from trueloop.export.exporter import Array, Exporter, Given, Runner

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Aoti", "AotiRunner"]


@final
class Aoti(Exporter):
    """For the CPU of this kind of machine, and this minor version of torch."""

    target = "aoti"
    file = "model.pt2"
    runtime = "torch"
    exact_minor = True
    native = True
    notes = ("The file is machine code: load it only if you trust whoever made it, as you would a program.",)

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        from torch._inductor import aoti_compile_and_package

        from trueloop.export.traced import quietly, traced

        graph, ports = traced(program, given)
        with quietly():
            aoti_compile_and_package(graph, package_path=str(file))
        return ports

    def open(self, artefact: Artefact) -> Runner:
        from torch._inductor import aoti_load_package

        return AotiRunner(aoti_load_package(str(artefact.file)))


@final
class AotiRunner(Runner):
    """The loaded package."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad():
            answered = self.compiled(*map(torch.from_numpy, inputs))
        return [tensor.numpy() for tensor in answered]
