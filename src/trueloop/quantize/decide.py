"""Which layers are quantized: all that the scheme knows, less those that would grow, those that were asked for, and, if
it is left to trueloop, as few of the costliest as it takes to stay within the drop that is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from torch import nn

from trueloop.errors import CannotExport, Misuse, did_you_mean
from trueloop.export.subject import Subject
from trueloop.quantize.measure import Measured, Yardstick, yardstick_of
from trueloop.quantize.scheme import Calibration, Scheme, known_layers, nbytes_of
from trueloop.results.quantize import Layer, Quantization, allowed_of, drop_of

__all__ = ["AUTO", "CALIBRATED", "SAMPLES", "Decided", "decide", "refusal"]

AUTO: Final = "auto"
"""`--keep-float auto`: trueloop chooses."""
SAMPLES: Final = 2048
"""Validation samples that the metric is of: half a point is then ten samples."""
CALIBRATED: Final = 512
"""Training samples that ranges are found on: more change them little."""
LOOKED_AT: Final = 512
"""Validation samples for each layer alone."""
UNSEEN: Final = (
    "the data hold no validation or test samples: judged by training samples, and by none that it was calibrated on"
)
"""Told where it is so."""
SHOWN: Final = 5
"""Layers that a refusal names."""

Say = Callable[[str], None]


@final
@dataclass(frozen=True)
class Decided:
    """The quantized model, and what it costs."""

    model: nn.Module
    told: Quantization
    largest: float
    """The largest difference of an output that quantization itself makes."""


def decide(
    subject: Subject,
    scheme: Scheme,
    target: str,
    *,
    max_drop: float,
    keep: Sequence[str] = (),
    samples: int | None = SAMPLES,
    calibrated: int = CALIBRATED,
    looked_at: int = LOOKED_AT,
    say: Say | None = None,
) -> Decided:
    """Past `max_drop` too: whether it may be written is for the caller to see (`Quantization.within`, `refusal`)."""
    say = say or _silent
    known = _known(subject, scheme, keep)
    yardstick = yardstick_of(subject, subject.model, samples)
    calibration = _calibration(subject, scheme, yardstick, calibrated)
    layers = _alone(subject, scheme, known, keep, calibration, yardstick.fewer(looked_at), say)
    model, found = _all(subject, scheme, layers, calibration, yardstick)
    told = _told(subject, scheme, target, layers, calibration, yardstick, model, found, max_drop)
    while AUTO in keep and not told.within and len(told.costliest) > 1:
        worst = told.costliest[0]
        say(f"{told.metric} drops by {allowed_of(told.metric, told.drop)}: {worst.name} stays in float")
        layers = tuple(replace(layer, kept="costly") if layer.name == worst.name else layer for layer in layers)
        model, found = _all(subject, scheme, layers, calibration, yardstick)
        told = _told(subject, scheme, target, layers, calibration, yardstick, model, found, max_drop)
    return Decided(model, told, found.largest)


def _calibration(subject: Subject, scheme: Scheme, yardstick: Yardstick, samples: int) -> Calibration:
    """On training samples, and never on one that the metric is measured on."""
    itself = subject.source[1] is subject.splits.train
    made = Calibration(subject, samples, spared=frozenset(yardstick.numbers.tolist()) if itself else frozenset())
    if scheme.calibrates and made.count < 1:
        raise CannotExport(
            f"{scheme.name} needs training samples besides those that it is judged by, and there are none. Nothing was run."
        )
    return replace(made, samples=made.count)


def _silent(words: str) -> None:
    """For those who do not want to know how far it is."""


def _known(subject: Subject, scheme: Scheme, keep: Sequence[str]) -> dict[str, nn.Module]:
    known = known_layers(subject.model, scheme.layers)
    if not known:
        raise CannotExport(f"{scheme.name} knows no layer of this model ({_kinds(scheme)}). Nothing was written.")
    everything = dict(subject.model.named_modules())
    for name in keep:
        if name != AUTO and name not in everything:
            raise Misuse(
                f"There is no layer {name!r}.{did_you_mean(name, known)} Nothing was run. There are: {', '.join(known)}."
            )
    return known


def _kinds(scheme: Scheme) -> str:
    return f"it quantizes {', '.join(kind.__name__ for kind in scheme.layers)}"


def _alone(
    subject: Subject,
    scheme: Scheme,
    known: dict[str, nn.Module],
    keep: Sequence[str],
    calibration: Calibration,
    few: Yardstick,
    say: Say,
) -> tuple[Layer, ...]:
    """Each layer by itself: what it costs, and whether it is to be quantized at all."""
    brief = replace(calibration, samples=min(calibration.samples, calibration.batch * 2))
    task, made = subject.task, []
    for number, (name, layer) in enumerate(known.items(), 1):
        say(f"layer {number} of {len(known)} alone: {name}")
        before, after = _bytes(layer), scheme.bytes_after(layer)
        found = few.measure(scheme.alone(subject.model, name, brief))
        drop = drop_of(task.metric, task.higher_is_better, few.before, found.metric)
        asked = any(name == each or name.startswith(f"{each}.") for each in keep)
        why = "asked" if asked else "larger" if after >= before else ""
        made.append(Layer(name, type(layer).__name__, before, after, found.error, drop, why))
    if all(layer.kept for layer in made):
        raise Misuse(
            "No layer is left to quantize: all of them are to stay in float, or would grow. Nothing was written."
        )
    return tuple(made)


def _bytes(layer: nn.Module) -> int:
    weight = layer.weight
    assert isinstance(weight, torch.Tensor)
    return weight.numel() * weight.element_size()


def _all(
    subject: Subject, scheme: Scheme, layers: Sequence[Layer], calibration: Calibration, yardstick: Yardstick
) -> tuple[nn.Module, Measured]:
    model = scheme.quantized(subject.model, [layer.name for layer in layers if not layer.kept], calibration)
    return model, yardstick.measure(model)


def _told(
    subject: Subject,
    scheme: Scheme,
    target: str,
    layers: tuple[Layer, ...],
    calibration: Calibration,
    yardstick: Yardstick,
    model: nn.Module,
    found: Measured,
    max_drop: float,
) -> Quantization:
    return Quantization(
        name=subject.recipe.name,
        scheme=scheme.name,
        target=target,
        metric=subject.task.metric,
        higher_is_better=subject.task.higher_is_better,
        before=yardstick.before,
        after=found.metric,
        max_drop=max_drop,
        split=subject.source[0],
        samples=yardstick.samples,
        calibrated=calibration.samples if scheme.calibrates else 0,
        size_before=nbytes_of(subject.model),
        size_after=nbytes_of(model),
        layers=layers,
        error=found.error,
        others=_others(subject.model, {layer.name for layer in layers}),
        notes=() if subject.source[1] is not subject.splits.train else (UNSEEN,),
    )


def _others(model: nn.Module, known: set[str]) -> tuple[str, ...]:
    """Layers with matrices that the scheme does not know."""
    return tuple(
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if name not in known and any(weight.dim() > 1 for weight in module.parameters(recurse=False))
    )


def refusal(told: Quantization, keep: Sequence[str]) -> str:
    """Why it is not written: the numbers, the layers that cost most, what to type."""
    worst = ", ".join(
        f"{layer.name} ({allowed_of(told.metric, layer.drop)}, outputs off by {layer.error:.2%})"
        for layer in told.costliest[:SHOWN]
    )
    tried = "even with " + ", ".join(layer.name for layer in told.kept) + " in float, " if told.kept else ""
    cure = (
        "take another --scheme"
        if AUTO in keep
        else f"keep some in float (--keep-float {told.costliest[0].name}, or --keep-float auto)"
    )
    return (
        f"{told.name} by {told.scheme}: {tried}{told.metric} goes from {told.before:.6g} to {told.after:.6g} on {told.samples:,} "
        f"{told.split} samples: a drop of {allowed_of(told.metric, told.drop)}, and {allowed_of(told.metric, told.max_drop)} is allowed. "
        f"Nothing was written. Quantized alone, these cost most: {worst}. Next: {cure}, or allow more by --max-drop."
    )
