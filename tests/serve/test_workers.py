"""Models in processes of their own: they are killed for real."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serve.made import PATIENCE, Served, opened, points, served, shade
from trueloop.errors import BadArtifact
from trueloop.export.exporter import Runner
from trueloop.serve.worker import ModelFailed, WorkerLost, WorkerRunner


def picture(value: int) -> Any:
    return np.full((1, 1, 3, 4), value, np.uint8)


def running(pid: int) -> bool:
    """Not a zombie either."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def until_ended(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while running(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def children(server: Served) -> list[int]:
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text(encoding="ascii").split()]


def test_a_killed_process_is_started_again_and_its_batch_computed() -> None:
    said: list[str] = []
    worker = WorkerRunner(partial(opened, "deadly"), said.append)
    try:
        assert np.array_equal(worker.run([picture(200)])[0], shade(picture(200))[0])
        first = worker.process.pid
        os.kill(first, signal.SIGKILL)
        assert np.array_equal(worker.run([picture(100)])[0], shade(picture(100))[0])
        assert worker.process.pid != first
        assert said == [f"the model's process {first} ended (SIGKILL): starting it again"]
        with pytest.raises(WorkerLost):
            worker.run([picture(7)])
        assert len(said) == 3
        assert np.array_equal(worker.run([picture(8)])[0], shade(picture(8))[0])
    finally:
        worker.close()
    assert not running(worker.process.pid)
    with pytest.raises(WorkerLost):
        worker.run([picture(8)])


def test_an_error_of_the_model_arrives_with_its_traceback_and_ends_nothing() -> None:
    worker = WorkerRunner(partial(opened, "picky"), pytest.fail)
    try:
        with pytest.raises(ModelFailed, match=r"(?s)in picky.*IndexError: 7 is out of range"):
            worker.run([picture(7)])
        assert worker.run([picture(8)])
    finally:
        worker.close()


def cannot_be_opened() -> Runner:
    raise BadArtifact("It is damaged.")


def ends_at_once() -> Runner:
    os._exit(3)


@pytest.mark.parametrize(
    ("opening", "why"),
    [(cannot_be_opened, "It is damaged."), (ends_at_once, r"ended \(exit code 3\)\. Nothing was served")],
)
def test_a_model_that_cannot_be_opened_is_a_sentence(opening: Any, why: str) -> None:
    with pytest.raises(BadArtifact, match=why):
        WorkerRunner(opening, pytest.fail)


def test_no_request_is_lost_when_a_process_is_killed() -> None:
    with served(model="slow", workers=2, batch=1, wait=0.0, timeout=PATIENCE) as server:
        before = children(server)
        assert len(before) == 2
        replies: list[tuple[int, Any]] = []
        values = range(0, 250, 25)
        body = [json.dumps({"input": points(value)}).encode() for value in values]
        threads = [threading.Thread(target=lambda each=each: replies.append(server.ask(each))) for each in body]
        for thread in threads:
            thread.start()
        while "trueloop_taken_requests 10.0" not in server.get("/metrics")[1] and not replies:
            time.sleep(0.01)
        os.kill(before[0], signal.SIGKILL)
        for thread in threads:
            thread.join()
        assert [status for status, _ in replies] == [200] * 10
        assert len(children(server)) == 2
        assert before[0] not in children(server)
        assert "trueloop_worker_restarts_total 1.0" in server.get("/metrics")[1]
        last = children(server)
        assert server.end() == 0
    assert not any(map(running, last))


def test_an_input_that_ends_the_process_is_answered_503_and_others_are_not() -> None:
    with served(model="deadly", workers=1, timeout=PATIENCE) as server:
        status, told = server.json({"input": points(7)})
        assert (status, told) == (503, {"error": "The model's process ended twice while it computed this request."})
        assert server.json({"input": points(8)})[0] == 200


def test_processes_end_with_a_server_that_is_killed_while_they_compute() -> None:
    with served(model="stuck", workers=1, wait=0.0) as server:
        (worker,) = children(server)
        asking = threading.Thread(target=server.raw, args=(_predict(points(1)),))
        asking.start()
        while "trueloop_taken_requests 1.0" not in server.get("/metrics")[1]:
            time.sleep(0.01)
        server.process.kill()
        asking.join()
        until_ended(worker)


def _predict(value: Any) -> bytes:
    body = json.dumps({"input": value}).encode()
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body
