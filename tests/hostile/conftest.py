"""A run that somebody else has trained, copied for each test; and limits that end a bomb soon."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from trueloop.cli.main import main
from trueloop.readiness import training_keys
from trueloop.trust.confine import limits


@pytest.fixture(scope="session")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of another machine: the key that stamped them is not this one's."""
    folder = tmp_path_factory.mktemp("strangers")
    before, key = Path.cwd(), os.environ["TRUELOOP_KEY"]
    os.chdir(folder)
    os.environ["TRUELOOP_KEY"] = str(folder / "their-key")
    try:
        for name in ("good", "evil"):
            assert main(["train", "digits", "--set", "epochs=1", "--name", name, "--quiet"]) == 0
    finally:
        os.chdir(before)
        os.environ["TRUELOOP_KEY"] = key
    return folder


@pytest.fixture
def work(strangers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with runs/good and runs/evil."""
    shutil.copytree(strangers / "runs", tmp_path / "work" / "runs")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(limits, "SECONDS", 4.0)
    monkeypatch.setattr(training_keys, "SECONDS", 2.0)
    return tmp_path / "work"


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A folder that must not appear."""
    yield tmp_path / "it-ran"
    assert not (tmp_path / "it-ran").exists(), "a hostile file was executed"
