"""Quantizes a model, measures the cost of each layer, and decides which layers stay in float: layers that would grow,
the layers of `--keep-float`, and with `--keep-float auto` as few of the costliest as the allowed drop requires."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from torch import nn

from trueloop.errors import CannotExport, Misuse, did_you_mean
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.baseline import Baseline, Measurement, measure_baseline
from trueloop.quantize.scheme import Calibration, Scheme, known_layers, nbytes_of
from trueloop.results.quantize import Layer, Quantization, allowed_of, drop_of

__all__ = ["AUTO", "CALIBRATED", "SAMPLES", "QuantizedModel", "drop_message", "quantize_model"]

AUTO: Final = "auto"  # `--keep-float auto`: trueloop chooses
SAMPLES: Final = 2048  # Validation samples for the metric: half a point is ten samples
CALIBRATED: Final = 512  # Training samples for calibration: more change the ranges little
LAYER_SAMPLES: Final = 512  # Validation samples for each single layer
NO_HELD_OUT: Final = "no validation or test data: measured on training samples that calibration did not use"
SHOWN: Final = 5  # Layers named in `drop_message`


@final
@dataclass(frozen=True)
class QuantizedModel:
    model: nn.Module
    report: Quantization
    largest: float  # The largest change of an output caused by quantization


def quantize_model(
    trained: TrainedModel,
    scheme: Scheme,
    target: str,
    *,
    max_drop: float,
    keep: Sequence[str] = (),
    samples: int | None = SAMPLES,
    calibrated: int = CALIBRATED,
    layer_samples: int = LAYER_SAMPLES,
    say: Callable[[str], None] = lambda _: None,
) -> QuantizedModel:
    """Also if the drop exceeds `max_drop`: the caller checks `report.within`."""
    layers_in = _known_layers(trained, scheme, keep)
    baseline = measure_baseline(trained, trained.model, samples)
    calibration = _calibration(trained, scheme, baseline, calibrated)
    layers = _each_layer(trained, scheme, layers_in, keep, calibration, baseline.subset(layer_samples), say)
    while True:
        model = scheme.quantize(trained.model, [layer.name for layer in layers if not layer.kept], calibration)
        found = baseline.measure(model)
        report = _report(trained, scheme, target, layers, calibration, baseline, model, found, max_drop)
        if AUTO not in keep or report.within or len(report.costliest) <= 1:
            return QuantizedModel(model, report, found.largest)
        worst = report.costliest[0]
        say(f"{report.metric} drops by {allowed_of(report.metric, report.drop)}: {worst.name} stays in float")
        layers = tuple(replace(layer, kept="costly") if layer.name == worst.name else layer for layer in layers)


def _calibration(trained: TrainedModel, scheme: Scheme, baseline: Baseline, samples: int) -> Calibration:
    """Training samples, except the ones that measure the metric."""
    is_train = trained.source[1] is trained.splits.train
    made = Calibration(trained, samples, excluded=frozenset(baseline.numbers.tolist()) if is_train else frozenset())
    if scheme.calibrates and made.count < 1:
        raise CannotExport(
            f"{scheme.name} needs training samples for calibration, and all of them measure the metric. Nothing was "
            "run."
        )
    return replace(made, samples=made.count)


def _known_layers(trained: TrainedModel, scheme: Scheme, keep: Sequence[str]) -> dict[str, nn.Module]:
    known = known_layers(trained.model, scheme.layers)
    if not known:
        kinds = ", ".join(kind.__name__ for kind in scheme.layers)
        raise CannotExport(f"{scheme.name} quantizes {kinds}; this model has none of them. Nothing was written.")
    names = dict(trained.model.named_modules())
    for name in keep:
        if name != AUTO and name not in names:
            guess = did_you_mean(name, known)
            raise Misuse(f"The model has no layer {name!r}.{guess} Nothing was run. Layers: {', '.join(known)}.")
    return known


def _each_layer(
    trained: TrainedModel,
    scheme: Scheme,
    known: dict[str, nn.Module],
    keep: Sequence[str],
    calibration: Calibration,
    baseline: Baseline,
    say: Callable[[str], None],
) -> tuple[Layer, ...]:
    """Each layer quantized alone: its cost, and whether it stays in float."""
    brief = replace(calibration, samples=min(calibration.samples, calibration.batch * 2))
    task, made = trained.task, []
    for number, (name, layer) in enumerate(known.items(), 1):
        say(f"layer {number} of {len(known)} alone: {name}")
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        before, after = weight.numel() * weight.element_size(), scheme.bytes_after(layer)
        found = baseline.measure(scheme.quantize_layer(trained.model, name, brief))
        drop = drop_of(task.metric, task.higher_is_better, baseline.metric, found.metric)
        asked = any(name == each or name.startswith(f"{each}.") for each in keep)
        kept = "asked" if asked else "larger" if after >= before else ""
        made.append(Layer(name, type(layer).__name__, before, after, found.error, drop, kept))
    if all(layer.kept for layer in made):
        raise Misuse("No layer is left to quantize: all stay in float or would grow. Nothing was written.")
    return tuple(made)


def _report(
    trained: TrainedModel,
    scheme: Scheme,
    target: str,
    layers: tuple[Layer, ...],
    calibration: Calibration,
    baseline: Baseline,
    model: nn.Module,
    found: Measurement,
    max_drop: float,
) -> Quantization:
    known = {layer.name for layer in layers}
    others = [
        f"{name} ({type(module).__name__})"
        for name, module in trained.model.named_modules()
        if name not in known and any(weight.dim() > 1 for weight in module.parameters(recurse=False))
    ]
    return Quantization(
        name=trained.recipe.name,
        scheme=scheme.name,
        target=target,
        metric=trained.task.metric,
        higher_is_better=trained.task.higher_is_better,
        before=baseline.metric,
        after=found.metric,
        max_drop=max_drop,
        split=trained.source[0],
        samples=baseline.samples,
        calibrated=calibration.samples if scheme.calibrates else 0,
        size_before=nbytes_of(trained.model),
        size_after=nbytes_of(model),
        layers=layers,
        error=found.error,
        others=tuple(others),
        notes=() if trained.source[1] is not trained.splits.train else (NO_HELD_OUT,),
    )


def drop_message(report: Quantization, keep: Sequence[str]) -> str:
    """Why nothing is written: the numbers, the costliest layers, what to type."""
    metric, costliest = report.metric, report.costliest
    worst = ", ".join(
        f"{layer.name} ({allowed_of(metric, layer.drop)}, outputs off by {layer.error:.2%})"
        for layer in costliest[:SHOWN]
    )
    kept = f"even with {', '.join(layer.name for layer in report.kept)} in float, " if report.kept else ""
    fix = f"keep some in float (--keep-float {costliest[0].name}, or --keep-float auto)"
    return (
        f"{report.name} by {report.scheme}: {kept}{metric} goes from {report.before:.6g} to {report.after:.6g} on "
        f"{report.samples:,} {report.split} samples: a drop of {allowed_of(metric, report.drop)}, and "
        f"{allowed_of(metric, report.max_drop)} is allowed. Nothing was written. Costliest layers, each quantized "
        f"alone: {worst}. Next: {'try another --scheme' if AUTO in keep else fix}, or allow more with --max-drop."
    )
