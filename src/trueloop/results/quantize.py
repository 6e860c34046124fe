"""What it costs to keep a model in fewer bits, and what it saves: of the whole, and of each layer alone. No torch
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["ALLOWED", "Layer", "Quantization", "Speed", "allowed_of", "change_of", "drop_of"]

ALLOWED: Final = 0.01
"""One point of a share (accuracy 0.91 -> 0.90), or one hundredth of a metric that is none (a loss)."""
SHARES: Final = frozenset(("accuracy", "f1", "r2"))
"""Metrics whose best is 1: a point is a hundredth of that, whatever the metric was before."""


def drop_of(metric: str, higher_is_better: bool, before: float, after: float) -> float:
    """How much worse it became: in points of a share, as a part of the metric where it is none. Below zero: it became
    better."""
    worse = before - after if higher_is_better else after - before
    return worse if metric in SHARES else worse / abs(before) if before else worse


def allowed_of(metric: str, drop: float) -> str:
    """A drop in words: 1 point, 1 % of the loss."""
    if metric in SHARES:
        return f"{drop * 100:.3g} point{'' if round(drop * 100, 3) == 1 else 's'}"
    return f"{drop * 100:.3g} % of the {metric}"


def change_of(metric: str, drop: float) -> str:
    """The same, of one that may also be for the better."""
    return f"better by {allowed_of(metric, -drop)}" if drop < 0 else f"drop {allowed_of(metric, drop)}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that the scheme knows, quantized alone, all others in float."""

    name: str
    kind: str
    """Linear, Conv2d ..."""
    before: int
    """Bytes of its weight."""
    after: int
    error: float
    """Of the model's outputs: root of the mean square of the difference, as a part of that of the outputs."""
    drop: float
    """Of the metric; see `drop_of`."""
    kept: str = ""
    """Why it stays in float: asked | larger | costly; empty: it is quantized."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a batch, medians of interleaved runs of the float model and the quantized one in the same form."""

    batch: int
    before: float
    after: float

    @property
    def times(self) -> float:
        """Above 1: the quantized one is faster."""
        return self.before / self.after if self.after else 1.0


@dataclass(frozen=True, slots=True)
class Quantization:
    """A scheme applied to a run's model."""

    name: str
    """Of the recipe."""
    scheme: str
    target: str
    metric: str
    higher_is_better: bool
    before: float
    after: float
    max_drop: float
    split: str
    samples: int
    """Validation samples that the metric is of."""
    calibrated: int
    """Training samples by which ranges were found, or that it learned from; 0: the scheme needs none."""
    size_before: int
    """Bytes of all weights, as a weights file holds them."""
    size_after: int
    layers: tuple[Layer, ...]
    error: float
    """Of the outputs, as `Layer.error`, all layers together."""
    others: tuple[str, ...] = ()
    """Layers with weights that the scheme does not know: they stay as they are."""
    notes: tuple[str, ...] = ()
    speeds: tuple[Speed, ...] = ()
    files: tuple[int, int] = (0, 0)
    """Bytes of the model's file in this target: in float, quantized; zeros: not measured."""

    @property
    def drop(self) -> float:
        return drop_of(self.metric, self.higher_is_better, self.before, self.after)

    @property
    def within(self) -> bool:
        # A drop that is no number is no small one; 10 of 1,000 samples are one point, whatever a float makes of 0.5 -
        # 0.49.
        return self.drop <= self.max_drop + 1e-9

    @property
    def smaller(self) -> float:
        return self.size_before / self.size_after if self.size_after else 1.0

    @property
    def kept(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kept)

    @property
    def costliest(self) -> tuple[Layer, ...]:
        """Of those that are quantized, the worst first."""
        return tuple(
            sorted((layer for layer in self.layers if not layer.kept), key=lambda layer: (-layer.drop, -layer.error))
        )

    def plain(self) -> dict[str, Any]:
        told = asdict(self)
        return {**told, "drop": self.drop, "within": self.within, "smaller": self.smaller}

    def summary(self) -> Mapping[str, Any]:
        """For artifact.json: what its owner must know."""
        names = (
            "scheme",
            "metric",
            "before",
            "after",
            "drop",
            "max_drop",
            "split",
            "samples",
            "calibrated",
            "size_before",
            "size_after",
        )
        told = self.plain()
        return {**{name: told[name] for name in names}, "kept_in_float": [layer.name for layer in self.kept]}

    def words(self) -> str:
        """For CARD.md."""
        kept = f"; kept in float: {', '.join(layer.name for layer in self.kept)}" if self.kept else ""
        return (
            f"Quantized by {self.scheme}: {self.metric} {self.before:.6g} -> {self.after:.6g} on {self.samples:,} {self.split} samples "
            f"({change_of(self.metric, self.drop)}, allowed {allowed_of(self.metric, self.max_drop)}), weights "
            f"{self.size_before:,} -> {self.size_after:,} bytes ({self.smaller:.2f}x smaller){kept}."
        )
