"""The bar on real pictures: fashion-cnn in 8 bits is at least twice as small, and loses one point of accuracy at
most."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trueloop.cli.main import main

pytestmark = pytest.mark.long

RECIPE = '''
"""fashion-cnn, on fewer pictures."""

from dataclasses import replace

import torch

from trueloop.data.tensors import Tensors
from trueloop.recipes import fashion_cnn


def few(request):
    splits = fashion_cnn.read(request)

    def part(source, count):
        return Tensors(*source.fetch(torch.arange(count)))

    return replace(splits, train=part(splits.train, 2000), valid=part(splits.valid, 1000), test=None)


recipe = replace(fashion_cnn.recipe(), name="clothes", data=few, epochs=2, batch=50, lr=0.05, ema=0.9, trackers=())
'''


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clothes")
    data = os.environ.get("TRUELOOP_DATA")
    if not data:
        pytest.skip("TRUELOOP_DATA is not set: there are no pictures of clothes here")
    (folder / "clothes.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", "clothes.py", "--data", data]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.mark.parametrize(("scheme", "target"), [("int8-weight", "pt2"), ("int8-static", "onnx")])
def test_fashion_cnn_in_8_bits_is_half_as_large_and_as_good(
    scheme: str, target: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    assert main(["quantize", "clothes", "--scheme", scheme, "--to", target, "--output", f"{scheme}.json"]) == 0
    told = json.loads((trained / f"{scheme}.json").read_text(encoding="utf-8"))
    assert told["before"] > 0.6, "it has learned something that could be lost"
    assert told["drop"] <= 0.01
    assert told["smaller"] >= 3.5, "the weights"
    assert told["files"][0] >= 2 * told["files"][1], "the file too, with all that is no weight"
