"""Two hosts for real: network namespaces of this machine, gloo between them, and a cable that is pulled in the middle
of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import in_child
from tests.parallel.hosts import Host, move_into, two_hosts
from tests.parallel.launching import Ended, about, begun, losses, recipe_in, trueloop, wait_for
from trueloop.parallel.route import Route, route_to

PORT = 29500
"""Nobody else is on these networks."""
STEPS = "steps=60"


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as pair:
        yield pair


def command(number: int, first: Host, *words: str, restarts: int = 0, wait: int = 60) -> tuple[str, ...]:
    """What is typed on one host."""
    place = (
        "--nnodes",
        "2",
        "--node-rank",
        str(number),
        "--rendezvous",
        f"{first.address}:{PORT}",
        "--nproc",
        "1",
        "--wait",
        str(wait),
    )
    return ("launch", *place, "--restarts", str(restarts), "--", *words, "--hang-after", "3")


@pytest.mark.long
def test_a_cable_that_is_pulled_is_named_within_the_time_and_the_run_goes_on_to_the_same_losses(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    recipe_in(tmp_path)
    train = ("train", "shared.py", "--set", STEPS)
    with (
        begun(tmp_path, *command(0, hosts[0], *train), name="0", host=hosts[0], SLOW="1") as (_, end0),
        begun(tmp_path, *command(1, hosts[0], *train), name="1", host=hosts[1], SLOW="1") as (_, end1),
    ):
        wait_for(tmp_path / "runs" / "shared" / "metrics.jsonl", '"step": 12,')
        hosts[1].plug("down")
        ends = [end0(), end1()]
    for number, ended in enumerate(ends):
        assert ended.code == 5, ended.err
        assert cut_paragraph(ended, number, hosts[1 - number]), ended.err
    told = about(tmp_path, "shared")
    assert told["status"] == "hung"
    assert "unreachable since" in str(told["message"])
    listed = trueloop(tmp_path, "runs")
    assert re.search(r"^shared .* hung$", listed.out, re.MULTILINE), listed.out

    hosts[1].plug("up")
    resume = ("resume", "runs/shared")
    with (
        begun(tmp_path, *command(0, hosts[0], *resume), name="0", host=hosts[0]) as (_, end0),
        begun(tmp_path, *command(1, hosts[0], *resume), name="1", host=hosts[1]) as (_, end1),
    ):
        assert [end0().code, end1().code] == [0, 0], end0().err + end1().err
    assert about(tmp_path, "shared")["status"] == "finished"
    assert_undisturbed(tmp_path)


def cut_paragraph(ended: Ended, rank: int, other: Host) -> bool:
    """One paragraph, and no page of C++."""
    said = " ".join(ended.err.split())
    waits = (
        rf"Rank {rank} waits in [a-z_ A-Z]+ #\d+ \([^)]*\) for rank {1 - rank} on node {1 - rank} "
        rf"\({re.escape(other.address)}\), but that "
    )
    why = (
        r"machine has been unreachable since \d\d:\d\d:\d\d \([A-Za-z ]+\): the network is cut, or the machine is "
        r"down\."
    )
    return re.search(waits + why, said) is not None and said.count("error PAR106") == 1 and "frame #" not in said


def assert_undisturbed(folder: Path) -> None:
    """The losses of every step are those of one process on one machine."""
    plain = recipe_in(folder / "plain")
    assert trueloop(plain, "train", "shared.py", "--set", STEPS).code == 0
    expected = losses(plain, "shared")
    assert len(expected) == 60
    assert losses(folder, "shared") == pytest.approx(expected, abs=1e-5)


@pytest.mark.long
def test_a_cable_that_comes_back_while_the_launchers_try_again(tmp_path: Path, hosts: tuple[Host, Host]) -> None:
    recipe_in(tmp_path)
    train = ("train", "shared.py", "--set", STEPS)
    with (
        begun(tmp_path, *command(0, hosts[0], *train, restarts=1), name="0", host=hosts[0], SLOW="1") as (_, end0),
        begun(tmp_path, *command(1, hosts[0], *train, restarts=1), name="1", host=hosts[1], SLOW="1") as (_, end1),
    ):
        wait_for(tmp_path / "runs" / "shared" / "metrics.jsonl", '"step": 12,')
        hosts[0].plug("down")
        wait_for(tmp_path / "stderr0.txt", "The run was stopped")
        wait_for(tmp_path / "stderr1.txt", "The run was stopped")
        hosts[0].plug("up")
        assert [end0().code, end1().code] == [0, 0], end0().err + end1().err
        assert "note: started again; runs/shared continues" in end0().err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["shared"]
    assert_undisturbed(tmp_path)


@pytest.mark.long
def test_a_node_that_never_comes_back_ends_the_job_on_both_sides(tmp_path: Path, hosts: tuple[Host, Host]) -> None:
    recipe_in(tmp_path)
    train = ("train", "shared.py", "--set", STEPS)
    with (
        begun(tmp_path, *command(0, hosts[0], *train, restarts=2, wait=8), name="0", host=hosts[0], SLOW="1") as (
            _,
            end0,
        ),
        begun(tmp_path, *command(1, hosts[0], *train, restarts=2, wait=8), name="1", host=hosts[1], SLOW="1") as (
            _,
            end1,
        ),
    ):
        wait_for(tmp_path / "runs" / "shared" / "metrics.jsonl", '"step": 12,')
        hosts[1].plug("down")
        assert [end0().code, end1().code] == [6, 4], end0().err + end1().err
        assert f"Rank 1 has not come to {hosts[0].address}:{PORT} within 8 s" in end0().err
        assert f"the 2 nodes did not connect at {hosts[0].address}:{PORT} within 8 s" in end1().err
        assert "Nothing was trained since the last checkpoint" in end1().err


def test_a_node_that_is_alone_waits_for_a_bounded_time_and_says_what_is_missing(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    recipe_in(tmp_path)
    with begun(tmp_path, *command(0, hosts[0], "train", "shared.py", wait=1), name="0", host=hosts[0]) as (_, end):
        assert end().code == 4, end().err
        assert f"the 2 nodes did not connect at {hosts[0].address}:{PORT} within 1 s" in end().err
        assert "check that --node-rank 1 runs" in end().err
    assert not (tmp_path / "runs").exists()


def test_the_way_between_hosts_is_found_by_address_and_interface(hosts: tuple[Host, Host]) -> None:
    def seen_from(host: Host, other: str) -> Route | None:
        def work() -> Route | None:
            move_into(host)
            return route_to(other)

        found: Route | None = in_child(work)
        return found

    first, second = hosts
    assert seen_from(second, first.address) == Route(second.address, second.cable)
    assert seen_from(first, first.address) == Route(first.address, first.cable), "the node that the others come to"
    assert seen_from(first, "192.0.2.1") is None, "there is no way there"
    assert seen_from(first, "127.0.0.1") is None, "no other host can take that way"
