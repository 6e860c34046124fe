"""Serving, measuring and loading an artifact of a stranger, as they are typed: it is computed in a confined process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.export.made import run_here, subject
from tests.serve.made import Served, points, process, until_ready
from trueloop.cli.main import main
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.export_model import export_model
from trueloop.export.folder import read_artifact
from trueloop.results.artifact import prediction_of

MARK = "confined   shades: not exported on this machine, so computed without network, files or other programs\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "shades"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        export_model(subject(), find_exporter("onnx"), place)
    return place


@contextmanager
def served(made: Path, key: Path, *words: str) -> Iterator[Served]:
    typed = [sys.executable, "-m", "trueloop", "serve", str(made), "--port", "0", *words]
    with process(typed, TRUELOOP_KEY=str(key)) as started:
        assert started.stdout is not None
        first = started.stdout.readline()
        assert "http://" in first, first
        server = Served(int(first.partition("127.0.0.1:")[2].split()[0]), started, [first])
        while server.said[-1] and not server.said[-1].startswith("ready"):
            server.said.append(started.stdout.readline())
        until_ready(server)
        yield server


def fenced(process: int) -> list[int]:
    """The processes below it that seccomp confines, those that compute last."""
    found = [
        int(each) for file in Path(f"/proc/{process}/task").glob("*/children") for each in file.read_text().split()
    ]
    below = [each for child in found for each in (child, *fenced(child))]
    return [each for each in below if "Seccomp:\t2" in Path(f"/proc/{each}/status").read_text()]


@pytest.mark.parametrize("words", [(), ("--workers", "2")])
def test_a_stranger_s_artifact_is_served_by_confined_processes(
    made: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    scores = runner_of(read_artifact(made)).run([np.array([points()], np.uint8)])
    expected = prediction_of(read_artifact(made), [scores[0][0].tolist()])
    with served(made, tmp_path / "key", *words) as server:
        status, answer = server.json({"input": points()})
        assert status == 200
        assert answer["predictions"] == [expected]
        confined = fenced(server.process.pid)
        assert len(confined) == 2 * (2 if words else 1)  # a worker and what it has forked
        for each in confined:
            os.kill(each, signal.SIGKILL)
        assert server.json({"input": points()})[0] == 200  # in new processes
        assert server.end() == 0
    said = "\n".join(server.said)
    assert MARK.strip() in said
    assert "Starting it again." in said


def test_an_own_artifact_is_served_in_the_server_s_own_process(made: Path) -> None:
    with served(made, Path(os.environ["TRUELOOP_KEY"])) as server:
        assert server.json({"input": points()})[0] == 200
        assert not fenced(server.process.pid)
        server.end()
    assert "confined" not in "\n".join(server.said)


def test_with_trust_it_is_served_in_the_server_s_own_process(made: Path, tmp_path: Path) -> None:
    with served(made, tmp_path / "key", "--trust") as server:
        assert server.json({"input": points()})[0] == 200
        assert not fenced(server.process.pid)
        server.end()


def test_bench_and_load_measure_it_confined(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRUELOOP_KEY", str(tmp_path / "key"))
    assert main(["bench", str(made), "--batch", "1,2", "--seconds", "0.1", "--format", "json"]) == 0
    assert ", confined" in capsys.readouterr().out
    assert main(["load", str(made), "--requests", "50", "--clients", "4", "--with-batching"]) == 0
    assert "wrong answers 0; failures 0" in capsys.readouterr().out
