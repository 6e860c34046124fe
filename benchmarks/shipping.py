"""Does every bundled recipe answer alike wherever it is shipped to? Each is trained for a few steps, exported to every
target, and asked all its validation samples there, in batches of several sizes, in the target's own runtime, beside the
model itself in eager mode.

    python benchmarks/shipping.py --data FOLDER [--recipes digits,mnist] [--targets onnx,aoti] [--runs FOLDER]

The bar: single-precision outputs within 1e-4 of the model's, and the same predictions. Exit code 1 if one misses it.
`ties` are predictions that are others where the model's own two best scores lie within twice the bar of each other;
`trueloop export` forgives them, this does not. The model is asked once, and each target compared with the same answers:
`seconds`, those of the processor, hold them at a recipe's first target. ExecuTorch may live in an environment of its
own, which `make ship-executorch` makes: it is found there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from torch import Tensor

from trueloop.errors import CannotExport
from trueloop.export.catalogue import TARGETS, find_exporter
from trueloop.export.export_model import export_model
from trueloop.export.exporter import installed_version
from trueloop.export.program import Program
from trueloop.export.trained_model import Origin, load_trained_model
from trueloop.recipes.catalogue import bundled
from trueloop.results.artifact import Verification
from trueloop.session.folder import read_about

__all__ = ["BAR", "Shipped", "asked_once", "python_of", "ship", "ship_all", "train"]

BAR: Final = 1e-4
"""How far an output may be off, in its own unit."""
ROUNDINGS: Final = 4
"""Outputs of hundreds of thousands lie further apart than the bar in single precision: these may be off by so many of
its steps."""
STEPS: Final = {
    "shakespeare": ("steps=2", "warmup=0", "evaluate_every=2", "precision=fp32", "batch=4"),
    "shakespeare-tiny": ("steps=30", "warmup=5", "evaluate_every=30"),
}
"""Few enough for a CPU, and enough that the answers are not all alike; of the others: 20."""
REFUSED: Final = {("sentiment", "executorch"): "XNNPACK"}
"""What a runtime cannot do, and a word of its refusal: XNNPACK takes one free dimension, and a bag of words has two."""
ELSEWHERE: Final = Path(__file__).parent.parent / ".venv-executorch" / "bin" / "python"
COLUMNS: Final = ("recipe", "target", "samples", "largest error", "allowed", "other predictions", "ties", "seconds", "")


@final
@dataclass(frozen=True, slots=True)
class Shipped:
    """One recipe at one target. `said`: why it was not exported."""

    recipe: str
    target: str
    verified: Verification | None
    seconds: float
    said: str = ""

    @property
    def allowed(self) -> float:
        scale = self.verified.scale if self.verified is not None else 1.0
        return max(BAR, ROUNDINGS * float(np.spacing(np.float32(scale))))

    @property
    def alike(self) -> bool:
        """Or refused by name, where the runtime is known not to take it."""
        told = self.verified
        if told is None:
            return REFUSED.get((self.recipe, self.target), "\0") in self.said
        return told.max_error <= self.allowed and not told.disagreements and not told.ties

    def row(self) -> tuple[str, ...]:
        if self.verified is None:
            return (self.recipe, self.target, *["-"] * 5, f"{self.seconds:.0f}", self.said)
        told = self.verified
        numbers = (
            f"{told.samples:,}",
            f"{told.max_error:.1e}",
            f"{self.allowed:.1e}",
            f"{told.disagreements:,}",
            f"{told.ties:,}",
        )
        return (self.recipe, self.target, *numbers, f"{self.seconds:.0f}", "" if self.alike else "missed")


def train(recipe: str, runs: Path, data: str) -> Path:
    """The run of this recipe in the folder of runs: the one that is there, or a new one of a few steps."""
    run = runs / recipe
    if run.is_dir():
        return run
    of = (
        ["tabular", str(_table(runs)), "--target", "price"]
        if recipe == "tabular"
        else [recipe, *(["--data", data] if data else [])]
    )
    settings = STEPS.get(recipe, ("steps=20", "warmup=0", "evaluate_every=20"))
    changed = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "trueloop", "train", *of, "--runs", str(runs), "--name", recipe, *changed]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if not run.is_dir() or done.returncode not in (0, 1):  # 1: it has findings, and it has trained
        raise SystemExit(f"{recipe} could not be trained: {_last(done)}")
    return run


def _table(folder: Path) -> Path:
    """Flats and their prices, of up to 600,000."""
    file = folder / "flats.csv"
    lines = [
        f"{30 + at % 170},{at % 6 + 1},{('Ulm', 'Rom', 'Oslo')[at % 3]},{(30 + at % 170) * 3000 + at % 7}"
        for at in range(300)
    ]
    file.write_text("\n".join(["size,rooms,town,price", *lines]) + "\n", encoding="utf-8")
    return file


def python_of(target: str) -> str:
    """Which Python has what the target needs; empty: none."""
    if all(installed_version(package) for package in find_exporter(target).needs):
        return sys.executable
    return str(ELSEWHERE) if target == "executorch" and ELSEWHERE.is_file() else ""


def ship(run: Path, targets: Sequence[str], data: str) -> Iterator[Shipped]:
    """Exported as `trueloop export RUN --to TARGET --samples all` does it, one after the other."""
    subject = load_trained_model(Origin.of_run(run, read_about(run), data=Path(data) if data else None))
    with asked_once():
        for target in targets:
            begun, verified, said = _spent(), None, ""
            try:
                verified = export_model(
                    subject, find_exporter(target), run / "export" / target, samples=None
                ).verification
            except CannotExport as error:
                said = str(error)
            yield Shipped(run.name, target, verified, _spent() - begun, said)


@contextmanager
def asked_once() -> Iterator[None]:
    """Of one model: what it has answered to a batch it need not compute again for the next target."""
    plain = Program.answer
    known: dict[bytes, tuple[Tensor, ...]] = {}

    def answer(program: Program, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        key = b"".join(f"{tensor.dtype}{list(tensor.shape)}".encode() + tensor.numpy().tobytes() for tensor in tensors)
        if key not in known:
            known[key] = plain(program, tensors)
        return tuple(tensor.clone() for tensor in known[key])

    Program.answer = answer  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Program.answer = plain  # type: ignore[method-assign]


def ship_elsewhere(python: str, run: Path, target: str, data: str) -> Shipped:
    """By the Python that has what the target needs."""
    words = ["--runs", str(run.parent), "--recipes", run.name, "--targets", target, "--data", data, "--json"]
    done = subprocess.run([python, __file__, *words], capture_output=True, text=True, errors="replace")
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return Shipped(run.name, target, None, 0.0, _last(done))
    verified = told.pop("verified")
    return Shipped(**told, verified=None if verified is None else Verification.of(verified))


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return next(reversed((done.stderr.strip() or done.stdout.strip()).splitlines()), "it said nothing")


def _spent() -> float:
    """Seconds of the processor: of this process, and of those it has started and seen end."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def ship_all(recipes: Sequence[str], targets: Sequence[str], runs: Path, data: str) -> Iterator[Shipped]:
    here = [target for target in targets if python_of(target) == sys.executable]
    for recipe in recipes:
        run = train(recipe, runs, data)
        yield from ship(run, here, data)
        for target in targets:
            if target not in here:
                yield ship_elsewhere(python_of(target), run, target, data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default=os.environ.get("TRUELOOP_DATA", ""), help="the folder that holds the data sets"
    )
    parser.add_argument("--recipes", default=",".join(bundled()))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument(
        "--runs", type=Path, help="where the runs go, and stay; those that are there are not trained again"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each, and no table")
    asked = parser.parse_args()
    targets = [target for target in asked.targets.split(",") if python_of(target)]
    with tempfile.TemporaryDirectory(prefix="trueloop-shipping-") as scratch:
        made = ship_all(asked.recipes.split(","), targets, asked.runs or Path(scratch), asked.data)
        if asked.json:
            return max(map(_told, made), default=0)
        return _table_of(made, [target for target in asked.targets.split(",") if target not in targets])


def _told(each: Shipped) -> int:
    print(json.dumps(asdict(each)), flush=True)
    return 0 if each.alike else 1


def _table_of(shipped: Iterable[Shipped], absent: Sequence[str]) -> int:
    """Printed as it is made."""
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    made = []
    for each in shipped:
        made.append(each)
        print(f"| {' | '.join(each.row())} |", flush=True)
    alike = sum(each.alike for each in made)
    refused = sum(each.alike and each.verified is None for each in made)
    print(f"\n{alike - refused} of {len(made)} answer alike, {refused} refused as known. {_here()}")
    for target in absent:
        print(f"{target} was left out, for it is not installed: pip install 'trueloop[{find_exporter(target).extra}]'.")
    return 0 if alike == len(made) else 1


def _here() -> str:
    packages = ", ".join(
        f"{name} {installed_version(name)}"
        for name in ("torch", "onnxruntime", "executorch")
        if importlib.util.find_spec(name)
    )
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}."


if __name__ == "__main__":
    sys.exit(main())
