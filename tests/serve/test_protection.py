"""Callers that do not read, that open too many connections, that ask without end, or that leave."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serve.made import PATIENCE, Served, points, served

GET = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
BODY = json.dumps({"input": points()}).encode()
PREDICT = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
CROWDED = "The server has too many connections, or too many of yours: try again in a second."


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def connected(server: Served, *, buffer: int = 0) -> socket.socket:
    """`buffer`: bytes that the system keeps for a caller that does not read."""
    door = socket.socket()
    if buffer:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    door.settimeout(PATIENCE)
    door.connect(("127.0.0.1", server.port))
    return door


def resident(server: Served) -> int:
    """Bytes of memory of the server's process."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


def counted(server: Served, path: str, status: int) -> float:
    wanted = f'trueloop_requests_total{{path="{path}",status="{status}"}} '
    lines = server.get("/metrics")[1].splitlines()
    return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


@pytest.fixture
def doors() -> Iterator[ExitStack]:
    """Connections that are closed at the end."""
    with ExitStack() as stack:
        yield stack


def test_a_thousand_slow_readers_stop_neither_health_nor_others_and_take_little_memory(doors: ExitStack) -> None:
    with served(timeout=2.0, connections=600, per_client=500) as server:
        before = resident(server)
        for _ in range(1_000):
            door = doors.enter_context(connected(server, buffer=4096))
            door.sendall(GET % b"/openapi.json" * 16)
        assert server.get("/health") == (200, {"status": "alive"})
        assert server.get("/ready")[0] == 200
        assert resident(server) - before < 200 * 2**20
        until(lambda: server.json({"input": points()})[0] == 200, "the slow readers kept their places")


def test_beyond_the_limit_of_connections_a_request_is_refused_with_a_sentence(doors: ExitStack) -> None:
    with served(connections=3) as server:
        for _ in range(3):
            doors.enter_context(connected(server)).sendall(GET % b"/healt")  # of which the server knows nothing yet
        status, told, headers = server.reply(BODY)
        assert (status, told, headers["connection"], headers["retry-after"]) == (503, {"error": CROWDED}, "close", "1")
        assert server.reply(b"", "", method="GET", path="/health")[2]["connection"] == "close"
        doors.close()
        until(lambda: server.json({"input": points()})[0] == 200, "closed connections still counted")
        assert counted(server, "/predict", 503) >= 1


def test_one_address_cannot_take_all_connections(doors: ExitStack) -> None:
    with served(connections=100, per_client=2) as server:
        for _ in range(2):
            doors.enter_context(connected(server))
        assert server.json({"input": points()}) == (503, {"error": CROWDED})
        with socket.socket() as other:
            other.settimeout(PATIENCE)
            other.bind(("127.0.0.2", 0))
            other.connect(("127.0.0.1", server.port))
            other.sendall(PREDICT)
            assert other.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_ends_its_connection(doors: ExitStack) -> None:
    """Also one that is being closed."""
    with served(timeout=2.0, queue=8192, body=10_000_000) as server:
        many = json.dumps({"inputs": [points()] * 4096}).encode()
        asked = PREDICT.partition(b"Content-Length")[0] + b"Content-Length: %d\r\n" % len(many)
        for more in (b"", b"Connection: close\r\n"):
            door = doors.enter_context(connected(server, buffer=4096))
            door.sendall(asked + more + b"\r\n" + many)
        until(lambda: counted(server, "/predict", 499) == 2, "the connections stayed open")
        assert counted(server, "/predict", 200) == 0


def test_a_large_answer_arrives_whole(pictures: Served) -> None:
    status, told = pictures.get("/openapi.json")
    assert status == 200
    assert set(told["paths"]) >= {"/predict", "/health"}
    with served(queue=2000, body=10_000_000) as server:
        status, told = server.json({"inputs": [points(value % 256) for value in range(2000)]})
    assert (status, len(told["predictions"])) == (200, 2000)
    assert told["predictions"][7] == told["predictions"][7 + 256]


def test_answers_that_are_not_read_have_a_limit_together(doors: ExitStack) -> None:
    with served(queue=4096, body=10_000_000, unread=100_000) as server:
        many = json.dumps({"inputs": [points()] * 4096}).encode()
        asked = PREDICT.partition(b"Content-Length")[0] + b"Content-Length: %d\r\n\r\n" % len(many) + many
        slow = doors.enter_context(connected(server, buffer=4096))
        slow.sendall(asked)
        until(lambda: server.get("/model")[0] == 429, "the unread answer is not counted")
        slow.close()
        until(lambda: server.get("/model")[0] == 200, "the unread answer is still counted")


def test_pipelined_requests_are_answered_up_to_a_limit(pictures: Served) -> None:
    """The answers to the first come whole; then the connection closes, and nothing is kept of the rest."""
    reply = pictures.raw(GET % b"/health" * 3_000)
    assert 1 <= reply.count(b"HTTP/1.1 200 ") <= 1 + 16
    assert reply.count(b"connection: close") == 1
    assert reply.endswith(b'{"status": "alive"}')


@pytest.mark.parametrize("path", ["/health", "/ready", "/model", "/metrics", "/", "/docs", "/openapi.json"])
def test_head_is_get_without_a_body(pictures: Served, path: str) -> None:
    reply = pictures.raw(b"HEAD %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) > 0
    assert body == b""


def test_head_of_a_path_that_takes_only_post_is_refused(pictures: Served) -> None:
    reply = pictures.raw(b"HEAD /predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: POST\r\n" in reply


def test_samples_of_callers_that_left_are_dropped_from_the_queue(doors: ExitStack) -> None:
    with served(model="stuck", batch=1, wait=0.0, timeout=60.0, grace=1.0) as server:
        doors.enter_context(connected(server)).sendall(PREDICT)  # computed for ever
        until(lambda: "trueloop_taken_requests 1.0" in server.get("/metrics")[1], "the first never came")
        until(lambda: "trueloop_waiting_samples 0.0" in server.get("/metrics")[1], "the first was never computed")
        left = ExitStack()
        for _ in range(3):
            left.enter_context(connected(server)).sendall(PREDICT)
        until(lambda: "trueloop_waiting_samples 3.0" in server.get("/metrics")[1], "they never waited")
        left.close()
        until(lambda: "trueloop_waiting_samples 0.0" in server.get("/metrics")[1], "they still wait")
        assert counted(server, "/predict", 499) == 3


def test_requests_that_are_not_http_are_counted(pictures: Served) -> None:
    before = counted(pictures, "malformed", 400)
    assert pictures.raw(b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert counted(pictures, "malformed", 400) == before + 1
