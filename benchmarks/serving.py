"""What batching gives a server: 64 callers at once, with it and without, and then 10,000 requests of which 1 % is rubbish.

    python benchmarks/serving.py [--requests 3000]

The model is a network wide enough for a batch to be cheaper per sample than one after another: 30 million weights, which are read once
for each batch. Of a network that takes less time than HTTP itself, there is little to gain, as the bundled ones show: pass their artefacts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from trueloop.cli.main import main

RECIPE: Final = """
import torch
from torch import nn
from trueloop import Recipe
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors

WIDTH = 5120


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def read(request):
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (200, 1, 28, 28), generator=draws, dtype=torch.uint8)
    labels = torch.arange(200) % 10
    train, valid = Tensors(images[:100], labels[:100]), Tensors(images[100:], labels[100:])
    return Splits(train, valid, facts=Facts((1, 28, 28), tuple("abcdefghij")), prepare=scaled)


def scaled(images):
    return images.float() / 255


recipe = Recipe(name="wide", model=network, data=read, epochs=1, batch=50, trackers=(), lr=1e-4)
"""


def measured(requests: int, artefacts: list[Path]) -> int:
    codes = [main(["load", str(artefact), "--requests", str(requests)]) for artefact in artefacts]
    codes.append(main(["load", str(artefacts[0]), "--requests", "10000", "--garbage", "1%", "--with-batching"]))
    return max(codes)


def made(folder: Path) -> Path:
    """Of a recipe that learns nothing: only its size matters here."""
    os.chdir(folder)
    Path("wide.py").write_text(RECIPE, encoding="utf-8")
    if main(["train", "wide.py"]) or main(["export", "wide", "--to", "onnx"]):
        raise SystemExit("the model could not be made")
    return folder / "runs" / "wide" / "export" / "onnx"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", nargs="*", type=Path, help="of your own, in place of the wide one")
    parser.add_argument("--requests", type=int, default=3_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        sys.exit(measured(asked.requests, asked.artefacts or [made(Path(place))]))
