"""Every scheme of `trueloop quantize`, to every target that takes it: what it saves, what it costs, how fast it is.
fashion-cnn by default.

    python benchmarks/quantizing.py RUN --data DIR [--split test] [--samples 1000] [--schemes qat,...] [--targets
    onnx,...] python benchmarks/quantizing.py --train fashion-cnn --data DIR     # trains it first: a minute on a GPU,
    an hour on a CPU

The metric is the quantized model's on all samples of the split, validation unless told otherwise; `other answers` are
those that the artifact, run by its own runtime, gives otherwise than that model, ties included. Speed is that of a
batch of 1 and of 32, in turns with the float model in the same form: above 1 the quantized one is faster. Exits with 1
if an int8 scheme misses the bar: weights and file at least 2x smaller than in float, and a drop of one point at most.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from trueloop.cli.main import main
from trueloop.errors import CannotExport, TrueloopError
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model
from trueloop.export.trained_model import Origin, TrainedModel, load_trained_model
from trueloop.quantize.catalogue import SCHEMES, find_scheme
from trueloop.quantize.quantize_model import QuantizedModel, quantize_model
from trueloop.quantize.scheme import Scheme
from trueloop.quantize.write import check_target, compare_artifacts, write_quantized
from trueloop.results.artifact import Artifact
from trueloop.results.quantize import ALLOWED, Quantization
from trueloop.session.folder import read_about

TARGETS: Final = ("pt2", "onnx", "aoti", "torchscript")
SMALLER: Final = 2.0
"""How many times smaller an int8 model must be."""
BARRED: Final = ("int8-dynamic", "int8-weight", "int8-static", "qat")
"""The schemes that the bar is for."""
LOOKED_AT: Final = 64
"""Samples for each layer alone, which is not what is asked here."""
VERIFIED: Final = 256
Made = TypeVar("Made")
ROUNDS: Final = 7
"""Turns of each model: medians of a batch of 32 are quiet enough after these."""


@dataclass(frozen=True)
class Row:
    """One scheme in one form."""

    told: Quantization
    others: int
    """Answers of the artifact that are not the quantized model's."""
    verified: int

    @property
    def file(self) -> float:
        return self.report.files[0] / self.report.files[1]

    @property
    def missed(self) -> str:
        """Why it is past the bar; empty: it is not, or there is none for it."""
        told = self.report
        wrong = [
            *([f"drops by {told.drop * 100:.2f} points"] if not told.within else []),
            *([f"weights only {told.smaller:.2f}x smaller"] if told.smaller < SMALLER else []),
            *([f"file only {self.file:.2f}x smaller"] if self.file < SMALLER else []),
        ]
        return f"{told.scheme} as {told.target}: {', '.join(wrong)}" if wrong and told.scheme in BARRED else ""


class Bench:
    """The run's model, its float forms, and what was found so far."""

    def __init__(self, subject: TrainedModel, scratch: Path, samples: int | None) -> None:
        self.subject, self.scratch, self.samples = subject, scratch, samples
        self.plain: dict[str, Artifact] = {}
        self.rows: list[Row] = []
        self.refused: list[str] = []

    def scheme(self, name: str, targets: Sequence[str]) -> None:
        scheme = self._or_refused(name, lambda: _ready(name))
        if scheme is None:
            return
        decided = self._or_refused(name, lambda: self._decided(scheme))
        for target in targets if decided is not None else ():
            row = self._or_refused(f"{name} as {target}", lambda target=target: self._row(scheme, decided, target))  # type: ignore[misc]
            if row is not None:
                self.rows.append(row)
                print(cells(row), flush=True)

    def _decided(self, scheme: Scheme) -> QuantizedModel:
        return quantize_model(self.subject, scheme, "", max_drop=ALLOWED, samples=self.samples, layer_samples=LOOKED_AT)

    def _row(self, scheme: Scheme, decided: QuantizedModel, target: str) -> Row:
        exporter = find_exporter(target)
        exporter.require()
        check_target(scheme, exporter)
        if target not in self.plain:
            self.plain[target] = export_model(self.subject, exporter, self.scratch / "float" / target, samples=8)
        place = self.scratch / scheme.name / target
        made = write_quantized(self.subject, scheme, decided, exporter, place, samples=VERIFIED)
        tried = made.verification
        assert tried is not None
        told = compare_artifacts(replace(decided.report, target=target), self.subject, self.plain[target], made, ROUNDS)
        return Row(told, tried.disagreements + tried.ties, tried.samples)

    def _or_refused(self, what: str, work: Callable[[], Made]) -> Made | None:
        try:
            return work()
        except TrueloopError as error:
            reason = str(error) if isinstance(error, CannotExport) else f"{what}: {error}"
            self.refused.append(reason)
            print(f"  refused  {reason}", flush=True)
            return None


def _ready(name: str) -> Scheme:
    scheme = find_scheme(name)
    scheme.require()
    return scheme


HEADING: Final = (
    f"{'scheme':<13}{'target':<13}{'weights':>8}{'file':>8}{'batch 1':>9}{'batch 32':>10}"
    f"{'before':>11}{'after':>11}{'drop':>8}{'other answers':>15}  kept in float"
)


def cells(row: Row) -> str:
    told = row.report
    one, many = (f"{speed.times:.2f}x" for speed in told.speeds)
    kept = [layer.name for layer in told.kept] + list(told.others)
    return (
        f"{told.scheme:<13}{told.target:<13}{told.smaller:>7.2f}x{row.file:>7.2f}x{one:>9}{many:>10}"
        f"{told.before:>11.5g}{told.after:>11.5g}{told.drop * 100:>+8.2f}{f'{row.others}/{row.verified}':>15}  "
        f"{', '.join(kept) or '-'}"
    )


def plainly(rows: Sequence[Row]) -> Iterator[str]:
    """What the table says, in words."""
    slower = [
        f"{row.report.scheme} as {row.report.target}"
        for row in rows
        if all(speed.times < 1 for speed in row.report.speeds)
    ]
    faster = [
        f"{row.report.scheme} as {row.report.target}"
        for row in rows
        if all(speed.times > 1 for speed in row.report.speeds)
    ]
    yield f"SLOWER than the float model at both sizes of batch: {', '.join(slower) or 'none'}"
    yield f"faster at both: {', '.join(faster) or 'none'}"


def subject_in(run: Path, data: Path | None, split: str) -> TrainedModel:
    subject = load_trained_model(Origin.of_run(run, read_about(run), data=data))
    return subject if split == "valid" else replace(subject, splits=replace(subject.splits, valid=None))


def plain(rows: Sequence[Row], refused: Sequence[str]) -> dict[str, Any]:
    return {
        "rows": [{**row.report.plain(), "others": row.others, "verified": row.verified} for row in rows],
        "refused": list(refused),
    }


def run(options: argparse.Namespace, scratch: Path) -> int:
    place = options.run
    if options.train:
        typed = ["train", options.train, "--runs", str(scratch / "runs"), "--name", "trained"]
        if main([*typed, *(["--data", str(options.data)] if options.data else [])]):
            return 1
        place = scratch / "runs" / "trained"
    subject = subject_in(place, options.data, options.split)
    bench = Bench(subject, scratch, options.samples)
    print(
        f"{subject.recipe.name}, step {subject.run['step']}, {subject.source[0]} samples: "
        f"{options.samples or len(subject.source[1]):,}"
    )
    print(HEADING, flush=True)
    for name in options.schemes.split(","):
        bench.scheme(name, options.targets.split(","))
    print("\n".join(plainly(bench.rows)))
    if options.json:
        options.json.write_text(json.dumps(plain(bench.rows, bench.refused), indent=1), encoding="utf-8")
    missed = [row.missed for row in bench.rows if row.missed]
    told = [row for row in bench.rows if row.report.scheme in BARRED]
    print("\n".join(f"past the bar: {each}" for each in missed) or f"the bar: kept by all {len(told)} int8 forms")
    return 1 if missed or not told else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="the run's folder")
    parser.add_argument("--train", metavar="RECIPE", default="", help="train this recipe first, in place of RUN")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", choices=("valid", "test"), default="valid")
    parser.add_argument("--samples", type=int, help="so many of them, spread over all; unless given, all")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if (asked.run is None) == (not asked.train):
        parser.error("give the folder of a run, or --train RECIPE")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(asked, Path(folder)))
