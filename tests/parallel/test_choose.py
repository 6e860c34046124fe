"""Which strategy a run has: every word of `parallel`, with one process and with several, which are only pretended
here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.small import SMALL
from trueloop.errors import BadRecipe
from trueloop.parallel import choose as module
from trueloop.parallel.choose import choose
from trueloop.parallel.peers import Alone, Group
from trueloop.parallel.replicated import Replicated
from trueloop.parallel.strategy import Single, Strategy

HOST = torch.device("cpu")


def several(world: int) -> Group:
    """A group that nobody has to join."""
    peers = Group.__new__(Group)
    peers.rank, peers.world, peers.device, peers.group = 0, world, HOST, None
    return peers


class Asked:
    """In place of Sharded: what it would have been made with."""

    def __init__(self, peers: Group, device: torch.device, **options: Any) -> None:
        self.world, self.options = peers.world, options


@pytest.fixture(autouse=True)
def _pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.parallel.sharded.Sharded", Asked)


def chosen(monkeypatch: pytest.MonkeyPatch, world: int, **options: Any) -> Any:
    monkeypatch.setattr(module, "find_peers", lambda _: several(world) if world > 1 else Alone())
    return choose(replace(SMALL, **options), HOST)


@pytest.mark.parametrize("asked", ["auto", "none"])
def test_one_process_says_nothing_where_nothing_was_asked(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    found = chosen(monkeypatch, 1, parallel=asked)
    assert isinstance(found, Single)
    assert found.note == ""


@pytest.mark.parametrize("asked", ["ddp", "fsdp", "hsdp", "tp", "fsdp+tp"])
def test_one_process_says_that_it_is_alone_where_more_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    found = chosen(monkeypatch, 1, parallel=asked)
    assert isinstance(found, Single)
    assert found.note == f"parallel: none instead of {asked}: there is one process (use --nproc N)"


def test_several_processes_cannot_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadRecipe, match=r"parallel=none needs one process, and there are 3\. Nothing was run: use parallel=ddp"
    ):
        chosen(monkeypatch, 3, parallel="none")


@pytest.mark.parametrize(("asked", "why"), [("auto", " (auto)"), ("ddp", "")])
def test_several_processes_have_copies_unless_they_are_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, asked: str, why: str
) -> None:
    found = chosen(monkeypatch, 2, parallel=asked, batch=4096)
    assert isinstance(found, Replicated)
    assert found.note == f"parallel: ddp{why} over 2 processes, which share each batch of 4,096"
    assert found.copies
    assert not found.in_parts
    assert not found.in_step


@pytest.mark.parametrize(("program", "after"), [("compiled_step", True), ("plain", False)])
def test_a_program_with_gradients_of_its_own_sends_them_afterwards(
    monkeypatch: pytest.MonkeyPatch, program: str, after: bool
) -> None:
    found = chosen(monkeypatch, 2, parallel="ddp", program=program)
    assert isinstance(found, Strategy)
    forward = object()
    if after:
        assert found.entrance(forward, torch.nn.Linear(1, 1)) is forward
    assert found._after is after  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asked", "world", "ranks", "layers"),
    [("fsdp", 4, 2, 1), ("tp", 4, 2, 4), ("fsdp+tp", 4, 2, 2), ("fsdp+tp", 6, 2, 2), ("fsdp+tp", 6, 3, 3)],
)
def test_so_many_processes_split_a_layer(
    monkeypatch: pytest.MonkeyPatch, asked: str, world: int, ranks: int, layers: int
) -> None:
    plan = {"0": "column", "2": "row"}
    found = chosen(monkeypatch, world, parallel=asked, tensor_ranks=ranks, precision="bf16", tensor_plan=plan)
    assert found.options == {
        "tensor_ranks": layers,
        "shard_ranks": 0,
        "precision": "bf16",
        "plan": plan,
        "offload": False,
    }
    assert found.world == world


@given(world=st.integers(2, 64), ranks=st.integers(2, 16))
def test_the_number_of_processes_that_is_advised_is_one_that_works(world: int, ranks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.parallel.sharded.Sharded", Asked)
        if world % ranks == 0 and world > ranks:
            assert chosen(patch, world, parallel="fsdp+tp", tensor_ranks=ranks).options["tensor_ranks"] == ranks
            return
        with pytest.raises(BadRecipe, match=f"tensor_ranks={ranks} needs {2 * ranks}, {3 * ranks}, ") as refused:
            chosen(patch, world, parallel="fsdp+tp", tensor_ranks=ranks)
        advised = int(str(refused.value).partition("--nproc ")[2].partition(",")[0])
        assert chosen(patch, advised, parallel="fsdp+tp", tensor_ranks=ranks).world == advised
        assert world <= advised < world + 2 * ranks, "not many more than are there"


# -- hsdp --


@pytest.mark.parametrize(
    ("world", "asked", "here", "shards"), [(4, 2, 4, 2), (8, 0, 4, 4), (6, 3, 6, 3), (16, 0, 8, 8)]
)
def test_a_copy_is_held_by_as_many_as_asked_or_by_one_machine(
    monkeypatch: pytest.MonkeyPatch, world: int, asked: int, here: int, shards: int
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    found = chosen(monkeypatch, world, parallel="hsdp", shard_ranks=asked)
    assert found.options["shard_ranks"] == shards
    assert found.options["tensor_ranks"] == 1


@given(world=st.integers(2, 64), ranks=st.integers(2, 16))
def test_hsdp_advises_a_number_of_processes_that_works(world: int, ranks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.parallel.sharded.Sharded", Asked)
        if world % ranks == 0 and world > ranks:
            assert chosen(patch, world, parallel="hsdp", shard_ranks=ranks).options["shard_ranks"] == ranks
            return
        with pytest.raises(BadRecipe, match=f"shard_ranks={ranks} needs {2 * ranks}, {3 * ranks}, ") as refused:
            chosen(patch, world, parallel="hsdp", shard_ranks=ranks)
        advised = int(str(refused.value).partition("--nproc ")[2].partition(",")[0])
        assert chosen(patch, advised, parallel="hsdp", shard_ranks=ranks).world == advised


def test_hsdp_on_one_machine_alone_says_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(BadRecipe, match=r"4 processes on this machine needs 8, 12, .* or use parallel=fsdp"):
        chosen(monkeypatch, 4, parallel="hsdp")
