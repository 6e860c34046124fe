"""Several models under one address, and a new version in place of an old one while requests come."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.made import PATIENCE, Served, artifact, opened, points, served, shade
from trueloop.errors import Misuse
from trueloop.serve.kserve_routes import Kserve
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.model import Source
from trueloop.serve.service import Service

SHADES = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 3, 4], "datatype": "UINT8", "data": [200] * 12}]})
LOAD = "/v2/repository/models/shades/load"


def infer(server: Served, name: str = "shades") -> tuple[int, Any]:
    return server.ask(SHADES.encode(), path=f"/v2/models/{name}/infer")


def version(server: Served) -> str:
    (only,) = server.get("/v2/models/shades")[1]["versions"]
    return str(only)


def test_several_models_are_asked_by_their_names() -> None:
    with served(names=("a", "b")) as server:
        due = shade(np.full((1, 1, 3, 4), 200, np.uint8))[0].ravel().tolist()
        for name in ("a", "b"):
            status, told = infer(server, name)
            assert (status, told["model_name"], told["outputs"][0]["data"]) == (200, name, due)
            assert server.ask(json.dumps({"input": points()}).encode(), path=f"/predict?model={name}")[0] == 200
        assert server.json({"input": points()})[0] == 200
        missing = {"error": "There is no model 'c' here: it is 'a' or 'b'."}
        assert infer(server, "c") == (404, missing)
        assert server.ask(b"{}", path="/predict?model=c") == (404, missing)
        assert server.ask(b"", path="/v2/repository/index")[1] == [
            {"name": name, "version": "1", "state": "READY", "reason": ""} for name in ("a", "b")
        ]


def test_a_new_version_takes_over_and_no_request_is_lost(tmp_path: Path) -> None:
    change = tmp_path / "model"
    change.write_text("slow", encoding="utf-8")
    with served(change=str(change), workers=1, batch=2, timeout=PATIENCE) as server:
        answers: list[tuple[int, str]] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                status, told = infer(server)
                answers.append((status, told.get("model_version", "")))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        change.write_text("shade", encoding="utf-8")
        assert server.ask(b"", path=LOAD) == (200, {})
        assert version(server) == "2"
        while ("2" not in {told for _, told in answers[-4:]}) and len(answers) < 10_000:
            time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        assert {status for status, _ in answers} == {200}
        assert {told for _, told in answers} == {"1", "2"}
        assert server.get("/v2/models/shades/versions/1")[1] == {"error": "shades has version 2 only."}
        end = time.monotonic() + PATIENCE
        while _processes(server) > 1:
            assert time.monotonic() < end, "the old version's process is still there"
            time.sleep(0.02)


def _processes(server: Served) -> int:
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return sum(len((task / "children").read_text(encoding="ascii").split()) for task in tasks)


def test_a_version_that_cannot_be_loaded_leaves_the_old_one(tmp_path: Path) -> None:
    triton = pytest.importorskip("tritonclient.http")
    change = tmp_path / "model"
    change.write_text("shade", encoding="utf-8")
    with served(change=str(change)) as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        change.write_text("It is damaged.", encoding="utf-8")
        sentence = "shades was not loaded again: It is damaged. Version 1 is still served."
        assert server.ask(b"{}", path=LOAD) == (422, {"error": sentence})
        assert (infer(server)[0], version(server)) == (200, "1")
        change.write_text("shade", encoding="utf-8")
        client.load_model("shades")
        assert client.get_model_repository_index()[0]["version"] == "2"
        change.write_text("broken", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while version(server) != "3":
            assert time.monotonic() < end, "SIGHUP did not load it"
            time.sleep(0.02)
        assert infer(server)[0] == 500
        assert server.end() == 0
    assert "SIGHUP: shades is version 3 now" in server.said


def service(*names: str) -> Service:
    return Service([Source(lambda: (artifact(), partial(opened, "shade")), name) for name in names], Limits())


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(Misuse, match="Two models are called 'shades'"):
        service("", "")


@pytest.mark.parametrize(
    ("address", "path", "body", "status", "why"),
    [
        ("10.0.0.7", LOAD, b"", 403, "from the server's own machine only"),
        ("127.0.0.1", LOAD, b'{"parameters": {"config": "{}"}}', 400, "parameters are not supported"),
        ("127.0.0.1", "/v2/repository/models/other/load", b"", 404, "There is no model 'other' here"),
        ("127.0.0.1", "/v2/repository/models/shades/unload", b"", 404, "the routes are repository/index"),
    ],
)
def test_who_may_load_what(address: str, path: str, body: bytes, status: int, why: str) -> None:
    scope = {"method": "POST", "path": path, "raw_path": path.encode(), "headers": [], "client": (address, 1)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        pytest.fail("answered")

    with pytest.raises(Refused, match=why) as refused:
        asyncio.run(Kserve(service(""))(scope, receive, send))
    assert refused.value.status == status
