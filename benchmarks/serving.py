"""What batching gives a server: 64 callers at once, with it and without, in turns; and then 10,000 requests of which 1
% is rubbish.

    python benchmarks/serving.py [--requests 6000] [--rounds 5]

Two networks, both for ONNX Runtime: one of 200 narrow layers with 13 million weights, and one of two wide layers with
30 million. It ends with 1 if batching answers fewer than 3 times as many of the first, if 1 answer in 100 comes later
than the limit that the server was told, or if anything at all is answered wrongly or not. Of the wide one, the gain is
only told: it is what reading weights from memory costs more than computing with them, which is a fact of the machine.
Of a network that takes less time than its HTTP there is little to gain.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from trueloop.cli.main import main

LIMIT: Final = "250ms"
"""What the server is told as --latency, and what 99 of 100 answers must keep: a batch before it, its own, and their
HTTP."""
GAIN: Final = "3"
RECIPE: Final = """
import torch
from torch import nn
from trueloop import Recipe
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, inputs):
        return inputs + torch.relu(self.linear(inputs)) / 32


def deep():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), *(Layer(256) for _ in range(200)), nn.Linear(256, 10))


def wide():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 5120), nn.ReLU(), nn.Linear(5120, 5120), nn.ReLU(), nn.Linear(5120, 10))


def read(request):
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (200, 1, 28, 28), generator=draws, dtype=torch.uint8)
    labels = torch.arange(200) % 10
    train, valid = Tensors(images[:100], labels[:100]), Tensors(images[100:], labels[100:])
    return Splits(train, valid, facts=Facts((1, 28, 28), tuple("abcdefghij")), prepare=scaled)


def scaled(images):
    return images.float() / 255


recipe = Recipe(name="NAME", model=NAME, data=read, epochs=1, batch=50, trackers=(), lr=1e-4)
"""  # noqa: E501


def measured(artifacts: list[Path], requests: int, rounds: int) -> int:
    """The first one has to reach the bars; the others are told."""
    asked = ["--requests", str(requests), "--rounds", str(rounds)]
    codes = [main(["load", str(artifacts[0]), *asked, "--latency", LIMIT, "--gain", GAIN])]
    codes += [main(["load", str(artifact), *asked]) for artifact in artifacts[1:]]
    codes.append(main(["load", str(artifacts[0]), "--requests", "10000", "--garbage", "1%", "--with-batching"]))
    return max(codes)


def made(folder: Path, name: str) -> Path:
    """Of a recipe that learns nothing: only its size matters here."""
    os.chdir(folder)
    Path(f"{name}.py").write_text(RECIPE.replace("NAME", name), encoding="utf-8")
    if main(["train", f"{name}.py"]) or main(["export", name, "--to", "onnx"]):
        raise SystemExit("the model could not be made")
    return folder / "runs" / name / "export" / "onnx"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", nargs="*", type=Path, help="of your own, in place of these two")
    parser.add_argument("--requests", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        artifacts = [path.absolute() for path in asked.artifacts] or [
            made(Path(place), name) for name in ("deep", "wide")
        ]
        sys.exit(measured(artifacts, asked.requests, asked.rounds))
