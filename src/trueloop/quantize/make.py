"""From a quantized model to an artifact, by the same way as any export: written, run elsewhere, compared, and only then
there."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

from trueloop.errors import CannotExport
from trueloop.export.catalogue import runner_of
from trueloop.export.exporter import Array, Exporter, Runner
from trueloop.export.make import export
from trueloop.export.subject import Subject
from trueloop.export.verify import SAMPLES, TOLERANCE
from trueloop.quantize.decide import Decided
from trueloop.quantize.scheme import Scheme
from trueloop.results.artifact import Artifact
from trueloop.results.quantize import Quantization, Speed

__all__ = ["beside", "beside_float", "medians", "refuse_target", "written"]

UNABLE: Final = MappingProxyType({
    "safetensors": "it holds the weights of the recipe's own model, which has no layers in fewer bits",
    "executorch": "its kernels for fewer bits need a graph made for them by ExecuTorch's own quantizers",
})  # fmt: skip
"""Targets that take no quantized model of any scheme, and why."""
BATCHES: Final = (1, 32)
ROUNDS: Final = 15
TURN: Final = 0.02
"""Seconds of calls of one model before it is the other's turn."""


def refuse_target(scheme: Scheme, exporter: Exporter) -> None:
    """Raises CannotExport before anything is computed."""
    reason = UNABLE.get(exporter.target) or scheme.refuses.get(exporter.target)
    if reason:
        possible = [target for target in ("pt2", "onnx", "aoti", "torchscript") if target not in scheme.refuses]
        raise CannotExport(
            f"{scheme.name} cannot become {exporter.target}: {reason}. Nothing was run. It can become: {', '.join(possible)}."
        )


def written(
    subject: Subject,
    scheme: Scheme,
    decided: Decided,
    exporter: Exporter,
    place: Path,
    *,
    samples: int | None = SAMPLES,
    licence: dict[str, str] | None = None,
) -> Artifact:
    """The artifact in `place`, verified against the quantized model on so many samples (None: all)."""
    told = decided.told
    run = {**subject.run, "quantized": told.summary()}
    model = scheme.for_target(decided.model, exporter.target)
    return export(
        replace(subject, model=model, run=run),
        exporter,
        place,
        tolerance=_tolerance(scheme, decided),
        samples=samples,
        licence=licence,
        notes=(told.words(), *told.notes),
    )


def _tolerance(scheme: Scheme, decided: Decided) -> float:
    """Where activations are rounded, two right runtimes can differ by a step: no further apart than rounding itself has
    moved the answers."""
    return max(TOLERANCE, scheme.apart(decided.model, decided.largest)) if scheme.rounds_answers else TOLERANCE


# -- how fast --


def beside_float(told: Quantization, subject: Subject, exporter: Exporter, quantized: Artifact) -> Quantization:
    """With speed and size of the file, against the float model exported in the same form."""
    with TemporaryDirectory(prefix="trueloop-quantize-") as scratch:
        return beside(told, subject, export(subject, exporter, Path(scratch) / "float", samples=8), quantized)


def beside(
    told: Quantization, subject: Subject, plain: Artifact, quantized: Artifact, rounds: int = ROUNDS
) -> Quantization:
    """The same, against a float artifact that is there already."""
    both = [runner_of(plain), runner_of(quantized)]
    speeds = tuple(_speed(both, _batch(subject, size), rounds) for size in BATCHES)
    before, after = (made.files[made.file.name]["bytes"] for made in (plain, quantized))
    return replace(told, speeds=speeds, files=(before, after))


def _batch(subject: Subject, size: int) -> list[Array]:
    import torch

    numbers = torch.arange(size) % len(subject.source[1])
    return [
        tensor.contiguous().numpy() for tensor in subject.program().layouts[0].parted(subject.fetch(numbers).inputs)
    ]


def _speed(runners: Sequence[Runner], inputs: list[Array], rounds: int) -> Speed:
    calls = [lambda runner=runner: runner.run(inputs) for runner in runners]
    before, after = medians(calls, rounds)
    return Speed(len(inputs[0]), before, after)


def medians(
    calls: Sequence[Callable[[], object]],
    rounds: int = ROUNDS,
    turn: float = TURN,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds of each call, in turns, so that what else the machine does hits all of them."""
    seconds: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # the first one is slower
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
