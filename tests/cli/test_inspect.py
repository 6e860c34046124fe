"""`trueloop inspect`, from the command to the exit code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trueloop.cli.main import main

Captured = pytest.CaptureFixture[str]

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)

def tokens():
    return nn.Embedding(9, 2)

built = Net()
number = 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "nets_of_mine.py").write_text(NET, encoding="utf-8")
    yield
    sys.modules.pop("nets_of_mine", None)


def told(capsys: Captured, *words: str) -> str:
    assert main(["inspect", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: Captured, *words: str) -> str:
    assert main(["inspect", *words]) == 4
    said = capsys.readouterr().err
    assert said.startswith("trueloop: ")
    assert said.count("\n") == 1
    return said


def test_the_model_of_a_recipe_with_the_shapes_of_a_real_batch(capsys: Captured) -> None:
    out = told(capsys, "model", "digits")
    assert re.search(r"9\.weight +parameter +10x1024 +float32 +cpu +10,240 +yes", out)
    assert re.search(r"3 +MaxPool2d +64x32x8x8 +64x32x4x4", out)
    assert "29,258 elements in 10 tensors" in out
    assert re.search(r"0 +Conv2d +8x1x8x8", told(capsys, "model", "digits", "--set", "batch=8"))


@pytest.mark.parametrize(("name", "shape"), [("Net", "2x4"), ("built", "2x4"), ("tokens", "2x5:int64")])
def test_a_callable_of_a_file(capsys: Captured, name: str, shape: str) -> None:
    assert "--input SHAPE" in told(capsys, "model", f"nets_of_mine.py:{name}")
    assert "Shapes through the layers" in told(capsys, "model", f"nets_of_mine.py:{name}", "--input", shape)


def test_a_run_its_checkpoint_and_its_batch(capsys: Captured) -> None:
    assert main(["train", "digits", "--set", "steps=2", "--set", "warmup=0", "--set", "trackers=none"]) == 0
    capsys.readouterr()
    assert "Conv2d" in told(capsys, "model", "runs/digits")
    assert "training.pt, tensors" in told(capsys, "checkpoint", "runs/digits")
    weights = next(Path("runs/digits/checkpoints").glob("*/model.safetensors"))
    assert "32x1x3x3" in told(capsys, "tensor", f"{weights}:0.weight")
    assert "The first 3 images" in told(capsys, "batch", "runs/digits", "--samples", "3")


def test_as_page_as_json_and_as_picture(capsys: Captured, tmp_path: Path) -> None:
    assert told(capsys, "batch", "digits", "--samples", "2", "--output", "digits.html") == ""
    assert (tmp_path / "digits.html").read_text(encoding="utf-8").count("data:image/png") == 2
    parsed = json.loads(told(capsys, "batch", "digits", "--samples", "2", "--format", "json"))
    assert [part["kind"] for part in parsed["parts"]] == ["table", "table", "bars", "bars", "picture"]
    assert told(capsys, "batch", "digits", "--samples", "2", "--output", "digits.png").endswith("bytes: 9, 4\n")
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert told(capsys, "model", "digits", "--format", "html").startswith("<!doctype html>")


def test_an_operation_by_any_of_its_names(capsys: Captured) -> None:
    assert "AddBackward0" in told(capsys, "op", "torch.add", "--inputs", "f32[4,8], f32[8]")
    parsed = json.loads(told(capsys, "op", "aten::mm", "--device", "cpu", "--format", "json"))
    assert parsed["title"] == "torch.ops.aten.mm on f32[4,8], f32[8,5] (tried and taken)"
    assert "no inputs are known" in told(capsys, "op", "zeros")


def test_a_table_has_its_columns(capsys: Captured, tmp_path: Path) -> None:
    rows = "\n".join(f"{number},{'red' if number % 2 else 'blue'},{number % 3}" for number in range(60))
    (tmp_path / "t.csv").write_text(f"age,colour,kind\n{rows}\n", encoding="utf-8")
    out = told(capsys, "batch", "tabular", "t.csv", "--target", "kind")
    assert re.search(r"^age ", out, re.MULTILINE)
    assert re.search(r"^colour", out, re.MULTILINE)
    assert "Labels" in out


def test_wrong_words_are_one_sentence_each(capsys: Captured) -> None:
    torch.save({"weight": torch.zeros(2), "bias": torch.zeros(2)}, "model.pt")
    Path("empty").mkdir()
    for words, said in {
        (): "Inspect what?",
        ("modle", "digits"): "Did you mean model?",
        ("model",): "Which model?",
        ("model", "digts"): "Did you mean digits?",
        ("model", "digits", "mnist"): "Unexpected argument 'mnist'",
        ("model", "digits", "--input", "2x4"): "--input is for FILE.py:CALLABLE",
        ("model", "nets_of_mine.py:Nett"): "Did you mean Net?",
        ("model", "nets_of_mine.py:number"): "of type int, not a model",
        ("model", "nowhere.py:Net"): "There is no file nowhere.py",
        ("model", "empty"): "holds no run",
        ("batch", "digits", "--samples", "0"): "--samples cannot be '0'",
        ("model", "nets_of_mine.py:Net", "--input", "2xfour"): "expected a shape such as",
        ("checkpoint", "nowhere.pt"): "There is no file nowhere.pt",
        ("checkpoint", "empty"): "holds no checkpoint",
        ("tensor", "model.pt"): "Which of the 2 tensors",
        ("tensor", "model.pt:wieght"): "Did you mean weight?",
        ("tensor", "empty"): "is a folder",
        ("op",): "Which op?",
        ("op", "torch.ad"): "Did you mean add?",
        ("op", "torch.ops.aten"): "cannot be called",
        ("op", "torch.nn.Linear"): "is an nn.Module class",
        ("op", "torch.mm", "--inputs", "f32[2,3], f32[2,3]"): "raises on the first inputs",
        ("op", "torch.mm", "--inputs", "f32[2]", "--inputs", "f32[3]"): "give --inputs once",
        ("model", "digits", "--inputs", "f32[2]"): "are for `inspect op`",
        ("model", "digits", "--format", "htm"): "Did you mean html?",
        ("model", "digits", "--output", "a.png"): "is for the images of a batch",
        ("model", "digits", "--output", "nowhere/a.html"): "cannot be written",
        ("model", "digits", "--colour"): "There is no option --colour",
    }.items():
        assert said in refused(capsys, *words)


def test_a_malicious_checkpoint_is_refused_from_the_command_too(capsys: Captured, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            import os

            return os.mkdir, (str(tmp_path / "sprung"),)

    torch.save({"weight": Trap()}, "model.pt")
    assert "no code was executed" in refused(capsys, "checkpoint", "model.pt")
    assert not (tmp_path / "sprung").exists()


def test_a_model_that_raises_is_the_users_and_ends_with_one(capsys: Captured) -> None:
    assert main(["inspect", "model", "nets_of_mine.py:Net", "--input", "2x5"]) == 1
    said = capsys.readouterr().err
    assert "nets_of_mine.py" in said
    assert "trueloop itself failed" not in said


def test_the_operations_of_a_recipe_and_of_a_callable(capsys: Captured) -> None:
    out = told(capsys, "ops", "digits", "--set", "batch=8")
    assert "Nothing is missing" in out
    assert "aten::convolution (0 (Conv2d), 4 (Conv2d))" in out
    page = json.loads(told(capsys, "ops", "nets_of_mine.py:Net", "--input", "2x4", "--format", "json"))
    rows = page["parts"][-1]["rows"]
    assert next(row for row in rows if row["operation"] == "aten::addmm")["where"] == "nets_of_mine.py:10"
    assert "<html" in told(capsys, "ops", "nets_of_mine.Net", "--input", "2x4", "--format", "html")
    assert "--input 8x3x32x32" in refused(capsys, "ops", "nets_of_mine.py:Net")
    assert "Did you mean digits" in refused(capsys, "ops", "digit")
    assert "there is no 'Nett'" in refused(capsys, "ops", "nets_of_mine.Nett", "--input", "2x4")
