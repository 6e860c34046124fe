"""`trueloop probe ops.py:my_op` as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from trueloop.cli.main import main

OPS = """\
import torch

class MyRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g[x < 0] = 0
        return g

def my_relu(x):
    return x.clamp(min=0)

def scaled(x, factor):
    return x * factor

def samples_scaled():
    return [(torch.randn(3, 5), 2.0), {"x": torch.randn(4), "factor": 3}]

def of_strings(text):
    return torch.tensor([float(len(text + ""))])

def samples_nothing():
    return []

nothing = my_relu
number = 3
Net = torch.nn.Linear
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("my_ops", None)  # of the test before, in a different folder
    (tmp_path / "my_ops.py").write_text(OPS, encoding="utf-8")
    return tmp_path


def test_a_fault_is_shown_with_its_line_and_causes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "my_ops.py:MyRelu", "incoming-gradient-untouched", "--against", "torch.relu"]) == 1
    said = capsys.readouterr().out
    assert "MyRelu: autograd.Function on" in said
    assert "backward wrote into the incoming gradient, for f32[1,1]" in said
    assert "my_ops.py:3" in said
    assert "g.clone()" in said


def test_a_healthy_function_holds_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["forward-equals-reference", "inputs-untouched"]
    assert main(["probe", "my_ops.py:my_relu", *words, "--against", "torch.relu", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["holds"] == 2
    assert said["subject"] == "my_ops.py:my_relu"


def test_inputs_come_from_the_file_or_the_command_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["probe", "my_ops.py:scaled", "forward-equals-reference", "--against", "torch.mul"]
    assert main(["probe", "my_ops.py:scaled", "inputs-untouched"]) == 0
    assert "inputs from samples_scaled(): f32[3,5], 2.0" in capsys.readouterr().out
    assert main([*words, "--inputs", "f32[2,3], f32[3]", "--inputs", "f64[4], 0.5"]) == 0
    assert "inputs from --inputs: f32[2,3], f32[3]; f64[4], 0.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("my_ops.py:MyRlu",), "has no 'MyRlu'. Did you mean MyRelu?"),
        (("gone.py:f",), "There is no file gone.py"),
        (("my_ops.py:number",), "is a int and cannot be called"),
        (("my_ops.py:Net",), "is an nn.Module class"),
        (("my_ops.py:my_relu", "forward-equal-reference"), "Did you mean forward-equals-reference?"),
        (("my_ops.py:my_relu", "--against", "torch.rellu"), "Did you mean relu?"),
        (("my_ops.py:my_relu", "--against", "nowhere.relu"), "is neither in the file nor a module"),
        (("my_ops.py:my_relu", "--against", "number"), "cannot be called"),
        (("my_ops.py:my_relu", "--inputs", "f33[4]"), "cannot be read"),
        (("my_ops.py:my_relu", "--inputs", "3"), "has no tensor"),
        (("my_ops.py:my_relu", "--inputs", "dim=1, f32[3]"), "stands after an argument with a name"),
        (("my_ops.py:my_relu", "--inputs", "f32[3], 4"), "raises on the first inputs"),
        (("my_ops.py:my_relu", "--device", "cuda:99"), "is not available here"),
        (("my_ops.py:of_strings",), "No inputs are known that of_strings takes"),
        (("my_ops.py:nothing",), "samples() gave no inputs"),
        (("my_ops.py", "--against", "torch.relu"), "are for an operation"),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(
    here: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *words]) == 4
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
