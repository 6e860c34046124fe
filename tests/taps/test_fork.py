"""A copy of the process: what it answers, and that nothing of it is left in the run."""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from tests.conftest import in_child
from tests.waiting import until
from trueloop.taps.fork import CannotFork, run_in_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only")


def test_an_answer_comes_back_and_changes_stay_there() -> None:
    kept = torch.zeros(3)
    assert run_in_fork(lambda: kept.add_(1).tolist(), 5) == [1, 1, 1]
    assert kept.tolist() == [0, 0, 0]


def test_a_copy_can_be_copied() -> None:
    numbers = [0]

    def inner() -> int:
        numbers[0] += 1
        return numbers[0]

    assert run_in_fork(lambda: [run_in_fork(inner, 5), run_in_fork(inner, 5), numbers[0]], 5) == [1, 1, 0]


def test_random_states_of_the_run_do_not_move() -> None:
    def states() -> Any:
        before = torch.get_rng_state(), repr(numpy.random.get_state()), random.getstate()
        run_in_fork(lambda: (torch.rand(3).sum().item(), numpy.random.rand(), random.random()), 5)
        after = repr(numpy.random.get_state()), random.getstate()
        return torch.equal(torch.get_rng_state(), before[0]) and after == before[1:]

    assert in_child(states)


def _never() -> None:
    time.sleep(60)


def _raises() -> None:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("work", "why"), [(_never, "longer than 0.3 s"), (_raises, "KeyError"), (lambda: os._exit(1), "died")]
)
def test_what_cannot_be_answered_says_why(work: Callable[[], object], why: str) -> None:
    with pytest.raises(CannotFork, match=why):
        run_in_fork(work, 0.3)


def test_nothing_is_written(tmp_path: Path) -> None:
    file, log = tmp_path / "new.txt", tmp_path / "log.txt"
    with log.open("w", encoding="utf-8") as open_log, pytest.raises(CannotFork):
        run_in_fork(lambda: file.write_text("x", encoding="utf-8"), 5)
    with log.open("w", encoding="utf-8") as open_log:

        def write() -> None:
            open_log.write("x")
            open_log.flush()

        run_in_fork(write, 5)
    with pytest.raises(CannotFork):
        run_in_fork(lambda: torch.save({}, tmp_path / "new.pt"), 5)
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("log.txt", 0)]


def test_shared_memory_is_not_written() -> None:
    shared = torch.zeros(4).share_memory_()  # type: ignore[no-untyped-call]
    with pytest.raises(CannotFork):
        run_in_fork(lambda: shared.add_(1).tolist(), 5)
    assert shared.tolist() == [0, 0, 0, 0]


def test_an_open_file_stands_where_it_stood(tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(bytes(range(100)))
    with file.open("rb", buffering=0) as stream:
        stream.read(10)
        assert run_in_fork(lambda: stream.read(5), 5) == bytes(range(10, 15))
        assert stream.read(1) == bytes([10])


def test_a_connection_is_not_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"hello")
        with pytest.raises(CannotFork):
            run_in_fork(lambda: ours.recv(5), 1)
        assert ours.recv(5) == b"hello"


def test_no_child_is_left_behind() -> None:
    def count() -> int:
        with pytest.raises(CannotFork):
            run_in_fork(lambda: run_in_fork(_never, 60), 0.3)
        until(lambda: not _children(), "no child is left")
        return len(_children())

    assert in_child(count) == 0


def _children() -> list[str]:
    children = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    return children.read_text(encoding="utf-8").split()
