"""onnx: the open format that most runtimes of other makers read. Run and verified by ONNX Runtime, which needs no
torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.errors import CannotExport, MissingExtra, Misuse
from trueloop.export.device import number_of
from trueloop.export.exporter import Array, Exporter, Given, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Onnx", "OnnxRunner"]

_CPU: Final = "CPUExecutionProvider"
_CUDA: Final = "CUDAExecutionProvider"


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
        _refuse_names([port.name for port in ports], outputs)
        with quietly():
            made = torch.onnx.export(
                graph, dynamo=True, verbose=False, input_names=[port.name for port in ports], output_names=list(outputs)
            )
            assert made is not None
            made.save(file, external_data=False)
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        return OnnxRunner(artifact.file, device)

    def reach(self, device: str) -> None:
        import onnxruntime

        if _CUDA not in onnxruntime.get_available_providers():
            raise MissingExtra(
                f"onnx on {device} needs ONNX Runtime with its {_CUDA}, which the installed onnxruntime {onnxruntime.__version__} has not. "
                "Nothing was run: pip uninstall onnxruntime, then pip install onnxruntime-gpu"
            )


def _refuse_names(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """ONNX tells tensors apart by their names alone."""
    twice = next((name for name in outputs if name in inputs), None)
    if twice is not None:
        raise CannotExport(
            f"onnx has one tensor of each name, and {twice!r} is an input and an output. Nothing was exported: rename one."
        )
    if "" in (*inputs, *outputs):
        raise CannotExport(
            "onnx has no tensor without a name, and an input or output is called ''. Nothing was exported: name it."
        )


@final
class OnnxRunner(Runner):
    """A session of ONNX Runtime. On a GPU it copies arrays there, and its answers back."""

    def __init__(self, file: Path, device: str = "cpu") -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors; its warnings are about names of sizes
        at = {"device_id": str(number_of(device)), "use_tf32": "0"}
        providers: list[Any] = (
            [_CPU] if device == "cpu" else [(_CUDA, at), _CPU]
        )  # what a GPU has no kernel for stays on the CPU
        self.session: Any = onnxruntime.InferenceSession(file, options, providers=providers)
        if device != "cpu" and _CUDA not in self.session.get_providers():
            # It would go on without a word, on the CPU.
            raise Misuse(
                f"ONNX Runtime cannot start its {_CUDA} on {device}: CUDA's or cuDNN's libraries are missing. Nothing was run."
            )
        self.names = [port.name for port in self.session.get_inputs()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return list(self.session.run(None, dict(zip(self.names, inputs, strict=True))))
