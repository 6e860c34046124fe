"""`trueloop bench ARTIFACT|RUN ... --batch 1,8,32`: how fast the forms of a model are, side by side."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import writable
from trueloop.cli.options import Parser
from trueloop.errors import Misuse
from trueloop.export.device import parse_device, torch_device
from trueloop.recipes.origin import origin_of
from trueloop.results.artifact import FILE
from trueloop.session.folder import find_run, read_about

if TYPE_CHECKING:
    from trueloop.bench.form import FormSpec

__all__ = ["bench"]

USAGE: Final = "[options] ARTIFACT|RUN ..."
ABOUT: Final = """Measure the forms of a model against each other: latency (median, 95th and 99th percentile) and throughput for each batch.

An ARTIFACT is a folder that `trueloop export` or `trueloop quantize` wrote; while it lies in its run, the run's model is measured beside
it: as it is (eager), and compiled by torch.compile. A RUN stands for these and all artifacts in RUN/export. Each form has a process of its
own and the same inputs; they are measured in turns, round by round, after a warm-up that does not count. All run on one device, and a call
goes from arrays in the host's memory to arrays there: on a GPU both copies count. A form that fails, or cannot run there, is told, and the
others go on."""
FAILED: Final = 1
"""The exit code if no form, or not every form, could be measured."""


def bench(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    from trueloop.bench.measure import bench as measure
    from trueloop.report import print_report, render

    report = None if asked.json is None else writable(asked.json, "--json")
    page = None if asked.html is None else writable(asked.html, "--html")
    if asked.device != "cpu":
        torch_device(asked.device)  # not there: one sentence, and not one of each form
    forms = _forms(asked)
    told = measure(
        forms,
        asked.batch,
        seconds=asked.seconds,
        threads=asked.threads,
        say=lambda words: print(f"  {words}", file=sys.stderr),
    )
    print_report(told, to=sys.stdout)
    if report is not None:
        report.write_text(render(told, "json"), encoding="utf-8")
    if page is not None:
        page.write_text(render(told, "html"), encoding="utf-8")
    return FAILED if any(form.failed for form in told.forms) else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("bench", USAGE, ABOUT)
    parser.add_argument("what", nargs="*", metavar="ARTIFACT|RUN", help="folders of artifacts, or a run")
    parser.add_argument(
        "--batch", metavar="N,N,...", type=_batches, default=(1, 8, 32), help="sizes of batches (1,8,32)"
    )
    parser.add_argument(
        "--threads", metavar="N", type=_threads, default=0, help="for each form (as many as its runtime takes)"
    )
    parser.add_argument("--seconds", metavar="S", type=_seconds, default=3.0, help="for each form and batch (3)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="all numbers, for machines")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="the table and pictures, as a page that opens offline"
    )
    parser.add_argument("--no-compile", action="store_true", help="of a run, leave torch.compile out")
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        type=parse_device,
        default="cpu",
        help="for all forms: cpu (default) | cuda | cuda:N",
    )
    parser.add_argument(
        "--checkpoint", metavar="WHICH", default="best", help="of a run: best (default) | last | a step"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="of a run: the folder that holds its data, if not where it found them"
    )
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    asked = parser.parse_all(arguments)
    if not asked.what:
        raise Misuse(
            "Which artifact? Nothing was run: type `trueloop bench runs/NAME/export/onnx`, or name a run for all of its forms."
        )
    return asked


def _batches(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise Misuse(f"--batch cannot be {text!r}. Nothing was run: write sizes with commas, as in 1,8,32.")
    return tuple(dict.fromkeys(map(int, parts)))


def _threads(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--threads cannot be {text!r}. Nothing was run: write a number from 1 on.")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise Misuse(f"--seconds cannot be {text!r}. Nothing was run: write a number above 0.")
    return value


# -- which forms --


def _forms(asked: argparse.Namespace) -> list[FormSpec]:
    """Each once, the model as it is first: what the others are compared with."""
    made: list[FormSpec] = []
    for word in asked.what:
        folder = Path(word)
        if (folder / FILE).is_file():
            made += [*_model_beside(asked, folder), _artifact(folder, asked.device)]
        else:
            run = find_run(word, asked.runs, "measured")
            artifacts = sorted(
                path.parent for path in (run / "export").glob(f"*/{FILE}") if not path.parent.name.startswith(".")
            )
            made += [*_model(asked, run), *(_artifact(folder, asked.device) for folder in artifacts)]
    made.sort(key=lambda form: ("eager", "compiled", "artifact").index(form.kind))
    once = {(form.kind, Path(form.folder).resolve()): form for form in made}
    return _told_apart(list(once.values()))


def _artifact(folder: Path, device: str) -> FormSpec:
    from trueloop.bench.form import FormSpec

    return FormSpec("artifact", str(folder), folder.name, device=device)


def _model_beside(asked: argparse.Namespace, folder: Path) -> list[FormSpec]:
    """Of an artifact that still lies in its run."""
    run = folder.resolve().parent.parent
    return _model(asked, run) if folder.resolve().parent.name == "export" and (run / "run.json").is_file() else []


def _model(asked: argparse.Namespace, run: Path) -> list[FormSpec]:
    """As it is, and compiled."""
    from trueloop.bench.form import FormSpec

    about = read_about(run)
    origin = origin_of(run, about, "runs of `trueloop train RECIPE` can be measured; of others, their artifacts.")
    used = {"origin": origin, "data": str(asked.data or about.get("data") or "")}
    kinds = ("eager",) if asked.no_compile else ("eager", "compiled")
    return [FormSpec(kind, str(run), kind, used, asked.checkpoint, asked.device) for kind in kinds]


def _told_apart(forms: list[FormSpec]) -> list[FormSpec]:
    """Two of one name are shown with the folders that they lie in."""
    from dataclasses import replace

    names = [form.name for form in forms]
    return [form if names.count(form.name) == 1 else replace(form, name=_longer(form)) for form in forms]


def _longer(form: FormSpec) -> str:
    folder = Path(form.folder)
    return f"{folder.name} {form.kind}" if form.kind != "artifact" else "/".join(folder.resolve().parts[-3:])
