"""`trueloop env`: what a bug report needs."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from trueloop import __version__
from trueloop.cli.main import main
from trueloop.results import environment
from trueloop.results.environment import installed_extras

Captured = pytest.CaptureFixture[str]


def test_it_names_versions_devices_and_extras(capsys: Captured) -> None:
    assert main(["env", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["trueloop"], told["python"], told["torch"]) == (
        __version__,
        platform.python_version(),
        torch.__version__,
    )
    assert len(told["devices"]) == torch.cuda.device_count()
    assert {"numpy", "rich", "safetensors"} <= told["packages"].keys()
    assert told["extras"]["onnx"].keys() == {"onnx", "onnxscript", "onnxruntime"}


def test_the_text_says_what_is_missing(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        requires = ("numpy>=1", "rich", 'onnx>=1; extra == "onnx"', 'no-such-package>=2; extra == "onnx"')

    monkeypatch.setattr(environment, "distribution", lambda _: Installed)
    assert main(["env"]) == 0
    printed = capsys.readouterr().out
    assert "missing: no-such-package" in printed
    assert "numpy" in printed


def test_without_metadata_nothing_is_claimed_about_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr(environment, "distribution", missing)
    assert installed_extras() == ({}, {})
