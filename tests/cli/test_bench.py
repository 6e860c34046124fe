"""`trueloop bench`: which forms are measured, in which order, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.export.made import RECIPE, run_here
from trueloop.bench.form import FormSpec
from trueloop.bench.measure import FormFailed, FormHost
from trueloop.cli.main import main


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a recipe of the user's, and two artifacts of it."""
    folder = tmp_path_factory.mktemp("benched")
    (folder / "benched_shades.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
            assert main(["train", "benched_shades.py"]) == 0
            assert main(["export", "shades", "--to", "onnx"]) == 0
            assert main(["export", "shades", "--to", "safetensors", "--folder", "elsewhere"]) == 0
    finally:
        os.chdir(before)
    return folder


class _Fake(FormHost):
    """No process: all forms are equally fast, but one that is asked to fail."""

    opened: list[FormSpec] = []

    def __init__(self, asked: FormSpec, threads: int) -> None:
        self.asked, self.threads = asked, threads

    def open(self) -> dict[str, Any]:
        _Fake.opened.append(self.asked)
        if self.asked.kind == "compiled":
            raise FormFailed("no compiler here")
        return {"runtime": "fake 1", "bytes": 1, "opened": float(self.threads)}

    def turn(self, batch: int, seconds: float) -> list[float]:
        return [0.001] * 3


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import trueloop.bench.measure as measure

    monkeypatch.chdir(trained)
    monkeypatch.setattr(_Fake, "opened", [])
    assert measure.bench.__kwdefaults__ is not None
    monkeypatch.setitem(measure.bench.__kwdefaults__, "host", _Fake)
    return trained


def _names() -> list[str]:
    return [asked.name for asked in _Fake.opened]


@pytest.mark.usefixtures("there")
def test_a_run_stands_for_its_model_and_all_its_artifacts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "shades", "--batch", "1,4"]) == 1, "one form fails here"
    assert _names() == ["eager", "compiled", "onnx"]
    said = capsys.readouterr().out
    assert "compiled  not measured: no compiler here" in said
    assert "Batch size 4" in said
    eager = _Fake.opened[0]
    assert Path(eager.about["origin"]["recipe"]).name == "benched_shades.py"


@pytest.mark.usefixtures("there")
def test_an_artifact_in_its_run_brings_the_model_and_one_elsewhere_does_not() -> None:
    assert main(["bench", "runs/shades/export/onnx", "elsewhere", "--no-compile", "--batch", "2"]) == 0
    assert _names() == ["eager", "onnx", "elsewhere"]


@pytest.mark.usefixtures("there")
def test_what_is_named_twice_is_measured_once() -> None:
    assert main(["bench", "runs/shades/export/onnx", "shades", "runs/shades/export/onnx", "--no-compile"]) == 0
    assert _names() == ["eager", "onnx"]


def test_all_numbers_go_to_a_file(there: Path) -> None:
    assert (
        main(["bench", "elsewhere", "--batch", "1,8", "--seconds", "0.5", "--threads", "2", "--output", "told.json"])
        == 0
    )
    told = json.loads((there / "told.json").read_text(encoding="utf-8"))
    assert told["batches"] == [1, 8]
    assert told["machine"]["threads"] == 2
    assert told["forms"][0]["paces"][0]["p50"] == 0.001


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "Which artifact?"),
        (["nothing"], "There is no run 'nothing'"),
        (["elsewhere", "--batch", "1,none"], "--batch cannot be '1,none'"),
        (["elsewhere", "--batch", "0"], "--batch cannot be '0'"),
        (["elsewhere", "--threads", "0"], "--threads cannot be '0'"),
        (["elsewhere", "--seconds", "-2"], "--seconds cannot be '-2'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_refused_is_refused_in_a_sentence(
    typed: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *typed]) == 4
    assert said in capsys.readouterr().err


def test_real_processes_measure_the_model_and_an_artifact(
    trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(trained)
    report = tmp_path / "told.json"
    asked = [
        "bench",
        "shades",
        "--no-compile",
        "--batch",
        "1,3",
        "--seconds",
        "0.1",
        "--threads",
        "1",
        "--output",
        str(report),
    ]
    assert main(asked) == 0
    forms = json.loads(report.read_text(encoding="utf-8"))["forms"]
    assert [(form["name"], form["failed"]) for form in forms] == [("eager", ""), ("onnx", "")]
    assert all([pace["batch"] for pace in form["paces"]] == [1, 3] for form in forms)
    assert all(pace["p50"] <= pace["p95"] <= pace["p99"] for form in forms for pace in form["paces"])
    assert forms[1]["bytes"] > 0
