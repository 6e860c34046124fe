"""`trueloop export RUN --to TARGET`: a run's model for another runtime; it counts only once it has answered as the
model does."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.errors import CannotExport, Misuse
from trueloop.export.catalogue import TARGETS, find_exporter
from trueloop.export.device import parse_device
from trueloop.session.folder import find_run, read_about

if TYPE_CHECKING:
    from trueloop.export.trained_model import TrainedModel
    from trueloop.results.artifact import Artifact, Port

__all__ = ["export", "run_arguments", "samples_asked", "trained_model"]

USAGE: Final = "[options] RUN --to TARGET"
ABOUT: Final = """Write the model of a run as a file for another runtime, with its preprocessing, the names of its classes and a card:

  pt2          torch's exported graph; torch runs it without the model's code
  aoti         machine code, compiled ahead of time; torch runs it without a compiler
  onnx         the open format; ONNX Runtime and many others run it
  executorch   for phones and small devices
  safetensors  the weights alone, for the recipe's model
  torchscript  for programs that load no other; deprecated by torch

It counts only once it has answered as the model does: run in its own runtime, in another process, on validation samples of the run's own
data, in batches of several sizes, on --device. Otherwise nothing is left of it, and the first differing layer is named. What it is held
against is the model on the CPU, in fp32; on a GPU TF32 is off."""
DIFFERENT: Final = 1
"""The exit code of an export that is not possible, or that answers otherwise."""


def export(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    try:
        return with_their_errors(lambda: _export(asked))
    except CannotExport as error:
        print(f"trueloop: {error}", file=sys.stderr)
        return DIFFERENT


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("export", USAGE, ABOUT)
    parser.add_argument("--to", metavar="TARGET", help=" | ".join(TARGETS))
    parser.add_argument(
        "--tolerance", metavar="E", type=_tolerance, help="largest difference of an output that is no difference (1e-4)"
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        type=parse_device,
        default="cpu",
        help="where it is tried, and what aoti is for: cpu (default) | cuda | cuda:N",
    )
    parser.add_argument(
        "--samples", metavar="N|all", type=samples_asked, default=0, help="validation samples that it is tried on (256)"
    )
    run_arguments(parser, "RUN/export/TARGET")
    asked = parser.parse_all(arguments)
    if asked.run is None:
        raise Misuse(
            "Which run? Nothing was run: type `trueloop export runs/NAME --to onnx`; `trueloop runs` lists them."
        )
    if asked.to is None:
        raise Misuse(
            f"Export it as what? Nothing was run: type `trueloop export {asked.run} --to onnx`. There are: {', '.join(TARGETS)}."
        )
    return asked


def run_arguments(parser: Parser, place: str) -> None:
    """Whose model, of which run and checkpoint, and where it goes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run: its folder, or its name in the folder of runs")
    parser.add_argument("--checkpoint", metavar="WHICH", default="best", help="best (default) | last | a step")
    parser.add_argument("--output", metavar="FOLDER", type=Path, help=f"where to ({place})")
    parser.add_argument(
        "--licence", metavar="TEXT", default="", help="of the model, for its card; --data-licence that of the data"
    )
    parser.add_argument("--data-licence", metavar="TEXT", default="", help=argparse.SUPPRESS)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder that holds the data, if not where the run found them"
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch the data from their public home if they are not here"
    )
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise Misuse(f"--tolerance cannot be {text!r}. Nothing was run: write a number from 0 on, as in 1e-4.")
    return value


def samples_asked(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--samples cannot be {text!r}. Nothing was run: write a number from 1 on, or all.")
    return int(text)


def _export(asked: argparse.Namespace) -> int:
    exporter = find_exporter(asked.to)
    exporter.require(asked.device)
    run = find_run(asked.run, asked.runs, "exported")
    trained = trained_model(asked, run)
    from trueloop.export.export_model import export_model
    from trueloop.export.verify import SAMPLES, TOLERANCE

    begun = time.perf_counter()
    made = export_model(
        trained,
        exporter,
        asked.output or run / "export" / asked.to,
        tolerance=TOLERANCE if asked.tolerance is None else asked.tolerance,
        samples=SAMPLES if asked.samples == 0 else asked.samples,
        licence={"model": asked.licence, "data": asked.data_licence},
        device=asked.device,
    )
    _show(made, time.perf_counter() - begun)
    return 0


def trained_model(asked: argparse.Namespace, run: Path) -> TrainedModel:
    from trueloop.export.origin import Origin
    from trueloop.export.trained_model import load_trained_model

    otherwise = (
        "runs of `trueloop train RECIPE` can be exported; from Python, call trueloop.export.export_model.export_model."
    )
    origin = Origin.of_run(
        run,
        read_about(run),
        otherwise,
        data=asked.data,
        download=asked.download,
        checkpoint=asked.checkpoint,
        readiness=_readiness(run),
    )
    return load_trained_model(origin)


def _readiness(run: Path) -> str:
    """If somebody has asked for it; as it is now, not as it was then."""
    if not (run / "training-readiness.md").is_file():
        return ""
    from trueloop.claims.catalogue import names
    from trueloop.readiness.gather import readiness_of

    return readiness_of(run, names()).verdict


def _show(made: Artifact, seconds: float) -> None:
    run, tried = made.run, made.verification
    assert tried is not None
    weights = "moving average, " if run["weights"] == "ema" else ""
    print(f"{made.name} as {made.target}: {run['id']}, {weights}step {run['step']}; {seconds:.1f} s")
    print(f"  takes     {'; '.join(map(_port, made.inputs))}")
    print(f"  answers   {'; '.join(map(_port, made.outputs))}")
    lengths = f", lengths {_list(tried.lengths)}" if tried.lengths else ""
    on = f"{tried.samples:,} {tried.split} samples, batches of {_list(tried.batches)}{lengths}"
    print(f"  verified  by {tried.runtime} in a process of its own: {on}")
    ties = f", {tried.ties} ties" if tried.ties else ""
    allowed = f"tolerance {tried.tolerance * tried.scale:.2g}"
    print(
        f"            largest difference {tried.max_error:.2g} ({allowed}), {tried.disagreements} other predictions{ties}"
    )
    print(
        f"            {'; '.join(f'{name} {ours:.6g} -> {theirs:.6g}' for name, (ours, theirs) in tried.metrics.items())}"
    )
    for note in made.notes:
        print(f"  note      {note}")
    print(f"  written   {made.file}, {made.files[made.file.name]['bytes']:,} bytes")


def _port(port: Port) -> str:
    def one(at: int, size: int | None) -> str:
        most = port.limit(at)
        return str(size) if size is not None else f"1..{most}" if most else "any"

    return f"{port.name} {port.dtype}[{', '.join(one(at, size) for at, size in enumerate(port.shape))}]"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
