"""pt2: torch's own exported graph (`torch.export.save`). It runs wherever torch does, without the model's Python
code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, final

from trueloop.export.exporter import Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Pt2"]


@final
class Pt2(Exporter):
    """Before it is loaded, the file is searched for anything that could run code: see `trust`."""

    target = "pt2"
    file = "model.pt2"
    runtime = "torch"

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        import torch

        from trueloop.export.traced import quietly, traced

        graph, ports = traced(program, given)
        with quietly():
            held = io.BytesIO()  # a disk that is full would end the whole process, from inside torch
            torch.export.save(graph, held)
        file.write_bytes(held.getbuffer())
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        import torch
        from torch.export.passes import move_to_device_pass

        from trueloop.export.device import TorchRunner, torch_device
        from trueloop.export.trust import trusted_graph

        trusted_graph(artifact.file)
        graph, place = torch.export.load(artifact.file), torch_device(device)
        return TorchRunner((graph if place.type == "cpu" else move_to_device_pass(graph, place)).module(), place)
