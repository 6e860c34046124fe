"""executorch: for phones and small devices; XNNPACK computes what it can, portable kernels the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.export.exporter import Array, Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Executorch", "ExecutorchRunner"]

LARGEST: Final = 64
"""Samples at once: memory is planned ahead for the largest batch, and small devices ask for one."""


@final
class Executorch(Exporter):
    """Memory is planned before it runs: so every free size has a limit."""

    target = "executorch"
    file = "model.pte"
    runtime = "executorch"
    extra = "executorch"
    needs = ("executorch",)
    batch_limit = LARGEST
    devices = ("cpu",)
    notes = (f"Memory is planned ahead: at most {LARGEST} samples at once.",)

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        from trueloop.export.traced import quietly, traced

        with quietly():  # already at its import it warns of itself
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
            from executorch.exir import to_edge_transform_and_lower

        # Traced with many samples: from few, it plans too little memory for the largest batch.
        many = tuple(tensor.repeat(LARGEST // len(tensor), *[1] * (tensor.dim() - 1)) for tensor in given.tensors)
        graph, ports = traced(program, replace(given, tensors=many), LARGEST)
        with quietly():
            lowered = to_edge_transform_and_lower(graph, partitioner=[XnnpackPartitioner()])
            file.write_bytes(lowered.to_executorch().buffer)
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.export.traced import quietly

        with quietly():  # it calls its runtime experimental
            return ExecutorchRunner(artifact.file)


@final
class ExecutorchRunner(Runner):
    """The method `forward` of a loaded program."""

    def __init__(self, file: Path) -> None:
        from executorch.runtime import Runtime, Verification

        self.program: Any = Runtime.get().load_program(file, verification=Verification.InternalConsistency)
        self.method: Any = self.program.load_method("forward")

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        # Copied: what it answers lies in memory that the next call writes over.
        return [tensor.numpy().copy() for tensor in self.method.execute(list(map(torch.from_numpy, inputs)))]
