"""The result of `quantize`: what fewer bits cost and save, for the model and for each layer alone. No torch here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["ALLOWED", "Layer", "Quantization", "Speed", "allowed_of", "change_of", "drop_of"]

ALLOWED: Final = 0.01  # one point of a share (accuracy 0.91 -> 0.90), or one hundredth of another metric (a loss)
SHARES: Final = frozenset(("accuracy", "f1", "r2"))  # metrics whose best value is 1: a point is a hundredth of that


def drop_of(metric: str, higher_is_better: bool, before: float, after: float) -> float:
    """How much worse the metric became: in points for a share, relative for others. Negative: it improved."""
    worse = before - after if higher_is_better else after - before
    return worse if metric in SHARES else worse / abs(before) if before else worse


def allowed_of(metric: str, drop: float) -> str:
    """A drop as text: 1 point, 1 % of the loss."""
    if metric in SHARES:
        return f"{drop * 100:.3g} point{'' if round(drop * 100, 3) == 1 else 's'}"
    return f"{drop * 100:.3g} % of the {metric}"


def change_of(metric: str, drop: float) -> str:
    """The same for a change that may be an improvement."""
    return f"better by {allowed_of(metric, -drop)}" if drop < 0 else f"drop {allowed_of(metric, drop)}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A supported layer, quantized alone, all others in float."""

    name: str
    kind: str  # linear, Conv2d
    before: int  # bytes of its weight
    after: int
    error: float  # relative RMS error of the model's outputs
    drop: float  # of the metric; see `drop_of`
    kept: str = ""  # why it stays in float: asked | larger | costly; empty: quantized


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds per batch of the float and the quantized model in the same form: medians of interleaved runs."""

    batch: int
    before: float
    after: float

    @property
    def times(self) -> float:
        """Above 1: the quantized model is faster."""
        return self.before / self.after if self.after else 1.0


@dataclass(frozen=True, slots=True)
class Quantization:
    """A scheme applied to a run's model."""

    name: str  # of the recipe
    scheme: str
    target: str
    metric: str
    higher_is_better: bool
    before: float
    after: float
    max_drop: float
    split: str
    samples: int  # validation samples of the metric
    calibrated: int  # training samples for calibration or training; 0: the scheme needs none
    size_before: int  # bytes of all weights, as a weights file holds them
    size_after: int
    layers: tuple[Layer, ...]
    error: float  # as `Layer.error`, all layers quantized
    others: tuple[str, ...] = ()  # layers with weights that the scheme does not support: they stay in float
    notes: tuple[str, ...] = ()
    speeds: tuple[Speed, ...] = ()
    files: tuple[int, int] = (0, 0)  # bytes of the exported file: float, quantized; zeros: not measured

    @property
    def drop(self) -> float:
        return drop_of(self.metric, self.higher_is_better, self.before, self.after)

    @property
    def within(self) -> bool:
        # False for NaN. 10 of 1,000 samples are one point, whatever a float makes of 0.5 - 0.49.
        return self.drop <= self.max_drop + 1e-9

    @property
    def smaller(self) -> float:
        return self.size_before / self.size_after if self.size_after else 1.0

    @property
    def kept(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.kept)

    @property
    def costliest(self) -> tuple[Layer, ...]:
        """The quantized layers, the worst first."""
        quantized = (layer for layer in self.layers if not layer.kept)
        return tuple(sorted(quantized, key=lambda layer: (-layer.drop, -layer.error)))

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "drop": self.drop, "within": self.within, "smaller": self.smaller}

    def summary(self) -> Mapping[str, Any]:
        """For artifact.json."""
        names = "scheme metric before after drop max_drop split samples calibrated size_before size_after"
        return {
            **{name: getattr(self, name) for name in names.split()},
            "kept_in_float": [layer.name for layer in self.kept],
        }

    def words(self) -> str:
        """For CARD.md."""
        kept = f"; kept in float: {', '.join(layer.name for layer in self.kept)}" if self.kept else ""
        metric = f"{self.metric} {self.before:.6g} -> {self.after:.6g} on {self.samples:,} {self.split} samples"
        drop = f"{change_of(self.metric, self.drop)}, allowed {allowed_of(self.metric, self.max_drop)}"
        sizes = f"{self.size_before:,} -> {self.size_after:,} bytes ({self.smaller:.2f}x smaller)"
        return f"Quantized by {self.scheme}: {metric} ({drop}), weights {sizes}{kept}."
