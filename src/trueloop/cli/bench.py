"""`trueloop bench ARTIFACT|RUN ... --batch 1,8,32`: latency and throughput of the forms of a model, side by side."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.bench_generation import bench_generation
from trueloop.cli.bench_op import add_op_options, bench_op
from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, number, whole_number
from trueloop.cli.subject_file import NAMED
from trueloop.errors import Misuse
from trueloop.export.device import parse_device, torch_device
from trueloop.recipes.origin import origin_of
from trueloop.results.artifact import FILE
from trueloop.results.check import ExitCode
from trueloop.session.folder import find_run, read_about
from trueloop.trust.recipes import MADE_HERE

if TYPE_CHECKING:
    from trueloop.bench.form import FormSpec

__all__ = ["bench", "parser"]

ABOUT: Final = """Compare the forms of a model: latency (median, 95th and 99th percentile) and throughput for each batch
size.

An ARTIFACT is a folder that `trueloop export` or `trueloop quantize` wrote. If it lies in its run, the model of the
run is measured too, eager and compiled. A RUN stands for its model and all artifacts in RUN/export. Each form runs
in its own process, with the same inputs, in turns, after a warm-up. A call goes from host memory to host memory: on
a GPU both copies count. A form that fails is reported, and the others continue.

With --generate a language model of a run writes text: tokens per second, time to the first token, and time per token,
for each batch size, with and without its KV cache.

An operation of your own (FILE.py:NAME) is measured beside its reference over sizes: median, memory and compute rates,
share of this machine's measured ceilings, the winner per size; on CUDA by events, with a cold and a warm L2 cache."""


def parser() -> Parser:
    usage = (
        "ARTIFACT|RUN ... [options]",
        "RUN --generate [options]",
        "FILE.py:NAME [--against torch.softmax] [options]",
    )
    made = Parser("bench", usage, ABOUT)
    add = made.add_argument
    add("what", nargs="*", metavar="ARTIFACT|RUN", help="folders of artifacts, or a run")
    add("--batch", metavar="N,N,...", type=_batches, default=(1, 8, 32), help="batch sizes (1,8,32)")
    add("--threads", metavar="N", type=whole_number(), default=0, help="threads per form (default: the runtime's)")
    seconds = number("a number of seconds above 0", above=0)
    add("--seconds", metavar="S", type=seconds, default=3.0, help="for each form and batch size (3)")
    add("--no-compile", action="store_true", help="run: without torch.compile")
    add("--device", type=parse_device, default="cpu", help="for all forms: cpu (default) | cuda | cuda:N")
    add("--checkpoint", metavar="WHICH", default="best", help="run: best (default) | last | a step")
    add("--data", type=Path, metavar="DIR", help="run: the folder with its data, if it has moved")
    add("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    add("--generate", action="store_true", help="run of a language model: tokens per second, with and without KV cache")
    add("--prompt-tokens", metavar="N", type=whole_number(), help="--generate: length of the prompt (16)")
    add("--tokens", metavar="N", type=whole_number(), help="--generate: tokens of each text (64)")
    add_op_options(made, _batches)
    made.add_report_options(quiet="no progress, only the report")
    made.add_trust()
    return made


def bench(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if not options.what:
        raise Misuse("Which artifact? Nothing was run: type `trueloop bench runs/NAME/export/onnx`, or name a run.")
    if not options.generate and (options.tokens or options.prompt_tokens):
        raise Misuse("--tokens and --prompt-tokens are for --generate. Nothing was run.")
    if options.generate:
        return bench_generation(options)
    if NAMED.fullmatch(options.what[0]):
        return bench_op(options)
    if options.against or options.inputs:
        typed = "type `trueloop bench FILE.py:NAME --against torch.softmax`"
        raise Misuse(f"--against and --inputs are for an operation. Nothing was run: {typed}.")
    from trueloop.bench.measure import bench as measure

    delivery = Delivery(options)
    if options.device != "cpu":
        torch_device(options.device)  # a missing device is one error, not one per form
    say = (lambda _: None) if options.quiet else partial(print, " ", file=sys.stderr)
    result = measure(_forms(options), options.batch, seconds=options.seconds, threads=options.threads, say=say)
    delivery.deliver(result)
    return ExitCode.FINDINGS if any(form.failed for form in result.forms) else ExitCode.CLEAN


def _batches(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"cannot be {text!r}: expected sizes with commas, as in 1,8,32")
    return tuple(dict.fromkeys(map(int, parts)))


# -- which forms --


def _forms(options: argparse.Namespace) -> list[FormSpec]:
    """Each once, the eager model first: the reference."""
    forms: list[FormSpec] = []
    for word in options.what:
        folder = Path(word)
        if (folder / FILE).is_file():
            forms += [*_model_beside(options, folder), _artifact(folder, options.device)]
        else:
            run = find_run(word, options.runs, "measured")
            folders = sorted(file.parent for file in (run / "export").glob(f"*/{FILE}"))
            visible = [folder for folder in folders if not folder.name.startswith(".")]
            forms += [*_model(options, run), *(_artifact(folder, options.device) for folder in visible)]
    forms.sort(key=lambda form: ("eager", "compiled", "artifact").index(form.kind))
    once = {(form.kind, Path(form.folder).resolve()): form for form in forms}
    return _with_unique_names(list(once.values()))


def _artifact(folder: Path, device: str) -> FormSpec:
    from trueloop.bench.form import FormSpec

    return FormSpec("artifact", str(folder), folder.name, device=device)


def _model_beside(options: argparse.Namespace, folder: Path) -> list[FormSpec]:
    """Of an artifact that still lies in its run."""
    run = folder.resolve().parent.parent
    return _model(options, run) if folder.resolve().parent.name == "export" and (run / "run.json").is_file() else []


def _model(options: argparse.Namespace, run: Path) -> list[FormSpec]:
    """Eager and compiled."""
    from trueloop.bench.form import FormSpec

    about = read_about(run)
    origin = origin_of(run, about, "runs of `trueloop train RECIPE` can be measured; of others, their artifacts.")
    used = {"origin": origin, "data": str(options.data or about.get("data") or ""), MADE_HERE: about.get(MADE_HERE)}
    kinds = ("eager",) if options.no_compile else ("eager", "compiled")
    return [FormSpec(kind, str(run), kind, used, options.checkpoint, options.device) for kind in kinds]


def _with_unique_names(forms: list[FormSpec]) -> list[FormSpec]:
    """Forms with the same name are shown with their folders."""
    names = [form.name for form in forms]
    return [form if names.count(form.name) == 1 else replace(form, name=_longer(form)) for form in forms]


def _longer(form: FormSpec) -> str:
    folder = Path(form.folder)
    return f"{folder.name} {form.kind}" if form.kind != "artifact" else "/".join(folder.resolve().parts[-3:])
