"""Writes a quantized model as an artifact, verified like any export, and measures it against the float model."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trueloop.errors import CannotExport
from trueloop.export.catalogue import runner_of
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Array, Exporter
from trueloop.export.trained_model import TrainedModel
from trueloop.export.verify import SAMPLES, TOLERANCE
from trueloop.quantize.quantize_model import QuantizedModel
from trueloop.quantize.scheme import Scheme
from trueloop.quantize.static_graph import QuantizedGraph
from trueloop.results.artifact import Artifact
from trueloop.results.quantize import Quantization, Speed

__all__ = ["check_target", "compare_artifacts", "compare_with_float", "medians", "write_quantized"]

UNSUPPORTED: Final = {
    "safetensors": "it holds weights of the recipe's own model, which has no quantized layers",
    "executorch": "its quantized kernels need a graph made by ExecuTorch's own quantizers",
}  # Targets without quantized models -> why
BATCHES: Final = (1, 32)
ROUNDS: Final = 15
TURN: Final = 0.02  # Seconds of calls before it is the other model's turn


def check_target(scheme: Scheme, exporter: Exporter) -> None:
    """Raises CannotExport before anything is computed."""
    reason = UNSUPPORTED.get(exporter.target) or scheme.refuses.get(exporter.target)
    if reason:
        possible = [target for target in ("pt2", "onnx", "aoti", "torchscript") if target not in scheme.refuses]
        raise CannotExport(
            f"{scheme.name} cannot be exported to {exporter.target}: {reason}. Nothing was run. Possible targets: "
            f"{', '.join(possible)}."
        )


def write_quantized(
    trained: TrainedModel,
    scheme: Scheme,
    quantized: QuantizedModel,
    exporter: Exporter,
    place: Path,
    *,
    samples: int | None = SAMPLES,
    licence: dict[str, str] | None = None,
) -> Artifact:
    """The artifact in `place`, verified against the quantized model. `samples`: how many; None: all."""
    report, model, error = quantized.report, quantized.model, quantized.largest
    if isinstance(model, QuantizedGraph):
        error = model.rounding_error  # without what qat has learned
        model = model.for_target(exporter.target)
    return export_model(
        replace(trained, model=model, run={**trained.run, "quantized": report.summary()}),
        exporter,
        place,
        # Where activations are rounded, two correct runtimes may differ by a step.
        tolerance=max(TOLERANCE, error) if scheme.rounds_activations else TOLERANCE,
        relative=1.0 if scheme.rounds_activations else None,
        samples=samples,
        licence=licence,
        notes=(report.words(), *report.notes),
    )


# -- speed --


def compare_with_float(
    report: Quantization, trained: TrainedModel, exporter: Exporter, quantized: Artifact
) -> Quantization:
    """Adds speed and file size, against the float model exported to the same target."""
    with TemporaryDirectory(prefix="trueloop-quantize-") as scratch:
        plain = export_model(trained, exporter, Path(scratch) / "float", samples=8)
        return compare_artifacts(report, trained, plain, quantized)


def compare_artifacts(
    report: Quantization, trained: TrainedModel, plain: Artifact, quantized: Artifact, rounds: int = ROUNDS
) -> Quantization:
    """The same, against an existing float artifact."""
    runners, speeds = [runner_of(plain), runner_of(quantized)], []
    for size in BATCHES:
        inputs = _batch(trained, size)
        before, after = medians([partial(runner.run, inputs) for runner in runners], rounds)
        speeds.append(Speed(size, before, after))
    small, large = (made.files[made.file.name]["bytes"] for made in (quantized, plain))
    return replace(report, speeds=tuple(speeds), files=(large, small))


def _batch(trained: TrainedModel, size: int) -> list[Array]:
    import torch

    raw = trained.fetch(torch.arange(size) % len(trained.source[1])).inputs
    return [tensor.contiguous().numpy() for tensor in trained.program().layouts[0].split(raw)]


def medians(
    calls: Sequence[Callable[[], object]],
    rounds: int = ROUNDS,
    turn: float = TURN,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds per call. Interleaved, so that other load on the machine affects all of them."""
    seconds: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # the first call is slower
    gc.collect()
    for _ in range(rounds):
        for call, times in zip(calls, seconds, strict=True):
            begun = last = clock()
            while last - begun < turn:
                call()
                now = clock()
                times.append(now - last)
                last = now
    return [statistics.median(times) for times in seconds]
