"""What it costs to compute an artifact of a stranger in a confined process, against an own artifact in this process.

    python benchmarks/confined.py [--calls 300]

Both are the same file, called with the same inputs in turns of 20 calls, with a pause in which the threads of the other
one fall asleep. Medians with their difference, and the difference of the 10th percentiles: other load on the machine
makes a change of processes slow. Two models: digits (8 x 8 pixels), and a convolution of pictures of 224 x 224 x 3
bytes, whose inputs are large.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from trueloop.bench.inputs import inputs_of
from trueloop.cli.main import main
from trueloop.export.catalogue import runner_of
from trueloop.export.confined_runner import ConfinedRunner
from trueloop.export.exporter import Array, Runner
from trueloop.export.folder import read_artifact

BATCHES: Final = (1, 32)
TURN: Final = 20  # Calls
WARM: Final = 3  # Calls at the beginning of a turn that do not count
PAUSE: Final = 0.1  # Seconds: ONNX Runtime's threads spin for a while after a call
RECIPE: Final = """
import torch
from torch import nn
from trueloop import Recipe
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors


def pictures():
    return nn.Sequential(nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def read(request):
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (200, 3, 224, 224), generator=draws, dtype=torch.uint8)
    train, valid = (Tensors(images[part], torch.arange(100) % 10) for part in (slice(0, 100), slice(100, None)))
    return Splits(train, valid, facts=Facts((3, 224, 224), tuple("abcdefghij")), prepare=scaled)


def scaled(images):
    return images.float() / 255


recipe = Recipe(name="pictures", model=pictures, data=read, epochs=1, batch=50, trackers=(), lr=1e-4)
"""  # noqa: E501


def exported(name: str, target: str) -> Path:
    """In the current folder."""
    recipe = name
    if name != "digits":
        recipe = f"{name}.py"
        Path(recipe).write_text(RECIPE, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        trained = Path("runs", name).is_dir() or not main(["train", recipe, "--set", "epochs=1", "--name", name])
        if not trained or main(["export", name, "--to", target]):
            raise SystemExit(said.getvalue())
    return Path("runs", name, "export", target)


def stranger_s(folder: Path) -> tuple[ConfinedRunner, float]:
    """The same artifact as another user would open it, and the seconds that it took."""
    own = os.environ.get("TRUELOOP_KEY")
    os.environ["TRUELOOP_KEY"] = str(Path("another-key").absolute())
    try:
        begun = time.perf_counter()
        runner = runner_of(read_artifact(folder))
        assert isinstance(runner, ConfinedRunner)
        return runner, time.perf_counter() - begun
    finally:
        os.environ.pop("TRUELOOP_KEY")
        if own is not None:
            os.environ["TRUELOOP_KEY"] = own


def turn(runner: Runner, inputs: list[Array]) -> list[float]:
    time.sleep(PAUSE)
    times = []
    for _ in range(WARM + TURN):
        begun = time.perf_counter()
        runner.run(inputs)
        times.append(time.perf_counter() - begun)
    return times[WARM:]


def measure(name: str, target: str, calls: int) -> None:
    folder = exported(name, target)
    artifact = read_artifact(folder)
    begun = time.perf_counter()
    own = runner_of(artifact)
    opened = time.perf_counter() - begun
    confined, took = stranger_s(folder)
    for batch in BATCHES:
        inputs = inputs_of(artifact.inputs, artifact.preprocessing, batch)
        assert np.array_equal(own.run(inputs)[0], confined.run(inputs)[0])
        turns = [(turn(own, inputs), turn(confined, inputs)) for _ in range(max(1, calls // TURN))]
        times = [sorted(chain.from_iterable(column)) for column in zip(*turns, strict=True)]
        (ours, theirs), (own_fast, confined_fast) = (
            [each[int(len(each) * share)] * 1e3 for each in times] for share in (0.5, 0.1)
        )
        bytes = sum(each.nbytes for each in inputs)
        cells = (
            f"{ours:.2f} ms",
            f"{theirs:.2f} ms",
            f"{theirs - ours:+.2f} ms",
            f"{confined_fast - own_fast:+.2f} ms",
        )
        opening = f"{opened:.1f} s", f"{took:.1f} s"
        print(f"| {name} | {target} | {batch} | {bytes / 1e3:,.1f} kB | {' | '.join((*cells, *opening))} |", flush=True)
    confined.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    asked = parser.parse_args()
    print("| model | target | batch | inputs | own | confined | difference | at p10 | opens own | confined |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name in ("digits", "pictures"):
            for target in ("onnx", "pt2"):
                measure(name, target, asked.calls)
