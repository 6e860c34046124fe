"""`trueloop quantize`: what is typed, what is shown, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.export.made import RECIPE, run_here
from trueloop.cli.main import main
from trueloop.export.catalogue import runner_of
from trueloop.export.folder import read_artifact
from trueloop.quantize.packed_weights import Int8


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a recipe of the user's that has learned something."""
    folder = tmp_path_factory.mktemp("quantized")
    (folder / "quantized_shades.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", "quantized_shades.py", "--set", "epochs=60", "--set", "lr=0.01"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In its folder, and the runtime without a process of its own: that is tested elsewhere."""
    monkeypatch.chdir(trained)
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    return trained


def test_a_run_becomes_a_smaller_artifact_and_its_cost_is_reported(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["quantize", "shades", "--scheme", "int8-weight", "--to", "onnx", "--max-drop", "100", "--license", "MIT"]
    assert main(typed) == 0
    said = capsys.readouterr().out
    assert said.startswith("shades by int8-weight, as onnx\n  weights  ")
    assert "x smaller; file " in said
    assert " on 60 valid samples: " in said
    assert "batch 1 " in said
    assert "verified by onnxruntime" in said
    made = read_artifact(there / "runs" / "shades" / "export" / "int8-weight-onnx")
    assert f"written  {Path('runs/shades/export/int8-weight-onnx/model.onnx')}" in said
    assert made.run["quantized"]["scheme"] == "int8-weight"
    assert made.licence["model"] == "MIT"
    assert runner_of(made).run([np.zeros((2, 1, 3, 4), np.uint8)])[0].shape == (2, 3)


def test_output_takes_the_report_and_stdout_stays_empty(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = [
        "quantize",
        "shades",
        "--scheme",
        "int8-weight",
        "--to",
        "onnx",
        "--max-drop",
        "100",
        "--no-speed",
        "--folder",
        "filed",
    ]
    assert main([*typed, "--output", "report.json", "--output", "report.txt"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "verified by onnxruntime" in err
    assert f"written  {Path('filed/model.onnx')}" in err
    assert (there / "report.txt").read_text(encoding="utf-8").startswith("shades by int8-weight, as onnx\n  weights  ")
    report = json.loads((there / "report.json").read_text(encoding="utf-8"))
    assert (report["scheme"], report["target"], report["max_drop"]) == ("int8-weight", "onnx", 1.0)
    assert [layer["name"] for layer in report["layers"]] == ["first", "second"]


@pytest.mark.parametrize("output", [None, "lost.json"])
def test_past_the_drop_nothing_is_written_and_the_layers_are_named(
    there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str | None
) -> None:
    """A scheme that rounds everything to nothing."""
    monkeypatch.setattr(Int8, "forward", lambda _self, values, _scale: values * 0.0)
    typed = ["quantize", "shades", "--scheme", "int8-weight", "--folder", "lost", "--max-drop", "0"]
    assert main(typed if output is None else [*typed, "--output", output]) == 1
    out, err = capsys.readouterr()
    assert "0 points is allowed. Nothing was written. Costliest layers, each quantized alone: " in err
    assert "--keep-float auto" in err
    assert not (there / "lost").exists()
    if output is None:
        assert "each quantized alone" in out
    else:
        assert out == ""
        assert not json.loads((there / output).read_text(encoding="utf-8"))["within"]


@pytest.mark.usefixtures("there")
def test_layers_can_be_kept_in_float(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "quantize",
        "shades",
        "--scheme",
        "fp8",
        "--max-drop",
        "100",
        "--keep-float",
        "second",
        "--no-speed",
        "--samples",
        "20",
    ]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "kept in float: requested" in said
    assert "on 20 valid samples" in said
    assert "medians" not in said


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ([], 4, "Which run?"),
        (["shades"], 4, "By which scheme?"),
        (["shades", "--scheme", "int7"], 4, "Unknown scheme 'int7'"),
        (["nobody", "--scheme", "fp8"], 4, "There is no run 'nobody'"),
        (["shades", "--scheme", "fp8", "--max-drop", "-1"], 4, "--max-drop cannot be '-1'"),
        (["shades", "--scheme", "fp8", "--max-drop", "much"], 4, "--max-drop cannot be 'much'"),
        (["shades", "--scheme", "fp8", "--samples", "0"], 4, "--samples cannot be '0'"),
        (["shades", "--scheme", "int8-static", "--calibrate", "none"], 4, "--calibrate cannot be 'none'"),
        (["shades", "--scheme", "fp8", "--to", "onx"], 4, "Unknown target 'onx'"),
        (["shades", "--scheme", "fp8", "--keep-float", "third"], 4, "The model has no layer 'third'"),
        (["shades", "--scheme", "int8-dynamic", "--to", "onnx"], 1, "int8-dynamic cannot be exported to onnx"),
        (
            ["shades", "--scheme", "int8-weight", "--to", "safetensors"],
            1,
            "int8-weight cannot be exported to safetensors",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_refused_is_refused_in_a_sentence(
    typed: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", *typed]) == code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_the_help_names_every_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    from trueloop.quantize.catalogue import SCHEMES

    with pytest.raises(SystemExit):
        main(["quantize", "--help"])
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in SCHEMES)
