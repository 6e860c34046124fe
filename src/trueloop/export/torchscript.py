"""torchscript: for programs that use `torch::jit::load`. torch has deprecated it; prefer pt2 or aoti.

A trace fixes every `if` and loop as the traced call took it. `value_reads` refuses a branch on values of the inputs; a
branch on their sizes is verified with several batch sizes and lengths. Loading unpickles no Python
classes; `safety` refuses archives whose code accesses files.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Torchscript"]

_ON_CPU: Final = b'torch.device("cpu")'  # A device in traced code: the model created a tensor on it


@final
class Torchscript(Exporter):
    """By `torch.jit.trace`."""

    target = "torchscript"
    file = "model.pt"
    runtime = "torch"
    notes = ("TorchScript is deprecated by torch: use pt2 or aoti where you can.",)

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        import torch

        from trueloop.export.value_reads import RefuseValueReads

        with torch.no_grad(), warnings.catch_warnings(), RefuseValueReads(example.tensors):
            # `notes` says so already. What is left of the tracer's warnings is about sizes, which are verified.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
            traced = torch.jit.trace(program, example.tensors, check_trace=False)  # type: ignore[no-untyped-call]
            buffer = io.BytesIO()  # on a full disk, torch would abort the process
            torch.jit.save(traced, buffer)
        file.write_bytes(buffer.getbuffer())
        return example.ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        import torch

        from trueloop.export.device import torch_device
        from trueloop.export.exporter import TorchRunner
        from trueloop.export.safety import safe_script

        archive = safe_script(artifact.file)
        place = torch_device(device)
        if place.type != "cpu":
            _refuse_cpu_tensors(artifact.file, device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            module = torch.jit.load(archive, map_location=place)  # type: ignore[no-untyped-call]
        return TorchRunner(module, place)


def _refuse_cpu_tensors(file: Path, device: str) -> None:
    with zipfile.ZipFile(file) as archive:
        if any(name.endswith(".py") and _ON_CPU in archive.read(name) for name in archive.namelist()):
            why = f"{file} creates tensors on the CPU, where it was traced, and does not run on {device}."
            raise BadArtifact(f"{why} Nothing was run: export the run with --to pt2.")
