"""torchscript: for programs that load models by `torch::jit::load`. torch calls it deprecated; new work is better off
with pt2 or aoti.

A trace follows one run: an `if` or a loop over sizes is fixed as that run took it: so several batch sizes and lengths
are verified. Loading it unpickles nothing into classes of Python's; the code inside is searched before for what could
write files: see `trust`.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from trueloop.errors import BadArtifact
from trueloop.export.exporter import Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Torchscript"]

_AT_HOME: Final = b'torch.device("cpu")'
"""How traced code names the device that it was made on, where the model asked for one."""


@final
class Torchscript(Exporter):
    """By `torch.jit.trace`."""

    target = "torchscript"
    file = "model.pt"
    runtime = "torch"
    notes = ("TorchScript is deprecated by torch: use pt2 or aoti where you can.",)

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        import torch

        with torch.no_grad(), warnings.catch_warnings():
            # Said in `notes` already; and what a trace may have fixed is found by running it, not by its warnings.
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
            traced = torch.jit.trace(program, given.tensors, check_trace=False)  # type: ignore[no-untyped-call]
            held = io.BytesIO()  # a disk that is full would end the whole process, from inside torch
            torch.jit.save(traced, held)
        file.write_bytes(held.getbuffer())
        return given.ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        import torch

        from trueloop.export.device import TorchRunner, torch_device
        from trueloop.export.trust import trusted_script

        trusted_script(artifact.file)
        place = torch_device(device)
        if place.type != "cpu":
            _refuse_to_leave(artifact.file, device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            module = torch.jit.load(artifact.file, map_location=place)  # type: ignore[no-untyped-call]
        return TorchRunner(module, place)


def _refuse_to_leave(file: Path, device: str) -> None:
    with zipfile.ZipFile(file) as archive:
        if any(name.endswith(".py") and _AT_HOME in archive.read(name) for name in archive.namelist()):
            raise BadArtifact(
                f"{file} makes tensors on the CPU, where it was traced, and so does not run on {device}. Nothing was run: export the run "
                "with --to pt2."
            )
