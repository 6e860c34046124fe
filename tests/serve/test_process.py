"""A server as a process: how it begins, whom it lets in, how it is looked at, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.serve.made import Served, points, served


def together(server: Served, count: int) -> list[tuple[int, Any, dict[str, str]]]:
    """So many questions at once."""
    replies: list[tuple[int, Any, dict[str, str]]] = []
    body = json.dumps({"input": points()}).encode()
    threads = [threading.Thread(target=lambda: replies.append(server.reply(body))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def test_it_lives_is_ready_and_describes_itself(pictures: Served) -> None:
    assert pictures.get("/health") == (200, {"status": "alive"})
    assert pictures.get("/ready") == (200, {"status": "ready"})
    status, told = pictures.get("/model")
    assert status == 200
    assert told["inputs"] == [{"name": "input", "dtype": "uint8", "shape": [None, 1, 3, 4], "most": []}]
    assert told["classes"] == ["dark", "grey", "light"]


def test_prometheus_reads_what_was_counted(pictures: Served) -> None:
    before = _count(pictures)
    pictures.json({"inputs": [points()] * 5})
    assert _count(pictures) == before + 5
    status, told, headers = pictures.reply(b"", "", method="GET", path="/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        "trueloop_requests_total",
        "trueloop_predict_seconds_bucket",
        "trueloop_waiting_samples",
        "process_resident_memory_bytes",
    ):
        assert name in told
    assert "trueloop_ready 1.0" in told


def _count(server: Served) -> float:
    found = re.search(r"^trueloop_batch_samples_sum (\S+)$", server.get("/metrics")[1], re.MULTILINE)
    assert found
    return float(found[1])


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_its_pages_load_nothing_from_elsewhere(pictures: Served, path: str) -> None:
    status, page = pictures.get(path)
    assert status == 200
    assert "<title>shades" in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)


def test_the_page_s_own_example_works(pictures: Served) -> None:
    document = pictures.get("/openapi.json")[1]
    content = document["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert list(content) == ["application/json", "image/png", "image/jpeg", "multipart/form-data"]
    assert pictures.json(content["application/json"]["example"])[0] == 200
    assert set(document["paths"]) == {"/predict", "/health", "/ready", "/metrics", "/model"}


@pytest.fixture(scope="module")
def keyed() -> Iterator[Served]:
    with served(key="seven") as server:
        yield server


def test_without_the_key_nothing_is_answered_but_whether_it_lives(keyed: Served) -> None:
    body = json.dumps({"input": points()}).encode()
    for headers in (
        {},
        {"X_API_Key": "six"},
        {"Authorization": "Bearer sevens"},
        {"Authorization": "Bearer "},
        {"X_API_Key": "\xff"},
    ):
        status, told, replied = keyed.reply(body, **headers)
        assert status == 401
        assert told == {"error": "The API key is missing or wrong: send the header Authorization: Bearer KEY."}
        assert replied["www-authenticate"] == "Bearer"
    assert keyed.get("/metrics")[0] == keyed.get("/model")[0] == 401
    assert keyed.get("/health")[0] == keyed.get("/ready")[0] == keyed.get("/")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X_API_Key": "seven"},
        {"Authorization": "Bearer seven"},
        {"Authorization": "bearer seven"},
        {"Authorization": "BEARER  seven"},
    ],
    ids=["own", "bearer", "small", "capitals"],
)
def test_with_the_key_it_answers(keyed: Served, headers: dict[str, str]) -> None:
    assert keyed.ask(json.dumps({"input": points()}).encode(), **headers)[0] == 200
    assert keyed.get("/metrics", **headers)[0] == 200


def test_a_full_queue_is_told_with_when_to_come_again() -> None:
    with served(model="slow", batch=1, queue=2) as server:
        replies = together(server, 8)
    refused = [headers for status, _, headers in replies if status == 429]
    assert refused
    assert all(headers["retry-after"] == "1" for headers in refused)
    assert {status for status, _, _ in replies} == {200, 429}


def _taken(metrics: str) -> float:
    """Requests to predict that have come so far, answered or not."""
    lines = [line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#")]
    return sum(
        float(value)
        for name, _, value in lines
        if name == "trueloop_taken_requests" or name.startswith('trueloop_requests_total{path="/predict"')
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_answers_those_who_wait_and_ends_with_0(number: int) -> None:
    with served(model="slow", batch=1) as server:
        replies: list[tuple[int, Any, dict[str, str]]] = []
        asking = threading.Thread(target=lambda: replies.extend(together(server, 4)))
        asking.start()
        while _taken(server.get("/metrics")[1]) < 4:
            time.sleep(0.01)
        assert server.end(number) == 0
        asking.join()
    assert [status for status, _, _ in replies] == [200] * 4
    assert any(line.startswith(f"{signal.Signals(number).name}: finishing open requests") for line in server.said)


def test_who_asks_while_it_is_told_to_end_is_answered_until_it_says_that_this_is_the_last() -> None:
    body = json.dumps({"input": points()})
    with served() as server, closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        for sent in range(10_000):
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            assert (reply.status, "predictions" in json.loads(reply.read())) == (200, True)
            if sent == 3:
                server.process.send_signal(signal.SIGTERM)
            if reply.getheader("connection") == "close":
                break
        assert sent > 3
        assert server.process.wait(30) == 0


def test_it_ends_within_its_grace_though_a_model_does_not() -> None:
    with served(model="stuck", grace=1.0, timeout=60.0, wait=1e-4) as server:
        replies: list[tuple[int, Any, dict[str, str]]] = []
        asking = threading.Thread(target=lambda: replies.extend(together(server, 2)))
        asking.start()
        while "trueloop_taken_requests 2.0" not in server.get("/metrics")[1]:
            time.sleep(0.01)
        assert server.end() == 0
        asking.join()
    assert [(status, told["error"]) for status, told, _ in replies] == [
        (503, "The server stopped before the model answered.")
    ] * 2


def test_a_failure_of_the_server_s_own_is_a_sentence_and_nothing_more() -> None:
    with served(model="broken") as server:
        assert server.json({"input": points()}) == (500, {"error": "The model failed; see the server's log."})
        assert server.end() == 0
    assert any("no memory" in line for line in server.said)


def test_a_slow_caller_does_not_keep_others_waiting(pictures: Served) -> None:
    slow = threading.Thread(
        target=pictures.raw,
        args=(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",),
    )
    slow.start()
    assert pictures.json({"input": points()})[0] == 200
    assert slow.is_alive()
    slow.join()
