"""onnx: the open format that most runtimes of other makers read. Run and verified by ONNX Runtime, which needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trueloop.artefact import Artefact, Port
from trueloop.export.exporter import Array, Exporter, Given, Runner

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Onnx", "OnnxRunner"]


@final
class Onnx(Exporter):
    """By torch's exporter that is built on `torch.export`."""

    target = "onnx"
    file = "model.onnx"
    runtime = "onnxruntime"
    extra = "onnx"
    needs = ("onnx", "onnxscript", "onnxruntime")

    def write(self, program: Exportable, given: Given, file: Path) -> tuple[Port, ...]:
        import torch

        from trueloop.export.traced import quietly, traced

        graph, ports = traced(program, given)
        outputs = program.layouts[1].names
        with quietly():
            made = torch.onnx.export(
                graph, dynamo=True, verbose=False, input_names=[port.name for port in ports], output_names=list(outputs)
            )
            assert made is not None
            made.save(file, external_data=False)
        return ports

    def open(self, artefact: Artefact) -> Runner:
        return OnnxRunner(artefact.file)


@final
class OnnxRunner(Runner):
    """A session of ONNX Runtime on the CPU."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors; its warnings are about names of sizes
        self.session: Any = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.names = [port.name for port in self.session.get_inputs()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return list(self.session.run(None, dict(zip(self.names, inputs, strict=True))))
