"""Validation samples of a run, on the page of `trueloop serve`: real ones, few, and never those of a stranger."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.made import Served, process, until_ready
from trueloop.cli.main import main
from trueloop.errors import Misuse
from trueloop.export.folder import read_artifact
from trueloop.inference import run_samples
from trueloop.inference.load import load
from trueloop.inference.run_samples import has_samples, read_samples, samples_for_page
from trueloop.results.artifact import Artifact


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    runs = tmp_path_factory.mktemp("runs")
    assert main(["train", "digits", "--runs", str(runs), "--name", "digits", "--set", "steps=5", "--quiet"]) == 0
    assert main(["export", str(runs / "digits"), "--to", "safetensors"]) == 0
    return read_artifact(runs / "digits" / "export" / "safetensors")


def values(sample: dict[str, Any], dtype: str) -> Any:
    coded = sample["input"]
    return np.frombuffer(base64.b64decode(coded["base64"]), dtype).reshape(coded["shape"])


def test_samples_are_those_of_the_validation_data(exported: Artifact) -> None:
    import torch

    found = read_samples(exported, 4)
    loaded = load(exported.folder.parent.parent, device="cpu")
    assert loaded.splits.valid is not None
    total = len(loaded.splits.valid)
    assert [each["number"] for each in found] == [0, total // 4, total // 2, 3 * total // 4]
    batch = loaded.splits.valid.fetch(torch.tensor([each["number"] for each in found]))
    inputs = batch.inputs if loaded.splits.prepare is None else loaded.splits.prepare(batch.inputs)
    for at, each in enumerate(found):
        assert np.array_equal(values(each, exported.inputs[0].dtype), inputs[at].numpy())
        assert each["target"] == exported.classes[int(batch.targets[at])]


def test_a_large_sample_is_not_sent(exported: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_samples, "LARGEST", 10)
    with pytest.raises(Misuse, match="more than 10 bytes"):
        read_samples(exported, 1)


def test_of_a_stranger_s_artifact_nothing_is_read(
    exported: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_samples(exported)
    monkeypatch.setenv("TRUELOOP_KEY", str(tmp_path / "of-somebody-else"))
    assert not has_samples(exported)
    monkeypatch.setattr("subprocess.run", None)
    assert samples_for_page(exported, 4) == {"samples": [], "why": ""}


def test_data_that_are_gone_are_a_sentence(exported: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    file = exported.folder.parent.parent / "run.json"
    about = json.loads(file.read_text(encoding="utf-8"))
    before = file.read_text(encoding="utf-8")
    try:
        file.write_text(json.dumps(about | {"origin": None}), encoding="utf-8")
        told = samples_for_page(exported, 4)
    finally:
        file.write_text(before, encoding="utf-8")
    assert told["samples"] == []
    assert "was started from Python" in told["why"]


def test_a_click_predicts_a_real_sample(exported: Artifact) -> None:
    """What the page sends is accepted, and the preview is what the run has."""
    words = [str(exported.folder), "--port", "0", "--samples", "3"]
    with process([sys.executable, "-m", "trueloop", "serve", *words], TRUELOOP_API_KEY="seven") as started:
        assert started.stdout is not None
        lines = [started.stdout.readline() for _ in range(3)]
        server = Served(int(lines[0].partition("127.0.0.1:")[2].split()[0]), started)
        assert lines[2].startswith("samples    ")
        until_ready(server)
        assert server.get("/samples")[0] == 401
        assert "id=samples" in server.get("/")[1]
        status, told = server.get("/samples", x_api_key="seven")
        assert (status, told["why"], len(told["samples"])) == (200, "", 3)
        for each in told["samples"]:
            asked = json.dumps({"input": each["input"]}).encode()
            status, seen = server.ask(asked, path="/preview", x_api_key="seven")
            assert status == 200
            assert seen["inputs"][0]["values"] == values(each, exported.inputs[0].dtype).reshape(-1).tolist()
            assert server.ask(asked, x_api_key="seven")[0] == 200
