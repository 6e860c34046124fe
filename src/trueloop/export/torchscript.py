"""torchscript: for programs that load models by `torch::jit::load`. torch calls it deprecated; new work is better off with pt2 or aoti.

A trace follows one run: an `if` or a loop over sizes is fixed as that run took it: so several batch sizes and lengths are verified.
Loading it unpickles nothing into classes of Python's; the code inside is searched before for what could write files: see `trust`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.artefact import Artefact, Port
from trueloop.export.exporter import Array, Exporter, Given, Runner

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Torchscript", "TorchscriptRunner"]


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
            torch.jit.save(traced, file)
        return given.ports

    def open(self, artefact: Artefact) -> Runner:
        import torch

        from trueloop.export.trust import trusted_script

        trusted_script(artefact.file)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            module = torch.jit.load(artefact.file, map_location="cpu")  # type: ignore[no-untyped-call]
        return TorchscriptRunner(module)


@final
class TorchscriptRunner(Runner):
    """The loaded module."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad():
            answered = self.module(*map(torch.from_numpy, inputs))
        return [tensor.numpy() for tensor in answered]
