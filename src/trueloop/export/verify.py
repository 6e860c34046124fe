"""Does the exported program give the model's outputs? Tried in its own runtime, in a subprocess, on the run's own
data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.errors import CannotExport, CannotSave
from trueloop.export.compare import Comparison, Metrics, error_between, largest_in
from trueloop.export.device import gpu_label
from trueloop.export.exporter import Array, Example, Exporter
from trueloop.export.folder import staged_folder
from trueloop.export.program import LayerOutputs, Program, exportable, layout_of
from trueloop.export.subprocess_runner import RuntimeFailure, run_in_subprocess
from trueloop.export.trained_model import TrainedModel
from trueloop.results.artifact import Artifact, Port, Verification
from trueloop.usercode.ownership import layer_place

__all__ = ["SAMPLES", "SIZES", "TOLERANCE", "verify"]

TOLERANCE: Final = 1e-4  # For fp32 outputs: another order of summation gives 1e-6, a different layer more than this
SAMPLES: Final = 256  # Enough for every batch size; `--samples all` takes all of them
SIZES: Final = (1, 2, 7, 32, 64)  # Batch sizes, in this order; the last one is repeated until the samples are used up


@dataclass(frozen=True, slots=True)
class _Batch:
    """Inputs of the program, outputs of the model."""

    inputs: tuple[Tensor, ...]
    ours: tuple[Tensor, ...]
    targets: Any
    counted: bool  # Does it have targets? Truncated and repeated samples have none

    @property
    def shapes(self) -> str:
        return " and ".join(str(list(tensor.shape)) for tensor in self.inputs)

    @property
    def arrays(self) -> list[Array]:
        return [tensor.detach().numpy() for tensor in self.inputs]


def verify(
    trained: TrainedModel,
    program: Program,
    exporter: Exporter,
    artifact: Artifact,
    tolerance: float,
    samples: int | None,
    device: str = "cpu",
) -> Verification:
    """Runs the artifact on this device; the reference is the model on the CPU. Raises CannotExport with the layer."""
    batches = list(_batches(trained, program, exporter, artifact.inputs, samples))
    counted = [batch for batch in batches if batch.counted]
    _refuse_nonfinite(program, counted)
    comparison = Comparison(trained.recipe.task, tolerance)
    ours, theirs = Metrics(trained.task), Metrics(trained.task)
    for batch, outputs in zip(batches, _run(artifact, batches, device), strict=True):
        comparison.add(batch.ours, outputs, counted=batch.counted)
        if batch.counted and [a.shape for a in batch.ours] == [b.shape for b in outputs]:
            prepared = Batch(program.prepared(batch.inputs), batch.targets)
            ours.add(program.layouts[1].join(batch.ours), prepared)
            theirs.add(program.layouts[1].join(outputs), prepared)
    made = Verification(
        split=trained.source[0],
        samples=sum(len(batch.inputs[0]) for batch in counted),
        batches=tuple(dict.fromkeys(len(batch.inputs[0]) for batch in batches)),
        lengths=tuple(sorted({each.inputs[0].shape[1] for each in batches})) if _has_length(artifact.inputs) else (),
        tolerance=tolerance,
        max_error=comparison.max_error,
        scale=comparison.scale,
        disagreements=comparison.disagreements,
        ties=comparison.ties,
        metrics={name: (value, theirs.values()[name]) for name, value in ours.values().items()},
        runtime=f"{artifact.runtime['package']} {artifact.runtime['version']}"
        + ("" if device == "cpu" else f" on {gpu_label(device)}, TF32 off"),
    )
    if not made.passed:
        worst = batches[max(0, comparison.worst)]
        layer = _first_differing(trained, program, exporter, artifact, worst, tolerance, device)
        if device != "cpu":
            layer += f" ({device} sums in another order than the CPU; --tolerance allows for that.)"
        raise CannotExport(_failure(replace(made, first_differing=layer), artifact, worst))
    return made


def _refuse_nonfinite(program: Program, batches: Sequence[_Batch]) -> None:
    """At least one row must be comparable: no NaN, and something finite (a mask may be -inf)."""
    for batch in batches:
        rows = batch.ours[0].flatten(1) if batch.ours[0].dim() > 1 else batch.ours[0].unsqueeze(-1)
        if bool((rows.isfinite().any(1) & ~rows.isnan().any(1)).any()):
            return
    state = program.model.state_dict().items()
    broken = [name for name, value in state if isinstance(value, Tensor) and not value.isfinite().all()]
    held = f" ({broken[0]}{f' and {len(broken) - 1} more' if broken[1:] else ''} non-finite)" if broken else ""
    raise CannotExport(
        f"The model itself returns NaN or Inf for every input{held}, so no target can be verified. Nothing was "
        "exported: choose another --checkpoint; `trueloop inspect checkpoint RUN` shows which are valid."
    )


def _failure(made: Verification, artifact: Artifact, worst: _Batch) -> str:
    changed = f"{made.disagreements:,} of {made.samples:,}" if made.disagreements else "no"
    metrics = [f"; {name} {ours:.6g} -> {own:.6g}" for name, (ours, own) in made.metrics.items() if ours != own]
    return (
        f"{artifact.name} as {artifact.target} does not give the model's outputs: largest difference "
        f"{made.max_error:.3g} (inputs {worst.shapes}), tolerance {made.tolerance * made.scale:.3g}; {changed} "
        f"predictions differ{''.join(metrics)}. {made.first_differing} Nothing was exported."
    )


# -- batches --


def _batches(
    trained: TrainedModel, program: Program, exporter: Exporter, ports: Sequence[Port], samples: int | None
) -> Iterator[_Batch]:
    count = len(trained.source[1])
    wanted = count if samples is None else min(samples, count)
    numbers = torch.arange(wanted) * count // wanted  # spread over all samples
    limit = min((port.most[0] for port in ports if port.most and port.most[0] is not None), default=SIZES[-1])
    first: _Batch | None = None
    for size in _sizes(wanted, limit):
        part, numbers = numbers[:size], numbers[size:]
        batch = trained.fetch(part)
        made = _batch(program, exporter, program.layouts[0].split(batch.inputs), batch.targets, counted=True)
        first = made if first is None or (size > 1 and len(first.inputs[0]) == 1) else first
        yield made
    if first is not None and len(first.inputs[0]) == 1 < limit:
        # Too few samples for a batch larger than 1: repeat them.
        for size in SIZES[1:3]:
            raw = program.layouts[0].split(trained.fetch(torch.arange(min(size, limit)) % count).inputs)
            yield _batch(program, exporter, raw, None, counted=False)
    if first is not None and _has_length(ports):
        yield from _shorter(program, exporter, first)


def _shorter(program: Program, exporter: Exporter, first: _Batch) -> Iterator[_Batch]:
    """Shorter sequences; lengths that the model itself does not accept are skipped."""
    length = first.inputs[0].shape[1]
    for shorter in dict.fromkeys((max(1, length // 2), 1)):
        try:
            made = _batch(program, exporter, tuple(tensor[:, :shorter] for tensor in first.inputs), None, counted=False)
        except (RuntimeError, IndexError, ValueError):
            continue
        yield made


def _sizes(samples: int, limit: int) -> Iterator[int]:
    sizes = iter(SIZES)
    while samples:
        size = min(next(sizes, SIZES[-1]), limit, samples)
        yield size
        samples -= size


def _batch(program: Program, exporter: Exporter, raw: tuple[Tensor, ...], targets: Any, *, counted: bool) -> _Batch:
    inputs = raw
    if not exporter.inside and program.prepare is not None:
        prepared = program.prepare(program.layouts[0].join([tensor.clone() for tensor in raw]))
        inputs = layout_of(prepared, "input").split(prepared)
    return _Batch(tuple(tensor.contiguous() for tensor in inputs), program.answer(raw), targets, counted)


def _has_length(ports: Sequence[Port]) -> bool:
    return all(len(port.shape) > 1 and port.shape[1] is None for port in ports)


def _run(artifact: Artifact, batches: Sequence[_Batch], device: str) -> list[tuple[Tensor, ...]]:
    try:
        outputs = run_in_subprocess(artifact.folder, [batch.arrays for batch in batches], device)
    except OSError as error:
        why = f"The verification samples cannot be written to {gettempdir()} ({error.strerror or error})."
        raise CannotSave(f"{why} Nothing was exported.") from None
    except RuntimeFailure as failure:
        at = f"the batch {batches[failure.batch].shapes}" if failure.batch >= 0 else "it"
        failed = f"was written, but {artifact.runtime['package']} could not run {at}: {str(failure).rstrip('.')}"
        raise CannotExport(f"{artifact.name} as {artifact.target} {failed}. Nothing was exported.") from None
    return [tuple(map(torch.from_numpy, batch)) for batch in outputs]


# -- the first differing layer --


def _first_differing(
    trained: TrainedModel,
    program: Program,
    exporter: Exporter,
    artifact: Artifact,
    batch: _Batch,
    tolerance: float,
    device: str,
) -> str:
    """A sentence. Exports the program again with the outputs of all layers."""
    if not exporter.inside:
        return "The weights were not written correctly, or the recipe's model has changed."
    twice = max(map(error_between, batch.ours, program.answer(batch.inputs)), default=0.0)
    if twice > tolerance * max(1.0, *map(largest_in, batch.ours)):
        why = f"The model itself is not deterministic: two calls differ by {twice:.3g}."
        return f"{why} It draws random numbers or keeps state between calls."
    layers, original = LayerOutputs(exportable(program)).eval(), LayerOutputs(program).eval()
    ours, names = original.answer(batch.inputs), list(original.calls)
    layers.set_outputs(len(ours))
    with TemporaryDirectory(prefix="trueloop-export-") as scratch:
        try:
            example = replace(trained.example(program, inside=True), device=device if exporter.native else "cpu")
            theirs = _run_layers(exporter, layers, example, artifact, Path(scratch) / "layers", batch, device)
        except (CannotExport, RuntimeFailure, RuntimeError) as error:
            reason = str(error).splitlines()[0][:200]
            return f"The first differing layer is unknown: with all layers as outputs it does not run ({reason})."
    for name, a, b in zip(names, ours, theirs, strict=False):
        difference = error_between(a, b)
        if difference > tolerance * max(1.0, largest_in(a)):
            return f"The first differing layer is {_layer(program, name)}, by {difference:.3g}."
    return "No single layer differs: the difference arises where the target fuses layers, or after the last layer."


def _run_layers(
    exporter: Exporter,
    layers: LayerOutputs,
    example: Example,
    artifact: Artifact,
    place: Path,
    batch: _Batch,
    device: str,
) -> Sequence[Tensor]:
    with staged_folder(place) as folder:
        ports = exporter.write(layers, example, folder.aside / exporter.file)
        folder.seal(replace(artifact, inputs=ports, verification=None))
        return [torch.from_numpy(array) for array in run_in_subprocess(folder.aside, [batch.arrays], device)[0]]


def _layer(program: Program, name: str) -> str:
    module = program.model.get_submodule(name)
    place = layer_place(program.model, name) if name else None
    at = f", created at {place.path}:{place.line}" if place is not None else ""
    return f"{name or 'the model itself'} ({type(module).__name__}{at})"
