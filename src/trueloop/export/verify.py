"""Does the exported program give the model's outputs? Tried in its own runtime, in a subprocess, on the run's own
data and beyond them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.errors import CannotExport, CannotSave
from trueloop.export.beyond_data import MANY, inputs_beyond_data
from trueloop.export.compare import ROUNDINGS, Comparison, Metrics, error_between, largest_in
from trueloop.export.device import gpu_label
from trueloop.export.exporter import Array, Example, Exporter
from trueloop.export.folder import staged_folder
from trueloop.export.program import LayerOutputs, Program, exportable, layout_of, nested_encoders
from trueloop.export.rounding import RoundedModel
from trueloop.export.subprocess_runner import RuntimeFailure, run_in_subprocess
from trueloop.export.trained_model import TrainedModel
from trueloop.results.artifact import Artifact, Port, Verification
from trueloop.usercode.ownership import layer_place

__all__ = ["SAMPLES", "SIZES", "TOLERANCE", "verify"]

TOLERANCE: Final = 1e-4  # For fp32 outputs: another order of summation gives 1e-6, a different layer more than this
SHARE: Final = 10.0  # Relative tolerance, and that of metrics, in tolerances: 1e-3 of the largest output
METRICS: Final = 1e-2  # The largest change of a metric, however wide the tolerance
SAMPLES: Final = 256  # Enough for every batch size; `--samples all` takes all of them
TURNED: Final = 0.1  # Whole numbers that may differ beyond the data: rounding turns a decision where two are equal
BEYOND: Final = 7  # Samples of each kind of inputs beyond the data
SIZES: Final = (1, 2, 7, 32, 64)  # Batch sizes, in this order; the last one is repeated until the samples are used up


@dataclass(frozen=True, slots=True)
class _Batch:
    """Inputs of the program, outputs of the model."""

    inputs: tuple[Tensor, ...]
    ours: tuple[Tensor, ...]
    targets: Any
    counted: bool  # Does it have targets? Truncated and repeated samples have none
    raw: tuple[Tensor, ...] = ()  # The inputs before preprocessing
    beyond: str = ""  # How the inputs differ from all data; empty: they do not

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
    *,
    relative: float | None = None,
) -> Verification:
    """Runs the artifact on this device; the reference is the model on the CPU. Raises CannotExport with the layer.
    `relative`: the largest difference as a share of the largest output; None: ten times the tolerance."""
    batches = list(_batches(trained, program, exporter, artifact.inputs, samples))
    counted = [batch for batch in batches if batch.counted]
    _refuse_nonfinite(program, counted, trained.source[0])
    batches += _beyond(trained, program, exporter, artifact.inputs, batches)
    comparison = Comparison(trained.answers, tolerance)
    ours, theirs = Metrics(trained.task), Metrics(trained.task)
    rounded = RoundedModel(program)
    limit = SHARE * tolerance if relative is None else relative
    beyond: list[tuple[_Batch, Sequence[Tensor]]] = []
    for batch, outputs in zip(batches, _run(artifact, batches, device), strict=True):
        if batch.beyond:
            beyond.append((batch, outputs))
            continue
        comparison.add(batch.ours, outputs, counted=batch.counted)
        if batch.counted and [a.shape for a in batch.ours] == [b.shape for b in outputs]:
            _add_metrics(ours, program, batch, batch.ours)
            _add_metrics(theirs, program, batch, outputs)
    metrics = {name: (value, theirs.values()[name]) for name, value in ours.values().items()}
    differing = {
        failed: batch
        for batch, outputs in beyond
        if (failed := _differs_beyond(batch, outputs, comparison, limit, rounded))
    }
    failures = [
        *_relative_failure(comparison, batches, limit, rounded),
        *_changed_metrics(metrics, comparison, tolerance, lambda: _rounded_metrics(trained, program, counted, rounded)),
        *differing,
    ]
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
        metrics=metrics,
        runtime=_runtime_of(artifact, device),
        relative=comparison.relative_error(),
        beyond=tuple(batch.beyond for batch in batches if batch.beyond),
        failures=tuple(failures),
    )
    if not made.passed:
        differs = made.max_error > made.tolerance * made.scale or made.disagreements
        worst = next(iter(differing.values())) if differing and not differs else batches[max(0, comparison.worst)]
        layer = _first_differing(trained, program, exporter, artifact, worst, tolerance, device)
        if device != "cpu":
            layer += f" ({device} sums in another order than the CPU; --tolerance allows for that.)"
        raise CannotExport(_failure(replace(made, first_differing=layer), artifact, worst))
    return made


def _runtime_of(artifact: Artifact, device: str) -> str:
    where = "" if device == "cpu" else f" on {gpu_label(device)}, TF32 off"
    return f"{artifact.runtime['package']} {artifact.runtime['version']}{where}"


def _refuse_nonfinite(program: Program, batches: Sequence[_Batch], split: str) -> None:
    """A NaN can be compared with nothing. A mask may be -inf, but not a whole answer."""
    samples = sum(len(batch.inputs[0]) for batch in batches)
    rows = [_rows_with_nan(batch.ours) for batch in batches]
    found = sum(int(each.sum()) for each in rows)
    if not found and any(bool(batch.ours[0].isfinite().any()) for batch in batches):
        return
    state = program.model.state_dict().items()
    broken = [name for name, value in state if isinstance(value, Tensor) and not value.isfinite().all()]
    held = f" ({broken[0]}{f' and {len(broken) - 1} more' if broken[1:] else ''} non-finite)" if broken else ""
    what = "NaN" if found and (found < samples) else "NaN or Inf"
    where = f"{found:,} of {samples:,} {split} samples" if 0 < found < samples else "every input"
    raise CannotExport(
        f"The model itself returns {what} for {where}{held}, so no target can be verified. Nothing was exported: "
        "choose another --checkpoint; `trueloop inspect checkpoint RUN` shows which are valid."
    )


def _rows_with_nan(outputs: Sequence[Tensor]) -> Tensor:
    """Which samples have a NaN in one of their outputs; an output per batch counts for all of them."""
    count = len(outputs[0])
    found = torch.zeros(count, dtype=torch.bool)
    for output in outputs:
        wrong = output.isnan()
        found |= wrong.reshape(count, -1).any(1) if len(output.shape) and len(output) == count else wrong.any()
    return found


def _relative_failure(
    comparison: Comparison, batches: Sequence[_Batch], limit: float, rounded: RoundedModel
) -> Iterator[str]:
    """Small outputs may be wrong altogether and still be within the tolerance."""
    if comparison.relative_error() <= limit:
        return
    rounding = Comparison(comparison.task, comparison.tolerance)
    for batch in batches:
        if not batch.beyond:
            rounding.add(batch.ours, rounded.answer(batch.raw), counted=False)
    if (found := comparison.relative_error(rounding)) > limit:
        yield f"a difference is {found:.3g} times the largest value of its output ({limit:.3g} is allowed)"


def _add_metrics(metrics: Metrics, program: Program, batch: _Batch, outputs: Sequence[Tensor]) -> None:
    metrics.add(program.layouts[1].join(outputs), Batch(program.prepared(batch.inputs), batch.targets))


def _rounded_metrics(
    trained: TrainedModel, program: Program, batches: Sequence[_Batch], rounded: RoundedModel
) -> Mapping[str, float]:
    metrics = Metrics(trained.task)
    for batch in batches:
        _add_metrics(metrics, program, batch, rounded.answer(batch.raw))
    return metrics.values()


def _changed_metrics(
    metrics: Mapping[str, tuple[float, float]],
    comparison: Comparison,
    tolerance: float,
    rounded: Callable[[], Mapping[str, float]],
) -> Iterator[str]:
    """`rounded`: the metrics after one rounding. Ties may be decided either way."""
    ties = comparison.ties / max(1, comparison.predicted)
    for name, (ours, theirs) in metrics.items():
        allowed = min(SHARE * tolerance, METRICS) * max(1.0, abs(ours)) + ties
        if ours == theirs or (math.isnan(ours) and math.isnan(theirs)) or abs(ours - theirs) <= allowed:
            continue
        # The loss of a perfect fit to large quantities is rounding alone.
        if not abs(ours - theirs) <= ROUNDINGS * abs(ours - rounded().get(name, ours)):
            yield f"{name} changes by {theirs - ours:+.3g} ({allowed:.3g} is allowed)"


def _differs_beyond(
    batch: _Batch, outputs: Sequence[Tensor], comparison: Comparison, limit: float, rounded: RoundedModel
) -> str:
    """A phrase, or empty. Where the model itself has no finite answer, the program needs none. A difference is held
    against the largest output here and on the data: elsewhere an output may vanish."""
    at = f"{batch.beyond} (inputs {batch.shapes})"
    if [each.shape for each in batch.ours] != [each.shape for each in outputs]:
        return f"{at}: shapes {[list(each.shape) for each in outputs]} for {[list(each.shape) for each in batch.ours]}"
    noise: Sequence[Tensor] | None = None
    finite: list[Tensor] = []
    for number, (ours, theirs) in enumerate(zip(batch.ours, outputs, strict=True)):
        known = ours.isfinite()
        finite.append(torch.where(known, theirs, ours))
        if not ours.is_floating_point():
            noise = rounded.answer(batch.raw) if noise is None else noise
            if (turned := _turned(ours, theirs)) > max(TURNED, ROUNDINGS * _turned(ours, noise[number])):
                return f"{at}: {turned:.0%} of the values of output {number + 1} differ"
            continue
        error, scale = error_between(ours[known], theirs[known]), max(1.0, largest_in(ours))
        if error <= comparison.tolerance * scale:
            continue
        noise = rounded.answer(batch.raw) if noise is None else noise
        if error > ROUNDINGS * error_between(ours[known], noise[number][known]):
            return f"{at}: a difference of {error:.3g} where outputs reach {largest_in(ours):.3g}"
    compared, rounding = comparison.without_differences(), comparison.without_differences()
    compared.add(batch.ours, finite, counted=False)
    if compared.relative_error() > limit:
        rounding.add(batch.ours, rounded.answer(batch.raw), counted=False)
        if (found := compared.relative_error(rounding)) > limit:
            return f"{at}: a difference is {found:.3g} times the largest value of its output ({limit:.3g} is allowed)"
    return ""


def _turned(ours: Tensor, theirs: Tensor) -> float:
    """The share of decisions that differ."""
    return float((ours != theirs).double().mean()) if ours.numel() else 0.0


def _failure(made: Verification, artifact: Artifact, worst: _Batch) -> str:
    changed = f"{made.disagreements:,} of {made.samples:,}" if made.disagreements else "no"
    failed = f" Not alike: {'; '.join(made.failures)}." if made.failures else ""
    metrics = [f"; {name} {ours:.6g} -> {own:.6g}" for name, (ours, own) in made.metrics.items() if ours != own]
    return (
        f"{artifact.name} as {artifact.target} does not give the model's outputs: largest difference "
        f"{made.max_error:.3g} (inputs {worst.shapes}), tolerance {made.tolerance * made.scale:.3g}; {changed} "
        f"predictions differ{''.join(metrics)}.{failed} {made.first_differing} Nothing was exported."
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
        length = first.raw[0].shape[1]
        for shorter in dict.fromkeys((max(1, length // 2), 1)):
            yield from _if_accepted(program, exporter, [tensor[:, :shorter] for tensor in first.raw])


def _beyond(
    trained: TrainedModel, program: Program, exporter: Exporter, ports: Sequence[Port], batches: Sequence[_Batch]
) -> Iterator[_Batch]:
    """A larger batch, and values and lengths that no sample has."""
    if all((port.limit(0) or MANY) >= MANY for port in ports):
        many = trained.fetch(torch.arange(MANY) % len(trained.source[1])).inputs
        yield _batch(program, exporter, program.layouts[0].split(many), None, counted=False)
    most = max(batches, key=lambda batch: min(BEYOND, len(batch.raw[0])))  # the first of them: of full length
    raw = tuple(tensor[:BEYOND] for tensor in most.raw)
    for name, changed in inputs_beyond_data(raw, trained.splits.facts.vocabulary):
        yield from _if_accepted(program, exporter, changed, name)
    limits = [port.limit(1) for port in ports] if _has_length(ports) else []
    longer = min((limit for limit in limits if limit is not None), default=2 * raw[0].shape[1])
    if limits and raw[0].shape[1] < longer:
        repeated = [tensor.repeat(1, -(-longer // tensor.shape[1]))[:, :longer] for tensor in raw]
        yield from _if_accepted(program, exporter, repeated, f"length {longer}")


def _if_accepted(program: Program, exporter: Exporter, raw: Sequence[Tensor], beyond: str = "") -> Iterator[_Batch]:
    """Nothing if the model itself does not accept these inputs."""
    try:
        made = _batch(program, exporter, tuple(raw), None, counted=False)
    except Exception:  # noqa: BLE001 - any error of the model means that there is nothing to compare
        return
    yield replace(made, beyond=beyond)


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
    return _Batch(tuple(tensor.contiguous() for tensor in inputs), program.answer(raw), targets, counted, raw)


def _has_length(ports: Sequence[Port]) -> bool:
    return all(len(port.shape) > 1 and port.shape[1] is None for port in ports)


def _run(artifact: Artifact, batches: Sequence[_Batch], device: str) -> list[tuple[Tensor, ...]]:
    try:
        outputs = run_in_subprocess(artifact.folder, [batch.arrays for batch in batches], device)
    except OSError as error:
        why = f"The verification samples cannot be written to {gettempdir()} ({error.strerror or error})."
        raise CannotSave(f"{why} Nothing was exported.") from None
    except RuntimeFailure as failure:
        beyond = f" of {batches[failure.batch].beyond}" if batches[failure.batch].beyond else ""
        at = f"the batch {batches[failure.batch].shapes}{beyond}" if failure.batch >= 0 else "it"
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
    if nested := _nested_cause(program, batch, tolerance):
        return nested
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


def _nested_cause(program: Program, batch: _Batch, tolerance: float) -> str:
    """A sentence if the model itself gives different outputs without nested tensors; otherwise empty."""
    encoders = nested_encoders(program.model)
    if not encoders:
        return ""
    without = max(map(error_between, batch.ours, exportable(program).answer(batch.raw)), default=0.0)
    if without <= tolerance * max(1.0, *map(largest_in, batch.ours)):
        return ""
    return (
        f"The cause is the nested-tensor fast path of {_layer(program, encoders[0])}: in eval mode, with a padding "
        f"mask, it returns zeros at padded positions. Without it the model's own outputs differ by {without:.3g}, and "
        "no target has it. Pass enable_nested_tensor=False to nn.TransformerEncoder, or leave padded positions out "
        "when you pool."
    )


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
