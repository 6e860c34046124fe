"""The result of `quantize` as a document: what it saves, what it costs, and each layer alone."""

from collections.abc import Iterator
from typing import Final

from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.document import Column, Document, Facts, Part, Table, Text, columns
from trueloop.results.quantize import Quantization, allowed_of, change_of

__all__ = ["document"]

WHY: Final = {"asked": "requested", "larger": "would be larger", "costly": "costs too much"}  # kept in float
COLUMNS: Final = (
    Column("layer", "name"),
    Column("kind"),
    *columns("float", "quantized", "error"),
    Column("", "bar"),
    Column("drop", "number"),
    Column(""),
)


def document(made: Quantization) -> Document:
    calibrated = f", calibrated on {made.calibrated:,} training samples" if made.calibrated else ""
    title = f"{made.name} by {made.scheme}, as {made.target}{calibrated}"
    return Document(title, tuple(_parts(made)), made.notes, name=f"trueloop quantize: {made.name} by {made.scheme}")


def _parts(made: Quantization) -> Iterator[Part]:
    yield Facts("", dict(_facts(made)))
    rows = tuple(
        (
            layer.name,
            layer.kind,
            bytes_of(layer.before),
            bytes_of(layer.after),
            f"{layer.error:.2%}",
            layer.error,
            f"{layer.drop * 100:+.2f}",
            f"kept in float: {WHY[layer.kept]}" if layer.kept else "",
        )
        for layer in made.layers
    )
    hint = "each quantized alone, all others in float: error of the outputs, drop of the metric"
    yield Table("Layers", COLUMNS, rows, hint=hint)
    if made.others:
        yield Text(f"stays in float, not supported by {made.scheme}: {', '.join(made.others)}")


def _facts(made: Quantization) -> Iterator[tuple[str, str]]:
    sizes = f"{bytes_of(made.size_before)} -> {bytes_of(made.size_after)}, {made.smaller:.2f}x smaller"
    yield "weights", f"{sizes}{_file(made)}"
    drop, allowed = change_of(made.metric, made.drop), allowed_of(made.metric, made.max_drop)
    metric = f"{made.before:.4f} -> {made.after:.4f} on {made.samples:,} {made.split} samples"
    yield made.metric, f"{metric}: {drop} (allowed {allowed})"
    for speed in made.speeds:
        word, times = ("faster", speed.times) if speed.times >= 1 else ("SLOWER", 1 / speed.times)
        change = f"{seconds_of(speed.before)} -> {seconds_of(speed.after)}, {times:.2f}x {word}"
        yield f"batch {speed.batch}", f"{change} (medians of interleaved calls)"


def _file(made: Quantization) -> str:
    before, after = made.files
    if not before or not after:
        return ""
    word = "smaller" if after <= before else "LARGER"
    return f"; file {bytes_of(before)} -> {bytes_of(after)}, {max(before / after, after / before):.2f}x {word}"
