"""executorch: for phones and small devices. XNNPACK kernels where possible, portable ones elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, final

from trueloop.export.exporter import Array, Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Executorch", "ExecutorchRunner"]

LARGEST: Final = 64  # Batch size that memory is planned for


@final
class Executorch(Exporter):
    """Memory is planned ahead, so every dynamic size has a limit."""

    target = "executorch"
    file = "model.pte"
    runtime = "executorch"
    extra = "executorch"
    needs = ("executorch",)
    batch_limit = LARGEST
    devices = ("cpu",)
    notes = (f"Memory is planned ahead: at most {LARGEST} samples per batch.",)

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        from trueloop.export.trace import suppress_output, trace

        with suppress_output():  # its import prints warnings
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
            from executorch.exir import to_edge_transform_and_lower

        # Traced with a full batch: from a small one it plans too little memory.
        many = tuple(tensor.repeat(LARGEST // len(tensor), *[1] * (tensor.dim() - 1)) for tensor in example.tensors)
        graph, ports = trace(program, replace(example, tensors=many), LARGEST)
        with suppress_output():
            lowered = to_edge_transform_and_lower(graph, partitioner=[XnnpackPartitioner()])
            file.write_bytes(lowered.to_executorch().buffer)
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        from trueloop.export.trace import suppress_output

        with suppress_output():  # it warns that its runtime is experimental
            return ExecutorchRunner(artifact.file)

    def open_confined(self, file: BinaryIO, shown: Path) -> Runner:
        return ExecutorchRunner(file.read())


@final
class ExecutorchRunner(Runner):
    """The method `forward` of a loaded program."""

    def __init__(self, file: Path | bytes) -> None:
        from executorch.runtime import Runtime, Verification

        self.program: Any = Runtime.get().load_program(file, verification=Verification.InternalConsistency)
        self.method: Any = self.program.load_method("forward")

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        # Copied: the next call overwrites the output memory.
        return [tensor.numpy().copy() for tensor in self.method.execute(list(map(torch.from_numpy, inputs)))]
