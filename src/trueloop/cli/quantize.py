"""`trueloop quantize RUN --scheme SCHEME`: a run's model in fewer bits, as an artifact, if it still answers well
enough."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import writable
from trueloop.cli.export import run_arguments, samples_asked, trained_model
from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.errors import CannotExport, Misuse
from trueloop.quantize.catalogue import SCHEMES, find_scheme
from trueloop.results.quantize import ALLOWED
from trueloop.session.folder import find_run

if TYPE_CHECKING:
    from trueloop.results.quantize import Quantization

__all__ = ["quantize"]

USAGE: Final = "[options] RUN --scheme SCHEME"
ABOUT: Final = """Write the model of a run in fewer bits, as an artifact:

  int8-weight   weights in 8 bits, computed in float: the least loss
  int8-dynamic  linear layers in 8 bits, inputs rounded row by row
  int8-static   convolutions and linear layers in 8 bits throughout; ranges are found on training samples
  qat           trained on for a little while it is rounded, then as int8-static
  int4-weight   weights in 4 bits, 32 to a scale
  fp8           weights as 8-bit floats

Told: size, speed, the metric before and after on validation samples, and what each layer costs alone. Past --max-drop nothing is written,
and the layers that cost most are named. What is written is verified as an export is, against the quantized model."""
PAST: Final = 1
"""The exit code of a drop that is too large, or of a target that cannot take it."""
SHARE: Final = 100.0
"""Points of a whole."""


def quantize(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    try:
        return with_their_errors(lambda: _quantize(asked))
    except CannotExport as error:
        print(f"trueloop: {error}", file=sys.stderr)
        return PAST


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("quantize", USAGE, ABOUT)
    parser.add_argument("--scheme", metavar="SCHEME", help=" | ".join(SCHEMES))
    parser.add_argument("--to", metavar="TARGET", default="pt2", help="pt2 (default) | onnx | aoti | torchscript")
    parser.add_argument(
        "--max-drop",
        metavar="D",
        type=_drop,
        default=ALLOWED,
        help="points (per cent of a loss) that it may be worse (1)",
    )
    parser.add_argument(
        "--keep-float", metavar="NAME|auto", action="append", default=[], help="leave this layer as it is; auto: choose"
    )
    parser.add_argument("--calibrate", metavar="N", type=_count, help="training samples that it looks at (512)")
    parser.add_argument(
        "--samples", metavar="N|all", type=samples_asked, default=0, help="validation samples of the metric (2048)"
    )
    parser.add_argument(
        "--no-speed", action="store_true", help="do not export the float model too, to measure against it"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="all numbers, for machines")
    run_arguments(parser, "RUN/export/SCHEME-TARGET")
    asked = parser.parse_all(arguments)
    if asked.run is None:
        raise Misuse(
            "Which run? Nothing was run: type `trueloop quantize runs/NAME --scheme int8-weight`; `trueloop runs` lists them."
        )
    if asked.scheme is None:
        there = ", ".join(SCHEMES)
        raise Misuse(
            f"By which scheme? Nothing was run: type `trueloop quantize {asked.run} --scheme int8-weight`. There are: {there}."
        )
    return asked


def _drop(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise Misuse(f"--max-drop cannot be {text!r}. Nothing was run: write points from 0 on, as in 0.5.")
    return value / SHARE


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--calibrate cannot be {text!r}. Nothing was run: write a number of training samples.")
    return int(text)


def _quantize(asked: argparse.Namespace) -> int:
    from trueloop.export.catalogue import find_exporter
    from trueloop.quantize.quantize_model import CALIBRATED, SAMPLES, drop_message, quantize_model
    from trueloop.quantize.write import check_target, compare_with_float, write_quantized
    from trueloop.report import print_report

    scheme, exporter = find_scheme(asked.scheme), find_exporter(asked.to)
    scheme.require()
    exporter.require()
    check_target(scheme, exporter)
    report = None if asked.json is None else writable(asked.json, "--json")
    run = find_run(asked.run, asked.runs, "quantized")
    trained = trained_model(asked, run)
    quantized = quantize_model(
        trained,
        scheme,
        asked.to,
        max_drop=asked.max_drop,
        keep=asked.keep_float,
        samples=SAMPLES if asked.samples == 0 else asked.samples,
        calibrated=asked.calibrate or CALIBRATED,
        say=lambda words: print(f"  {words}", file=sys.stderr),
    )
    told = quantized.report
    if not told.within:
        _save(told, report)
        print_report(told, to=sys.stdout)
        raise CannotExport(drop_message(told, asked.keep_float))
    licence = {"model": asked.licence, "data": asked.data_licence}
    made = write_quantized(
        trained,
        scheme,
        quantized,
        exporter,
        asked.output or run / "export" / f"{asked.scheme}-{asked.to}",
        licence=licence,
    )
    if not asked.no_speed:
        told = compare_with_float(told, trained, exporter, made)
    _save(told, report)
    print_report(told, to=sys.stdout)
    tried = made.verification
    assert tried is not None
    print(f"  verified by {tried.runtime} in a process of its own, against the quantized model: largest difference {tried.max_error:.2g} "
          f"(tolerance {tried.tolerance * tried.scale:.2g}), {tried.disagreements} other predictions")  # fmt: skip
    print(f"  written  {made.file}, {made.files[made.file.name]['bytes']:,} bytes")
    return 0


def _save(told: Quantization, file: Path | None) -> None:
    if file is not None:
        from trueloop.report import render

        file.write_text(render(told, "json"), encoding="utf-8")
