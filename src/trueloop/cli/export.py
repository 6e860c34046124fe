"""`trueloop export RUN --to TARGET`: a run's model for another runtime, verified against the model before it counts."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, number, offer, whole_number
from trueloop.errors import Misuse
from trueloop.export.catalogue import TARGETS, find_exporter
from trueloop.export.device import parse_device
from trueloop.results.document import Document, Facts
from trueloop.session.folder import find_run, read_about

if TYPE_CHECKING:
    from trueloop.export.trained_model import TrainedModel
    from trueloop.results.artifact import Artifact, Port

__all__ = ["add_run_options", "export", "parser", "trained_model"]

ABOUT: Final = """Write the model of a run as a file for another runtime, with its preprocessing, its class names and a
model card:

  pt2          PyTorch's exported graph; runs without the model's code
  aoti         machine code, compiled ahead of time; runs without a compiler
  onnx         the open format, for ONNX Runtime and others
  executorch   for phones and small devices
  safetensors  the weights alone, for the recipe's model
  torchscript  for programs that load nothing else; deprecated

It is verified before it counts: it runs in its own runtime, in another process, on validation samples, in batches of
several sizes, on --device, and on inputs beyond the data (zeros, perturbed and extreme values, other lengths). The
reference is the model on the CPU in fp32; on a GPU, TF32 is off. If outputs or metrics differ, nothing is left, and the
first differing layer is named."""


def parser() -> Parser:
    made = Parser("export", "RUN --to TARGET [options]", ABOUT)
    add = made.add_argument
    offer(add("--to", metavar="TARGET", help=" | ".join(TARGETS)), TARGETS)
    tolerance = number("a number, 0 or more, as in 1e-4", least=0)
    add("--tolerance", metavar="E", type=tolerance, help="output tolerance (1e-4)")
    add("--device", type=parse_device, default="cpu", help="where to verify; target of aoti: cpu | cuda | cuda:N")
    samples = whole_number(also="all")
    add("--samples", metavar="N|all", type=samples, default=0, help="validation samples to verify on (256)")
    add_run_options(made, "RUN/export/TARGET")
    made.add_report_options(quiet="print errors only")
    made.add_trust()
    return made


def add_run_options(parser: Parser, place: str) -> None:
    """Which run and checkpoint, and where the artifact goes."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="the folder of a run, or its name in the folder of runs")
    parser.add_argument("--checkpoint", metavar="WHICH", default="best", help="best (default) | last | a step")
    parser.add_argument("--folder", metavar="FOLDER", type=Path, help=f"the folder to write ({place})")
    parser.add_argument("--license", metavar="TEXT", default="", help="license of the model, for its card")
    parser.add_argument("--data-license", metavar="TEXT", default="", help="license of the data, for the card")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder with the data, if it has moved")
    parser.add_argument("--download", action="store_true", help="download the data if they are missing")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")


def export(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.run is None:
        typed = "type `trueloop export runs/NAME --to onnx`"
        raise Misuse(f"Which run? Nothing was run: {typed}; `trueloop runs` lists them.")
    if options.to is None:
        typed = f"type `trueloop export {options.run} --to onnx`"
        raise Misuse(f"To which target? Nothing was run: {typed}. Targets: {', '.join(TARGETS)}.")
    exporter = find_exporter(options.to)
    exporter.require(options.device)
    delivery = Delivery(options)
    run = find_run(options.run, options.runs, "exported")
    trained = trained_model(options, run)
    from trueloop.export.export_model import export_model
    from trueloop.export.verify import SAMPLES, TOLERANCE

    begun = time.perf_counter()
    artifact = export_model(
        trained,
        exporter,
        options.folder or run / "export" / options.to,
        tolerance=TOLERANCE if options.tolerance is None else options.tolerance,
        samples=SAMPLES if options.samples == 0 else options.samples,
        licence={"model": options.license, "data": options.data_license},
        device=options.device,
    )
    delivery.deliver(_document(artifact, time.perf_counter() - begun), healthy=True)
    return 0


def trained_model(options: argparse.Namespace, run: Path) -> TrainedModel:
    from trueloop.export.trained_model import Origin, load_trained_model

    advice = "`trueloop train RECIPE` makes runs to export; in Python, call trueloop.export.export_model.export_model."
    chosen = {name: getattr(options, name) for name in ("data", "download", "checkpoint")}
    origin = Origin.of_run(run, read_about(run), advice, **chosen, readiness=_readiness(run))
    return load_trained_model(origin)


def _readiness(run: Path) -> str:
    """The verdict of `trueloop ready`, computed again, if there is a report."""
    if not (run / "training-readiness.md").is_file():
        return ""
    from trueloop.claims.catalogue import names
    from trueloop.readiness.gather import readiness_of

    return readiness_of(run, names()).verdict


def _document(artifact: Artifact, seconds: float) -> Document:
    run, tried = artifact.run, artifact.verification
    assert tried is not None
    weights = "moving average, " if run["weights"] == "ema" else ""
    lengths = f", lengths {_list(tried.lengths)}" if tried.lengths else ""
    on = f"{tried.samples:,} {tried.split} samples, batch sizes {_list(tried.batches)}{lengths}"
    ties = f", {tried.ties} ties" if tried.ties else ""
    differ = f"largest {tried.max_error:.2g} (tolerance {tried.tolerance * tried.scale:.2g})"
    share = f", {tried.relative:.2g} of the largest output"
    facts = {
        "input": "; ".join(map(_port, artifact.inputs)),
        "output": "; ".join(map(_port, artifact.outputs)),
        "verified": f"by {tried.runtime} in its own process: {on}",
        "beyond": ", ".join(tried.beyond) or "the model accepts no inputs beyond the data",
        "difference": f"{differ}{share}, {tried.disagreements} different predictions{ties}",
        "metrics": "; ".join(f"{name} {ours:.6g} -> {theirs:.6g}" for name, (ours, theirs) in tried.metrics.items()),
        "written": f"{artifact.file}, {artifact.files[artifact.file.name]['bytes']:,} bytes",
    }
    model = f"{artifact.name} as {artifact.target}"
    return Document(
        f"{model}: {run['id']}, {weights}step {run['step']}; {seconds:.1f} s",
        (Facts("", facts),),
        artifact.notes,
        name=f"trueloop export: {model}",
        data={**artifact.plain(), "folder": artifact.folder, "seconds": seconds},
    )


def _port(port: Port) -> str:
    return f"{port.name} {port.dtype}[{', '.join(port.sizes())}]"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
