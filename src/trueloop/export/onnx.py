"""onnx: the open format. Verified with ONNX Runtime, which does not need torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, final

from trueloop.errors import CannotExport, MissingExtra, Misuse
from trueloop.export.device import device_index
from trueloop.export.exporter import Array, Example, Exporter, Runner
from trueloop.results.artifact import Artifact, Port

if TYPE_CHECKING:
    from trueloop.export.program import Exportable

__all__ = ["Onnx", "OnnxRunner"]

_CPU: Final = "CPUExecutionProvider"
_CUDA: Final = "CUDAExecutionProvider"


@final
class Onnx(Exporter):
    """By `torch.onnx.export(dynamo=True)`."""

    target = "onnx"
    file = "model.onnx"
    runtime = "onnxruntime"
    extra = "onnx"
    needs = ("onnx", "onnxscript", "onnxruntime")

    def write(self, program: Exportable, example: Example, file: Path) -> tuple[Port, ...]:
        import torch

        from trueloop.export.trace import suppress_output, trace

        graph, ports = trace(program, example)
        inputs, outputs = [port.name for port in ports], list(program.layouts[1].names)
        _check_names(inputs, outputs)
        with suppress_output():
            made = torch.onnx.export(graph, dynamo=True, verbose=False, input_names=inputs, output_names=outputs)
            assert made is not None
            made.save(file, external_data=False)
        return ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        return OnnxRunner(artifact.file, device)

    def open_confined(self, file: BinaryIO, shown: Path) -> Runner:
        return OnnxRunner(file.read())

    def check_device(self, device: str) -> None:
        import onnxruntime

        if _CUDA not in onnxruntime.get_available_providers():
            raise MissingExtra(
                f"onnx on {device} needs ONNX Runtime with its {_CUDA}; the installed onnxruntime "
                f"{onnxruntime.__version__} does not have it. Nothing was run: pip uninstall onnxruntime, then pip "
                "install onnxruntime-gpu"
            )


def _check_names(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """ONNX identifies tensors by name only."""
    twice = next((name for name in outputs if name in inputs), None)
    if twice is not None:
        why = f"ONNX needs unique tensor names, and {twice!r} is both an input and an output."
        raise CannotExport(f"{why} Nothing was exported: rename one of them.")
    if "" in (*inputs, *outputs):
        raise CannotExport("ONNX needs tensor names; an input or output is named ''. Nothing was exported: name it.")


@final
class OnnxRunner(Runner):
    """A session of ONNX Runtime, which copies arrays to a GPU and back."""

    def __init__(self, file: Path | bytes, device: str = "cpu") -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        cuda = (_CUDA, {"device_id": str(device_index(device)), "use_tf32": "0"})
        providers: list[Any] = [_CPU] if device == "cpu" else [cuda, _CPU]  # CPU for ops without a CUDA kernel
        self.session: Any = onnxruntime.InferenceSession(file, options, providers=providers)
        if device != "cpu" and _CUDA not in self.session.get_providers():
            # It would silently fall back to the CPU.
            failed = f"ONNX Runtime cannot start its {_CUDA} on {device}"
            raise Misuse(f"{failed}: the CUDA or cuDNN libraries are missing. Nothing was run.")
        self.names = [port.name for port in self.session.get_inputs()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return list(self.session.run(None, dict(zip(self.names, inputs, strict=True))))
