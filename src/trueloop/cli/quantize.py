"""`trueloop quantize RUN --scheme SCHEME`: a run's model in fewer bits, as an artifact, if its metric stays good
enough."""

import sys
from typing import Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.export import add_run_options, trained_model
from trueloop.cli.options import Parser, number, offer, whole_number
from trueloop.errors import CannotExport, Misuse
from trueloop.quantize.catalogue import SCHEMES, find_scheme
from trueloop.results.quantize import ALLOWED
from trueloop.session.folder import find_run

__all__ = ["parser", "quantize"]

ABOUT: Final = """Write the model of a run in fewer bits, as an artifact:

  int8-weight   8-bit weights, computed in float: the smallest loss
  int8-dynamic  8-bit linear layers; activations are quantized row by row
  int8-static   8-bit convolutions and linear layers; ranges from training data
  qat           quantization-aware training for a while, then int8-static
  int4-weight   4-bit weights, 32 per scale
  fp8           8-bit float weights

The report shows size, speed, the metric before and after on validation samples, and what each layer costs alone. If
the metric drops by more than --max-drop, nothing is written, and the layers that cost most are named. The file is
verified like an export, against the quantized model."""
POINTS: Final = 100.0


def parser() -> Parser:
    made = Parser("quantize", "RUN --scheme SCHEME [options]", ABOUT)
    add = made.add_argument
    offer(add("--scheme", metavar="SCHEME", help=" | ".join(SCHEMES)), SCHEMES)
    to = add("--to", metavar="TARGET", default="pt2", help="pt2 (default) | onnx | aoti | torchscript")
    offer(to, ("pt2", "onnx", "aoti", "torchscript"))
    points = number("points from 0, as in 0.5", least=0)
    drop = ALLOWED * POINTS
    add("--max-drop", metavar="D", type=points, default=drop, help="points (percent of a loss) it may be worse (1)")
    add("--keep-float", metavar="NAME|auto", action="append", default=[], help="keep this layer in float; auto chooses")
    add("--calibrate", metavar="N", type=whole_number(), help="training samples for calibration (512)")
    samples = whole_number(also="all")
    add("--samples", metavar="N|all", type=samples, default=0, help="validation samples for the metric (2048)")
    add("--no-speed", action="store_true", help="do not measure the speed against the float model")
    add_run_options(made, "RUN/export/SCHEME-TARGET")
    made.add_report_options(quiet="print errors only")
    made.add_trust()
    return made


def quantize(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    typed = f"type `trueloop quantize {options.run or 'runs/NAME'} --scheme int8-weight`"
    if options.run is None:
        raise Misuse(f"Which run? Nothing was run: {typed}; `trueloop runs` lists them.")
    if options.scheme is None:
        raise Misuse(f"By which scheme? Nothing was run: {typed}. Schemes: {', '.join(SCHEMES)}.")
    from trueloop.export.catalogue import find_exporter
    from trueloop.quantize.quantize_model import CALIBRATED, SAMPLES, drop_message, quantize_model
    from trueloop.quantize.write import check_target, compare_with_float, write_quantized

    scheme, exporter = find_scheme(options.scheme), find_exporter(options.to)
    scheme.require()
    exporter.require()
    check_target(scheme, exporter)
    delivery = Delivery(options)
    run = find_run(options.run, options.runs, "quantized")
    trained = trained_model(options, run)
    quantized = quantize_model(
        trained,
        scheme,
        options.to,
        max_drop=options.max_drop / POINTS,
        keep=options.keep_float,
        samples=SAMPLES if options.samples == 0 else options.samples,
        calibrated=options.calibrate or CALIBRATED,
        say=lambda words: None if options.quiet else print(f"  {words}", file=sys.stderr),
    )
    result = quantized.report
    if not result.within:
        delivery.deliver(result)
        raise CannotExport(drop_message(result, options.keep_float))
    folder = options.folder or run / "export" / f"{options.scheme}-{options.to}"
    licenses = {"model": options.license, "data": options.data_license}
    artifact = write_quantized(trained, scheme, quantized, exporter, folder, licence=licenses)
    if not options.no_speed:
        result = compare_with_float(result, trained, exporter, artifact)
    delivery.deliver(result, healthy=True)
    tried = artifact.verification
    assert tried is not None
    if not options.quiet:
        print(
            f"  verified by {tried.runtime} in its own process, against the quantized model: largest difference "
            f"{tried.max_error:.2g} (tolerance {tried.tolerance * tried.scale:.2g}), {tried.disagreements} different "
            f"predictions\n  written  {artifact.file}, {artifact.files[artifact.file.name]['bytes']:,} bytes",
            file=sys.stdout if delivery.in_terminal else sys.stderr,
        )
    return 0
