"""What is made of an answer from another machine, or of none: every way to be silent, and both sides of every share of
--hang-after."""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueloop.doctor import remote_ranks as module
from trueloop.doctor.ranks import Rank
from trueloop.doctor.remote_ranks import (
    FILE,
    LONGEST_QUERY,
    LOST_FOR,
    SILENT_FOR,
    STALE,
    RemoteRanks,
    _Machine,
    _NoAnswer,
    _query,
    remote_facts,
)
from trueloop.event import CollectivesCalled, Event, RankStalled, SeedChecked
from trueloop.run import event_to

MACHINE = _Machine(3, (4, 5), "10.0.0.3", 7000, "the word")
STOOD = RankStalled(0, None, 4, "loading", 3.0, "12:00:00", "")


KEPT: list[socket.socket] = []
"""The other ends of lines that were asked for."""


def connected(monkeypatch: pytest.MonkeyPatch, answer: bytes | OSError) -> None:
    """A machine that says this, and says no more."""

    def connect(place: tuple[str, int], timeout: float) -> socket.socket:
        assert place == ("10.0.0.3", 7000)
        assert timeout == module.ANSWER_WITHIN
        if isinstance(answer, OSError):
            raise answer
        here, there = socket.socketpair()
        there.sendall(answer)
        there.shutdown(socket.SHUT_WR)
        KEPT.append(there)
        here.settimeout(timeout)
        return here

    monkeypatch.setattr(socket, "create_connection", connect)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while KEPT:
        KEPT.pop().close()


# -- answers --


def test_an_answer_is_the_facts_that_were_sent_for_the_right_word(monkeypatch: pytest.MonkeyPatch) -> None:
    connected(monkeypatch, json.dumps([event_to(STOOD)]).encode())
    assert _query(MACHINE) == [STOOD]
    assert KEPT[0].recv(100) == b"the word"


def test_a_long_answer_is_heard_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    connected(monkeypatch, json.dumps([event_to(STOOD)] * 500).encode())
    assert len(_query(MACHINE)) == 500


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"[",
        b"\xff\xfe",
        b"5",
        b"null",
        b'{"a": 1}',
        b'["word"]',
        b"[3]",
        b'[{"event": "Nobody"}]',
        b'[{"no": "event"}]',
        b'[{"event": "RankStalled"}]',
        b'[{"event": "RankStalled", "unheard": 1}]',
        b'[{"event": "CollectivesCalled", "step": 0, "place": null, "rank": 1, "calls": [3], "ended": "running", "exception": ""}]',  # noqa: E501
    ],
)
def test_whatever_is_no_list_of_facts_is_silence(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """Another program may have taken the port, or another version may be at work there."""
    connected(monkeypatch, answer)
    with pytest.raises(_NoAnswer, match="it accepts connections but does not answer") as silence:
        _query(MACHINE)
    assert silence.value.trouble == "silent"


@pytest.mark.parametrize(
    ("failure", "trouble", "reason"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
            "ended",
            "connection refused: its process has ended",
        ),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "unreachable", "No route to host"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "unreachable", "Network is unreachable"),
        (TimeoutError("timed out"), "unreachable", "no answer"),
        (socket.gaierror(-2, "Name or service not known"), "unreachable", "Name or service not known"),
    ],
)
def test_how_a_connection_fails_tells_what_has_happened_there(
    monkeypatch: pytest.MonkeyPatch, failure: OSError, trouble: str, reason: str
) -> None:
    connected(monkeypatch, failure)
    with pytest.raises(_NoAnswer, match=reason) as missing:
        _query(MACHINE)
    assert missing.value.trouble == trouble


# -- what the first rank leaves for the others --


class Clock:
    """Time that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def far(folder: Path, facts: Any = list) -> tuple[RemoteRanks, Rank]:
    rank = Rank(0, 0, 2, folder)
    said = {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    found = RemoteRanks.of(rank, facts, said)
    assert found is not None
    found._others[3] = MACHINE
    return found, rank


def test_the_time_of_silence_begins_anew_when_its_kind_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    here, _ = far(tmp_path)
    refused, cut = ConnectionRefusedError(errno.ECONNREFUSED, "no"), OSError(errno.EHOSTUNREACH, "No route to host")
    seen = []
    for failure, now in ((cut, 1000.0), (cut, 1005.0), (refused, 1006.0), (refused, 1009.0)):
        clock.now = now
        connected(monkeypatch, failure)
        here.query()
        told = json.loads((tmp_path / FILE).read_bytes())
        seen.append((told["missed"][0]["since"], told["missed"][0]["trouble"]))
    assert seen == [(1000.0, "unreachable"), (1000.0, "unreachable"), (1006.0, "ended"), (1006.0, "ended")]
    assert told["missed"][0]["machine"] == "node 3 (10.0.0.3)"
    assert told["missed"][0]["ranks"] == [4, 5]
    here.clear()
    clock.now = 1020.0
    here.query()
    assert json.loads((tmp_path / FILE).read_bytes())["missed"][0]["since"] == 1020.0
    here.close()


def test_who_knows_nobody_asks_nobody(tmp_path: Path) -> None:
    here, _ = far(tmp_path)
    here._others.clear()
    here.query()
    assert list(tmp_path.iterdir()) == []
    here.close()


# -- what the others make of it --


def left(folder: Path, **changes: Any) -> Rank:
    rank = Rank(1, 0, 2, folder)
    missed = {
        "since": 1000.0,
        "trouble": "unreachable",
        "reason": "No route to host",
        "machine": "node 3 (10.0.0.3)",
        "ranks": [4, 5],
        **changes,
    }
    rank.put(FILE, json.dumps({"at": 1100.0, "facts": [event_to(STOOD)], "missed": [missed]}).encode())
    return rank


HANG_AFTER = 100.0


@pytest.mark.parametrize(
    ("trouble", "after", "told"),
    [
        ("unreachable", LOST_FOR * HANG_AFTER - 1, False),
        ("unreachable", LOST_FOR * HANG_AFTER + 1, True),
        ("ended", LOST_FOR * HANG_AFTER - 1, False),
        ("ended", LOST_FOR * HANG_AFTER + 1, True),
        ("silent", SILENT_FOR * HANG_AFTER - 1, False),
        ("silent", SILENT_FOR * HANG_AFTER + 1, True),
    ],
)
def test_a_machine_is_missed_only_after_its_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, after: float, told: bool
) -> None:
    clock = Clock(monkeypatch)
    clock.now = 1100.0
    rank = left(tmp_path, trouble=trouble, since=1100.0 - after)
    first, *others = remote_facts(rank, HANG_AFTER)
    assert first == STOOD
    assert bool(others) is told
    if told:
        calls = [fact for fact in others if isinstance(fact, CollectivesCalled)]
        stood = [fact for fact in others if isinstance(fact, RankStalled)]
        assert [(fact.rank, fact.calls) for fact in calls] == [(4, ()), (5, ())]
        assert [fact.rank for fact in stood] == ([] if trouble == "ended" else [4, 5])
        assert all(fact.seconds == pytest.approx(after) for fact in stood)
        assert all(fact.fetching == "node 3 (10.0.0.3): No route to host" for fact in stood)


@pytest.mark.parametrize(
    ("age", "hang_after", "counts"),
    [(STALE - 0.1, 4.0, True), (STALE + 0.1, 4.0, False), (24.9, 100.0, True), (25.1, 100.0, False)],
)
def test_an_answer_counts_as_long_as_it_is_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, hang_after: float, counts: bool
) -> None:
    clock = Clock(monkeypatch)
    rank = left(tmp_path)
    clock.now = 1100.0 + age
    assert bool(list(remote_facts(rank, hang_after))) is counts


def test_what_is_no_fact_about_a_rank_is_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch).now = 1100.0
    rank = Rank(1, 0, 2, tmp_path)
    facts = [event_to(fact) for fact in (SeedChecked(3, None, True, False, True, "Net"), STOOD)]
    rank.put(FILE, json.dumps({"at": 1000.0, "facts": facts, "missed": []}).encode())
    assert list(remote_facts(rank, 4 * HANG_AFTER)) == [STOOD]


def test_before_anybody_was_asked_nothing_is_known(tmp_path: Path) -> None:
    assert list(remote_facts(Rank(0, 0, 1, tmp_path), HANG_AFTER)) == []
    assert LONGEST_QUERY >= 2 * module.ANSWER_WITHIN


# -- answering --


@given(st.binary(max_size=64))
def test_who_does_not_know_the_word_hears_nothing_whatever_they_say(word: bytes) -> None:
    asked: list[bool] = []

    def facts() -> list[Event]:
        asked.append(True)
        return []

    here = RemoteRanks.__new__(RemoteRanks)
    here._here, here._facts = MACHINE, facts
    stranger, caller = socket.socketpair()
    with stranger, caller:
        stranger.sendall(word)
        stranger.shutdown(socket.SHUT_WR)
        here._answer(caller)
    assert bool(asked) is (word == b"the word")


def test_a_caller_who_is_gone_is_no_reason_to_stop() -> None:
    here = RemoteRanks.__new__(RemoteRanks)
    here._here, here._facts = MACHINE, lambda: [STOOD] * 5000
    stranger, caller = socket.socketpair()
    with caller:
        stranger.sendall(b"the word")
        stranger.close()
        here._answer(caller)
