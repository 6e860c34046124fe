"""Machines that ask one another where their ranks stand: answers, and all the ways to get none."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch._C._distributed_c10d import TCPStore

from tests.waiting import Clock, until
from trueloop.doctor import remote_ranks as module
from trueloop.doctor.ranks import Rank
from trueloop.doctor.remote_ranks import FILE, RemoteRanks, remote_facts
from trueloop.event import Collective, CollectivesCalled, Event, RankFact, RankStalled

HANG_AFTER = 2.0
CALL = Collective("0", (0, 1), 7, 7, "all_reduce", 3, "torch.float32", "inside", 9.0, ())


def called(rank: int) -> CollectivesCalled:
    return CollectivesCalled(0, None, rank, (CALL,), "running", "")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Pair:
    """Two machines of one rank each, in this process."""

    def __init__(self, folder: Path, port: int, facts: list[Callable[[], list[Event]]]) -> None:
        self.ranks = [Rank(number, number, 1, folder / f"machine{number}-0") for number in (0, 1)]
        self.fars: list[RemoteRanks] = []
        for rank, each in zip(self.ranks, facts, strict=True):
            rank.folder.mkdir()
            said = {
                "GROUP_RANK": str(rank.number),
                "GROUP_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            found = RemoteRanks.of(rank, each, said)
            assert found is not None
            self.fars.append(found)

    def heard(self, of: int = 0) -> list[RankFact]:
        """What a machine knows of the other, right after it has asked."""
        self.fars[of].query()
        return list(remote_facts(self.ranks[of], HANG_AFTER))


@contextmanager
def two_machines(
    folder: Path, other: Callable[[], list[Event]] = lambda: [called(1)], *, meet: bool = True
) -> Iterator[Pair]:
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60), wait_for_workers=False)
    pair = Pair(folder, store.port, [lambda: [called(0)], other])
    try:
        for each in pair.fars:
            each.start()
        if meet:
            until(lambda: pair.fars[0]._others and pair.fars[1]._others, "they have not met")
        yield pair
    finally:
        for each in pair.fars:
            each.close()
            each.join(60)
            assert not each.is_alive()


def test_a_machine_answers_with_the_facts_of_its_ranks(tmp_path: Path) -> None:
    with two_machines(tmp_path) as pair:
        assert pair.heard(of=0) == [called(1)]
        assert pair.heard(of=1) == [called(0)]


def test_nothing_is_known_before_somebody_asks(tmp_path: Path) -> None:
    with two_machines(tmp_path) as pair:
        assert list(remote_facts(pair.ranks[0], HANG_AFTER)) == []


def test_who_no_longer_listens_has_ended_but_not_at_once(tmp_path: Path, clock: Clock) -> None:
    with two_machines(tmp_path) as pair:
        pair.fars[1].close()
        assert pair.heard() == [], "a share of --hang-after must have gone by"
        clock.move(HANG_AFTER / 2)
        assert pair.heard() == [CollectivesCalled(0, None, 1, (), "died", "")]


def _cut(*_: Any, **__: Any) -> socket.socket:
    raise OSError(errno.EHOSTUNREACH, "No route to host")


def test_a_machine_that_cannot_be_reached_is_named_with_address_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    with two_machines(tmp_path) as pair:
        monkeypatch.setattr(socket, "create_connection", _cut)
        assert pair.heard() == []
        clock.move(HANG_AFTER / 2)
        (_, stood) = pair.heard()
        assert isinstance(stood, RankStalled)
        assert (stood.rank, stood.doing, stood.fetching) == (1, "unreachable", "node 1 (127.0.0.1): No route to host")
        assert stood.seconds >= HANG_AFTER / 2


def test_what_was_missed_before_the_run_moved_again_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    with two_machines(tmp_path) as pair:
        monkeypatch.setattr(socket, "create_connection", _cut)
        pair.heard()
        clock.move(HANG_AFTER / 2)
        pair.fars[0].clear()
        assert pair.heard() == []


def test_an_answer_makes_good_what_was_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    with two_machines(tmp_path) as pair:
        with monkeypatch.context() as cut:
            cut.setattr(socket, "create_connection", _cut)
            pair.heard()
        clock.move(HANG_AFTER / 2)
        assert pair.heard() == [called(1)]


def test_one_that_can_be_reached_and_says_nothing_is_silent_after_nearly_the_whole_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    stuck, go_on = threading.Event(), threading.Event()

    def facts() -> list[Event]:
        if stuck.is_set():
            go_on.wait(60)
        return [called(1)]

    with two_machines(tmp_path, facts) as pair:
        stuck.set()
        monkeypatch.setattr(module, "ANSWER_WITHIN", 0.1)
        assert pair.heard() == []
        clock.move(HANG_AFTER / 2)
        assert pair.heard() == [], "a library may keep Python busy"
        clock.move(HANG_AFTER / 2)
        (_, stood) = pair.heard()
        assert isinstance(stood, RankStalled)
        assert (stood.rank, stood.doing) == (1, "silent")
        go_on.set()


def test_of_one_that_has_never_answered_nothing_is_concluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall between the machines lets nothing through: then silence means nothing."""
    tried = []

    def walled(*_: Any, **__: Any) -> socket.socket:
        tried.append(True)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", walled)
    with two_machines(tmp_path, meet=False) as pair:
        until(lambda: len(tried) == 2, "they have not tried to meet")
        assert pair.heard() == []
        assert not (pair.ranks[0].folder / FILE).exists()


def test_a_stranger_gets_no_answer(tmp_path: Path) -> None:
    with two_machines(tmp_path) as pair:
        place = pair.fars[1]._place.getsockname()
        with socket.create_connection(place, timeout=60) as stranger:
            stranger.sendall(b"let me in")
            assert stranger.recv(100) == b""
        assert pair.heard() == [called(1)], "and it goes on answering"


def test_an_answer_of_long_ago_says_nothing_of_now(tmp_path: Path) -> None:
    rank = Rank(0, 0, 1, tmp_path)
    said = {
        "at": time.monotonic(),
        "facts": [],
        "missed": [{"since": 0.0, "trouble": "ended", "ranks": [1], "machine": "", "reason": ""}],
    }
    rank.put(FILE, json.dumps(said).encode())
    assert len(list(remote_facts(rank, HANG_AFTER))) == 1
    rank.put(FILE, json.dumps({**said, "at": time.monotonic() - module.STALE - 1}).encode())
    assert list(remote_facts(rank, HANG_AFTER)) == []


def test_only_the_first_rank_of_several_machines_speaks_to_the_others(tmp_path: Path) -> None:
    said = {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert RemoteRanks.of(Rank(1, 0, 2, tmp_path), list, said) is None
    assert RemoteRanks.of(Rank(0, 0, 2, tmp_path), list, {**said, "GROUP_WORLD_SIZE": "1"}) is None
    assert RemoteRanks.of(Rank(0, 0, 2, tmp_path), list, {}) is None
    found = RemoteRanks.of(Rank(0, 0, 2, tmp_path), list, said)
    assert found is not None
    found.close()
