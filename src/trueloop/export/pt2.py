"""pt2: the graph of `torch.export.save`. It runs wherever torch does, without the model's Python code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, final

from trueloop.export.exporter import Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Pt2"]


@final
class Pt2(Exporter):
    """`safety` refuses files that execute code when loaded."""

    target = "pt2"
    file = "model.pt2"
    runtime = "torch"

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        import torch

        from trueloop.export.trace import suppress_output, trace

        graph, ports = trace(program, example)
        with suppress_output():
            buffer = io.BytesIO()  # on a full disk, torch would abort the process
            torch.export.save(graph, buffer)
        file.write_bytes(buffer.getbuffer())
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        import torch
        from torch.export.passes import move_to_device_pass

        from trueloop.export.device import torch_device
        from trueloop.export.exporter import TorchRunner
        from trueloop.export.safety import safe_graph

        graph, place = torch.export.load(safe_graph(artifact.file)), torch_device(device)
        return TorchRunner((graph if place.type == "cpu" else move_to_device_pass(graph, place)).module(), place)

    def open_confined(self, file: BinaryIO, shown: Path) -> Runner:
        import torch

        from trueloop.export.exporter import TorchRunner
        from trueloop.export.safety import safe_graph

        return TorchRunner(torch.export.load(safe_graph(shown, file)).module(), torch.device("cpu"))
