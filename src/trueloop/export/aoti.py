"""aoti: compiled ahead of time by AOTInductor. torch loads it without a compiler and without the model's code.

It is machine code: loading it executes it. Its hash shows that it is undamaged, not who made it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from trueloop.errors import BadArtifact, CannotExport
from trueloop.export.exporter import Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Aoti"]


@final
class Aoti(Exporter):
    """For one CPU architecture or GPU compute capability, and one minor version of torch."""

    target = "aoti"
    file = "model.pt2"
    runtime = "torch"
    exact_minor = True
    native = True
    notes = ("The file is machine code: load it only if you trust its author.",)

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        from trueloop.export.cpp_compiler import cpp_compiler
        from trueloop.export.device import no_tf32, torch_device
        from trueloop.export.trace import suppress_output, trace
        from trueloop.torch_private.inductor import compile_package

        _require_toolkit(example.device)
        compiler = cpp_compiler()
        graph, ports = trace(program, example)
        with suppress_output(), no_tf32(torch_device(example.device)):
            compile_package(graph, file, compiler)
        return ports

    def notes_of_export(self) -> tuple[str, ...]:
        from trueloop.export.cpp_compiler import cpp_compiler_note

        return (*self.notes, *filter(None, [cpp_compiler_note()]))

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.export.device import device_index, torch_device
        from trueloop.export.exporter import TorchRunner
        from trueloop.torch_private.inductor import aoti_load_package

        place = torch_device(device)
        if place.type == "cpu":
            return TorchRunner(aoti_load_package(str(artifact.file)), place)
        return TorchRunner(aoti_load_package(str(artifact.file), device_index=device_index(device)), place)

    def check_fits(self, artifact: Artifact, device: str) -> None:
        import torch

        from trueloop.export.device import device_type, gpu_facts

        made_for, asked = artifact.runtime, device_type(device)
        gpu = f"{made_for.get('gpu')}, capability {made_for.get('capability')}"
        is_for = f"{artifact.folder} is machine code for {f'CUDA ({gpu})' if artifact.device == 'cuda' else 'the CPU'}"
        if asked != artifact.device:
            why = f"{is_for} and does not run on {device}. Nothing was run:"
            raise BadArtifact(f"{why} use --device {artifact.device}, or export the run again with --device {asked}.")
        if asked == "cuda" and not torch.cuda.is_available():
            raise BadArtifact(f"{is_for}, and torch finds no GPU. Nothing was run. Export it again with --device cpu.")
        here = gpu_facts(device)
        if here.get("capability") != made_for.get("capability"):
            why = f"{is_for}, and {device} is {here['gpu']}, capability {here['capability']}. Nothing was run."
            raise BadArtifact(f"{why} Export the run again here with --device cuda.")


def _require_toolkit(device: str) -> None:
    if device == "cpu":
        return
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None:
        why = f"aoti needs the CUDA toolkit (nvcc and its headers) to compile for {device}, and it is not found:"
        raise CannotExport(f"{why} install it, or set CUDA_HOME. Nothing was exported; pt2 does not need it.")
