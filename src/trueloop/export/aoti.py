"""aoti: compiled ahead of time by AOTInductor into machine code, in a package that torch loads without a compiler or
the model's code.

It is native code: loading it is running it, as with any program. Its hash says that it is whole, not whose it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from trueloop.errors import BadArtifact, CannotExport
from trueloop.export.exporter import Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Aoti"]


@final
class Aoti(Exporter):
    """For the CPU of this kind of machine, or this kind of GPU, and this minor version of torch."""

    target = "aoti"
    file = "model.pt2"
    runtime = "torch"
    exact_minor = True
    native = True
    notes = ("The file is machine code: load it only if you trust whoever made it, as you would a program.",)

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        from trueloop.export.device import exact, torch_device
        from trueloop.export.traced import quietly, traced
        from trueloop.torch_private.inductor import aoti_compile_and_package

        _refuse_no_toolkit(given.device)
        graph, ports = traced(program, given)
        with quietly(), exact(torch_device(given.device)):
            aoti_compile_and_package(graph, package_path=str(file))
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.export.device import TorchRunner, number_of, torch_device
        from trueloop.torch_private.inductor import aoti_load_package

        place = torch_device(device)
        if place.type == "cpu":
            return TorchRunner(aoti_load_package(str(artifact.file)), place)
        return TorchRunner(aoti_load_package(str(artifact.file), device_index=number_of(device)), place)

    def fits(self, artifact: Artifact, device: str) -> None:
        import torch

        from trueloop.export.device import gpu_facts, kind_of

        made_for, asked = artifact.runtime, kind_of(device)
        gpu = f"{made_for.get('gpu')}, capability {made_for.get('capability')}"
        is_for = f"{artifact.folder} is machine code for {f'CUDA ({gpu})' if artifact.device == 'cuda' else 'the CPU'}"
        if asked != artifact.device:
            raise BadArtifact(
                f"{is_for} and does not run on {device}. Nothing was run: give --device {artifact.device}, or export the run again with "
                f"--device {asked}."
            )
        if asked == "cuda" and not torch.cuda.is_available():
            raise BadArtifact(
                f"{is_for}, and torch finds no GPU here. Nothing was run. Export the run again with --device cpu."
            )
        here = gpu_facts(device)
        if here.get("capability") != made_for.get("capability"):
            raise BadArtifact(
                f"{is_for}, and {device} is {here['gpu']}, capability {here['capability']}. Nothing was run. Export the run again here "
                "with --device cuda."
            )


def _refuse_no_toolkit(device: str) -> None:
    """Where there is no GPU to compile for, nobody needs it."""
    if device == "cpu":
        return
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None:
        raise CannotExport(
            f"aoti needs the CUDA toolkit (nvcc and its headers) to compile for {device}, and it is not found: install it, or set "
            "CUDA_HOME. Nothing was exported; pt2 needs none."
        )
