"""`--device` of export, bench and serve: what is refused before anything runs, and that it reaches whoever runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.export.made import run_here, subject
from trueloop.bench.form import FormSpec
from trueloop.bench.measure import FormFailed, FormHost
from trueloop.cli.main import main
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("devices") / "script"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        export_model(subject(), find_exporter("torchscript"), place)
    return place


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


VERBS = ["export runs/x --to pt2", "bench {made}", "serve {made}"]


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("device", "said"),
    [("gpu", "--device cannot be 'gpu'"), ("cuda", "--device cuda needs CUDA, which torch does not find")],
)
def test_a_device_that_is_none_or_not_there_is_one_sentence(
    made: Path, capsys: pytest.CaptureFixture[str], verb: str, device: str, said: str
) -> None:
    assert main([*verb.format(made=made).split(), "--device", device]) == 4
    told = capsys.readouterr().err
    assert said in told
    assert "Nothing was run" in told
    assert len(told.splitlines()) == 1


def test_onnx_on_a_gpu_names_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert main(["export", "runs/x", "--to", "onnx", "--device", "cuda"]) == 3
    assert "pip install onnxruntime-gpu" in capsys.readouterr().err


class _Fake(FormHost):
    """A form that is there on every device but for one of them."""

    asked: list[FormSpec] = []

    def __init__(self, asked: FormSpec, threads: int) -> None:
        _Fake.asked.append(asked)

    def open(self) -> dict[str, Any]:
        if len(_Fake.asked) == 2:
            raise FormFailed("it runs on the CPU only")
        return {"runtime": "fake 1", "bytes": 1, "opened": 0.1}

    def turn(self, batch: int, seconds: float) -> list[float]:
        return [0.001 * batch] * 3


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_all_forms_are_measured_on_the_device_or_told_why_not(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    import trueloop.bench.measure as measure

    monkeypatch.setattr(_Fake, "asked", [])
    monkeypatch.setattr("trueloop.cli.bench.torch_device", lambda _: None)
    monkeypatch.setattr("trueloop.export.device.gpu_label", lambda device: f"{device} (a GPU)")
    assert measure.bench.__kwdefaults__ is not None
    monkeypatch.setitem(measure.bench.__kwdefaults__, "host", _Fake)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "artifact.json").write_bytes((made / "artifact.json").read_bytes())
    page, numbers = tmp_path / "told.html", tmp_path / "told.json"
    typed = ["bench", str(made), str(copy), "--batch", "1,4", "--device", device]
    assert main(typed) == 1
    assert [asked.device for asked in _Fake.asked] == [device, device]
    said = capsys.readouterr().out
    assert "copy  not measured: it runs on the CPU only" in said
    assert ("includes both copies" in said) is (device != "cpu")
    _Fake.asked.clear()
    assert main([*typed, "--output", str(page), "--output", str(numbers)]) == 1
    assert [asked.device for asked in _Fake.asked] == [device, device]
    assert capsys.readouterr().out == ""
    assert json.loads(numbers.read_text(encoding="utf-8"))["machine"]["device"] == (
        "cpu" if device == "cpu" else "cuda:1 (a GPU)"
    )
    drawn = page.read_text(encoding="utf-8")
    assert drawn.startswith("<!doctype html>")
    charts = ["Latency of batch size 1", "Latency of batch size 4", "Throughput over the batch size"]
    assert re.findall(r"<svg [^>]*><title[^>]*>([^<]*)", drawn) == charts
    assert '<span class="badge">copy</span></span>not measured: it runs on the CPU only</li>' in drawn


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(made), "--output", str(tmp_path / "no" / "folder.html")]) == 4
    assert "--output" in capsys.readouterr().err


def test_a_server_opens_the_model_on_the_device(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    opened: list[tuple[str, str]] = []

    def run(service: Any, door: Any, say: Any, **_: Any) -> None:
        door.close()
        service.first.batcher.open_runner()

    monkeypatch.setattr("trueloop.serve.server.run", run)
    monkeypatch.setattr(
        "trueloop.export.catalogue.runner_of", lambda artifact, device: opened.append((artifact.target, device))
    )
    monkeypatch.setattr("trueloop.export.device.torch_device", lambda _: None)
    assert main(["serve", str(made), "--port", "0", "--device", "cuda:1"]) == 0
    assert main(["serve", str(made), "--port", "0"]) == 0
    assert opened == [("torchscript", "cuda:1"), ("torchscript", "cpu")]
