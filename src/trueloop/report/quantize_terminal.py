"""A quantization as a person reads it: what it saves, what it costs, and each layer alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.quantize import Layer, Quantization, allowed_of, change_of

__all__ = ["lines_of", "print_quantization"]

WHY: Final = {
    "asked": "kept in float: asked for",
    "larger": "kept in float: would be larger",
    "costly": "kept in float: costs too much",
    "": "",
}
BAR: Final = 20
"""Letters of the longest bar."""


def print_quantization(told: Quantization, to: TextIO) -> None:
    for line in lines_of(told):
        print(line, file=to)


def lines_of(told: Quantization) -> Iterator[str]:
    calibrated = f", {told.calibrated:,} training samples to calibrate" if told.calibrated else ""
    yield f"{told.name} by {told.scheme}, as {told.target}{calibrated}"
    yield f"  weights  {bytes_of(told.size_before)} -> {bytes_of(told.size_after)}, {told.smaller:.2f}x smaller{_file(told)}"
    drop = change_of(told.metric, told.drop)
    allowed = f"allowed {allowed_of(told.metric, told.max_drop)}"
    yield f"  {told.metric:<8} {told.before:.4f} -> {told.after:.4f} on {told.samples:,} {told.split} samples: {drop} ({allowed})"
    for speed in told.speeds:
        word = "faster" if speed.times >= 1 else "SLOWER"
        times = speed.times if speed.times >= 1 else 1 / speed.times
        yield f"  batch {speed.batch:<3} {seconds_of(speed.before)} -> {seconds_of(speed.after)}, {times:.2f}x {word} (medians, in turns)"
    yield "  each layer quantized alone, all others in float: error of the outputs, drop of the metric"
    yield from _table(told)
    if told.others:
        yield f"  stays in float, not known to {told.scheme}: {', '.join(told.others)}"
    for note in told.notes:
        yield f"  note     {note}"


def _file(told: Quantization) -> str:
    before, after = told.files
    if not before or not after:
        return ""
    word = "smaller" if after <= before else "LARGER"
    return f"; file {bytes_of(before)} -> {bytes_of(after)}, {max(before / after, after / before):.2f}x {word}"


def _table(told: Quantization) -> Iterator[str]:
    width = max(len(layer.name) for layer in told.layers)
    kinds = max(len(layer.kind) for layer in told.layers)
    most = max(layer.error for layer in told.layers)
    for layer in told.layers:
        sizes = f"{bytes_of(layer.before):>7} -> {bytes_of(layer.after):<7}"
        cost = f"{layer.error:7.2%} {_bar(layer, most):<{BAR}} {layer.drop * 100:+6.2f}"
        yield f"    {layer.name:<{width}}  {layer.kind:<{kinds}}  {sizes}  {cost}  {WHY[layer.kept]}".rstrip()


def _bar(layer: Layer, most: float) -> str:
    share = layer.error / most if most > 0 else 0.0
    return "█" * max(1, round(share * BAR))
