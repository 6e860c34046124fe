"""pt2: torch's own exported graph (`torch.export.save`). It runs wherever torch does, without the model's Python code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.artefact import Artefact, Port
from trueloop.export.exporter import Array, Exporter, Given, Runner

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Pt2", "Pt2Runner"]


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
            torch.export.save(graph, file)
        return ports

    def open(self, artefact: Artefact) -> Runner:
        import torch

        from trueloop.export.trust import trusted_graph

        trusted_graph(artefact.file)
        return Pt2Runner(torch.export.load(artefact.file).module())


@final
class Pt2Runner(Runner):
    """The graph as a module."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad():
            answered = self.module(*map(torch.from_numpy, inputs))
        return [tensor.numpy() for tensor in answered]
