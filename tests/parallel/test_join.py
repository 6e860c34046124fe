"""Joining: by which way, within which time, and what is said when somebody does not come."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from tests.conftest import in_child
from tests.several_ranks import free_port
from trueloop.cli.failure import report_user_errors
from trueloop.errors import Apart
from trueloop.parallel import join, route
from trueloop.parallel.answer import LOST, USUAL_WAIT, WAIT, seconds_to_wait
from trueloop.parallel.join import joined
from trueloop.parallel.launch import WAIT as OF_THE_LAUNCHER
from trueloop.parallel.route import INTERFACE, Route, route_to


def kept_store() -> TCPStore:
    """As the launcher keeps one."""
    return TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20), wait_for_workers=False)


def as_rank(rank: int, port: int, **more: str) -> None:
    said = {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        WAIT: "1",
    }
    os.environ.update({**said, **more})
    os.environ.pop(INTERFACE, None)


def alone(rank: int, port: int, **more: str) -> str:
    """What is said to a process that nobody comes to meet."""

    def work() -> str:
        as_rank(rank, port, **more)
        with pytest.raises(Apart) as refused, joined():
            pass
        return str(refused.value)

    said: str = in_child(work)
    return said


@pytest.mark.parametrize(("rank", "missing"), [(0, 1), (1, 0)])
def test_under_a_launcher_which_keeps_the_store_the_missing_one_is_named(rank: int, missing: int) -> None:
    store = kept_store()
    said = alone(rank, store.port, TORCHELASTIC_USE_AGENT_STORE="True")
    where = f"127.0.0.1:{store.port}"
    assert (
        said
        == f"Rank {missing} has not come to {where} within 1 s. Nothing was trained: {WAIT}=2 (or --wait 2) waits longer."  # noqa: E501
    )


def test_a_first_process_that_keeps_the_store_itself_says_how_many_came() -> None:
    port = free_port()
    assert alone(0, port).startswith(f"Not all processes have come to 127.0.0.1:{port} within 1 s (Timed out ")


def test_the_others_say_that_the_first_cannot_be_reached() -> None:
    port = free_port()
    assert alone(1, port).startswith(f"The first process cannot be reached at 127.0.0.1:{port} within 1 s (")


def test_a_rank_that_is_left_alone_ends_as_one_that_has_lost_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        as_rank(0, free_port())
        try:
            with joined():
                return 0
        except Apart as error:
            return report_user_errors(error)

    assert in_child(work) == LOST
    assert "trueloop: Not all processes have come to 127.0.0.1:" in capfd.readouterr().err


def test_processes_meet_again_after_a_restart_in_a_store_that_remembers_the_dead() -> None:
    store = kept_store()

    def attempt(number: int) -> list[int]:
        children = []
        for rank in (0, 1):
            child = os.fork()
            if child == 0:
                _join_and_leave(rank, store.port, number)
            children.append(child)
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    assert [attempt(0), attempt(1)] == [[0, 0], [0, 0]]


def _join_and_leave(rank: int, port: int, attempt: int) -> None:
    code = 9
    try:
        as_rank(
            rank, port, TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT=str(attempt), **{WAIT: "20"}
        )
        with joined():
            assert dist.get_world_size() == 2
            dist.barrier()
        code = 0
    finally:
        os._exit(code)


def test_what_waits_in_the_depths_is_ended_with_a_sentence(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = os.fdopen(2, "w", 1, closefd=False)
        os.environ[INTERFACE] = "eth7"
        with join._bounded(0.1, "rank 3 cannot connect to the others"):
            time.sleep(20)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == LOST
    said = (tmp_path / "err").read_text(encoding="utf-8")
    assert said.startswith("trueloop: rank 3 cannot connect to the others over eth7 within 0 s. Nothing was trained: ")
    assert said.count("\n") == 1


def test_who_has_met_is_not_ended() -> None:
    before = set(threading.enumerate())
    with join._bounded(600.0, ""):
        (timer,) = set(threading.enumerate()) - before
    timer.join(timeout=120)
    assert not timer.is_alive(), "it would end this process when its time is over"


# -- how long --


@pytest.mark.parametrize(("said", "seconds"), [("", 300), ("7", 7), ("0", 300), ("soon", 300), ("-1", 300)])
def test_the_launcher_says_how_long_to_wait(said: str, seconds: int) -> None:
    assert seconds_to_wait({WAIT: said}) == seconds


def test_processes_wait_as_long_as_launchers_do() -> None:
    assert USUAL_WAIT == OF_THE_LAUNCHER


# -- which way --


def found_way(
    monkeypatch: pytest.MonkeyPatch, world: int, environment: dict[str, str], way: Callable[[str], Route | None]
) -> str | None:
    for name in ("LOCAL_WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.setenv(name, environment[name])
    os.environ.update({name: value for name, value in environment.items() if name == INTERFACE})
    monkeypatch.setattr(join, "route_to", way)
    join._find_the_way(world)
    return os.environ.pop(INTERFACE, None)  # not by monkeypatch, which would put back what was found


def test_between_machines_gloo_is_told_the_interface_that_leads_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    several = {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "node0"}
    asked: list[str] = []

    def way(host: str) -> Route | None:
        asked.append(host)
        return Route("10.0.0.2", "eth1")

    assert found_way(monkeypatch, 2, several, way) == "eth1"
    assert asked == ["node0"]
    assert found_way(monkeypatch, 2, {**several, INTERFACE: "ib0"}, way) == "ib0", "who has said it is obeyed"
    assert found_way(monkeypatch, 1, several, way) is None, "one machine has nothing to choose"
    assert found_way(monkeypatch, 2, several, lambda _: None) is None
    assert found_way(monkeypatch, 2, several, lambda _: Route("10.0.0.2", "")) is None


@pytest.mark.parametrize("host", ["", "127.0.0.1", "localhost", "::1", "no-such-host.invalid"])
def test_no_way_leads_to_this_machine_or_to_nobody(host: str) -> None:
    assert route_to(host) is None


def test_an_interface_is_found_by_its_address() -> None:
    names = [name for _, name in socket.if_nameindex()]
    assert route._interface_of("127.0.0.1") == "lo"
    assert route._interface_of("192.0.2.77") == ""
    assert "lo" in names


def test_an_interface_is_found_by_an_address_with_colons() -> None:
    found = [(name, address) for _, name in socket.if_nameindex() for address in route._ipv6(name)]
    for name, address in found:
        assert route._interface_of(address) == name
    assert route._ipv6("no-such-interface") == []
