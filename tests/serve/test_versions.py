"""Several versions of one model under one address, each asked by its number."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.made import PATIENCE, Served, artifact, half, opened, points, served, shade
from trueloop.errors import Misuse
from trueloop.serve.limits import Limits
from trueloop.serve.model import Source
from trueloop.serve.service import Service

PIXELS = np.full((1, 1, 3, 4), 200, np.uint8)
ASKED = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 3, 4], "datatype": "UINT8", "data": [200] * 12}]})
DUE = {"1": shade(PIXELS)[0].ravel().tolist(), "3": half(PIXELS)[0].ravel().tolist()}
LOAD = "/v2/repository/models/a/load"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """The newest is not the one that was typed last."""
    with served(names=("a:3=half", "a:1=shade", "b"), grpc=True) as running:
        yield running


def infer(server: Served, path: str) -> tuple[str, list[float]]:
    status, told = server.ask(ASKED.encode(), path=f"/v2/models/{path}/infer")
    assert status == 200, told
    return told["model_version"], told["outputs"][0]["data"]


@pytest.mark.parametrize(("path", "version"), [("a/versions/1", "1"), ("a/versions/3", "3"), ("a", "3")])
def test_each_version_answers_with_its_own_model(server: Served, path: str, version: str) -> None:
    assert infer(server, path) == (version, DUE[version])
    assert server.get(f"/v2/models/{path}/ready") == (200, {"name": "a", "ready": True})
    assert server.get(f"/v2/models/{path}")[1]["versions"] == ["1", "3"]


def test_a_version_that_is_not_there_names_those_that_are(server: Served) -> None:
    for path in ("/v2/models/a/versions/2", "/v2/models/a/versions/01"):
        assert server.get(path) == (404, {"error": "a has versions 1 and 3 only."})
    assert server.get("/v2/models/b/versions/3") == (404, {"error": "b has version 1 only."})


def test_predict_asks_the_newest_version_of_the_first_model(server: Served) -> None:
    body = json.dumps({"input": points()}).encode()
    answers = [server.ask(body, path=path) for path in ("/predict", "/predict?model=a", "/predict?model=b")]
    assert answers[0] == answers[1] != answers[2]


def test_the_index_lists_all_versions(server: Served) -> None:
    told = server.ask(b"", path="/v2/repository/index")[1]
    assert [(each["name"], each["version"]) for each in told] == [("a", "1"), ("a", "3"), ("b", "1")]


def test_versions_are_asked_over_grpc_too(server: Served) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    tensor = triton.InferInput("input", list(PIXELS.shape), "UINT8")
    tensor.set_data_from_numpy(PIXELS)
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        for version, due in (("1", "1"), ("3", "3"), ("", "3")):
            answer = client.infer("a", [tensor], model_version=version)
            assert (answer.get_response().model_version, answer.as_numpy("output").ravel().tolist()) == (due, DUE[due])
        assert list(client.get_model_metadata("a").versions) == ["1", "3"]


def test_all_versions_are_loaded_again_and_keep_their_numbers(tmp_path: Path) -> None:
    change = tmp_path / "model"
    change.write_text("shade", encoding="utf-8")
    with served(names=("a:1", "a:3"), change=str(change)) as server:
        assert infer(server, "a/versions/1") == ("1", DUE["1"])
        change.write_text("half", encoding="utf-8")
        assert server.ask(b"", path=LOAD) == (200, {})
        assert [infer(server, path) for path in ("a/versions/1", "a")] == [("1", DUE["3"]), ("3", DUE["3"])]
        change.write_text("It is damaged.", encoding="utf-8")
        sentence = "a version 1 was not loaded again: It is damaged. The old one is still served."
        assert server.ask(b"", path=LOAD) == (422, {"error": sentence})
        change.write_text("shade", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while infer(server, "a") != ("3", DUE["1"]):
            assert time.monotonic() < end, "SIGHUP did not load them"
            time.sleep(0.02)
        assert server.end() == 0
    assert [line for line in server.said if line.startswith("SIGHUP")] == [
        f"SIGHUP: a version {number} was loaded again" for number in (1, 3)
    ]


@pytest.mark.parametrize("versions", [(2, 2), (0, 2), (2, 0), (0, 0)])
def test_two_models_for_one_request_are_refused(versions: tuple[int, int]) -> None:
    """A model whose versions are counted by reloads has no other version: the next reload could give it that number."""
    read: Any = lambda: (artifact(), partial(opened, "shade"))  # noqa: E731
    with pytest.raises(Misuse, match=r"Two models are called 'a.*type `trueloop serve a:1=ARTIFACT a:2=ARTIFACT`"):
        Service([Source(read, "a", version) for version in versions], Limits())
