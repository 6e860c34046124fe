"""The output of a layer, as the model computed it, in a file of each kind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import trueloop
from tests.conftest import in_child
from trueloop.cli.main import main
from trueloop.inspection.activations import as_file, layer_outputs
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 3)
        self.last = nn.Linear(3, 2)
        self.idle = nn.Linear(2, 2)

    def forward(self, x):
        return self.last(self.first(x).relu_())
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "layered_of_mine.py").write_text(NET, encoding="utf-8")
    yield
    sys.modules.pop("layered_of_mine", None)


def test_the_file_holds_what_the_layer_returned(capsys: Captured) -> None:
    batch = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    np.save("batch.npy", batch.numpy())
    words = ["inspect", "model", "layered_of_mine.py:Net", "--activations", "first", "--inputs", "batch.npy"]
    files = ["out.safetensors", "out.npz", "out.pt", "out.json"]
    assert main([*words, *(word for file in files for word in ("--output", file))]) == 0
    torch.manual_seed(0)
    wanted = nn.Linear(4, 3)(batch).detach()  # before the in-place relu that follows
    assert torch.equal(load_file("out.safetensors")["output"], wanted)
    assert np.array_equal(np.load("out.npz")["output"], wanted.numpy())
    assert torch.equal(torch.load("out.pt", weights_only=True)["output"], wanted)
    row = json.loads(Path("out.json").read_text())["parts"][0]["rows"][0]
    assert (row["shape"], row["min"]) == ([5, 3], pytest.approx(float(wanted.min())))
    assert main([*words[:3], "--activations", "last", "--input", "2x4"]) == 0
    assert "2x2" in capsys.readouterr().out


def test_a_run_has_its_trained_weights_and_its_own_batch(capsys: Captured) -> None:
    train = ["train", "digits", "--set", "steps=3", "--set", "warmup=0", "--set", "trackers=none", "--name", "seen"]
    assert in_child(lambda: main([*train, "--quiet", "--set", "device=cpu"])) == 0
    assert main(["inspect", "model", "seen", "--activations", "9", "--output", "scores.npz"]) == 0
    assert "weights of step 3" in capsys.readouterr().out
    loaded = trueloop.load("seen")
    assert loaded.splits.valid is not None
    wanted = loaded.predict(loaded.splits.valid.fetch(torch.arange(64)).inputs)
    assert np.allclose(np.load("scores.npz")["output"], wanted.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits", "--activations", "99"], "The model has no layer '99'"),
        (["layered_of_mine.py:Net", "--input", "2x4", "--activations", "frist"], "Did you mean first?"),
        (["layered_of_mine.py:Net", "--input", "2x4", "--activations", "idle"], "was not called for this batch"),
        (["layered_of_mine.py:Net", "--activations", "first"], "its inputs are unknown"),
        (["digits", "--activations", "9", "--output", "x.csv"], "the suffix says what is written"),
        (
            ["layered_of_mine.py:Net", "--inputs", "no.npy", "--activations", "first"],
            "no.npy cannot be read (No such file or directory)",
        ),
    ],
)
def test_mistakes_are_one_sentence(capsys: Captured, words: list[str], said: str) -> None:
    assert main(["inspect", "model", *words]) == ExitCode.MISUSE
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out
    assert not Path("x.csv").exists()


def test_several_calls_several_tensors_and_bfloat16() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.LSTM(3, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            first: Tensor = self.pair(x)[0]
            second: Tensor = self.pair(first)[0]
            return second

    found = layer_outputs(Twice(), "pair", torch.zeros(2, 4, 3))
    assert list(found) == [f"call{call}.{part}" for call in (1, 2) for part in ("0", "1.0", "1.1")]
    content, remark = as_file({"output": torch.ones(2, dtype=torch.bfloat16)}, ".npz")
    assert "float32" in remark
    assert content[:2] == b"PK"
