"""Ranks of labs: each returns its own, and the error of one is the error of all, at once."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

from trueloop.labs.check_script import check_script
from trueloop.labs.on_ranks import on_ranks


def _both(rank: int, more: float) -> tuple[int, float, str, int]:
    mine = torch.tensor(rank + more)
    dist.all_reduce(mine)
    return rank, mine.item(), os.environ["CUDA_VISIBLE_DEVICES"], torch.get_num_threads()


def _one_fails(rank: int) -> None:
    if rank == 1:
        raise ZeroDivisionError("on rank 1")
    dist.barrier()


def test_ranks_meet_and_return_in_order() -> None:
    threads = torch.get_num_threads()
    assert on_ranks(_both, 0.5) == [(0, 2.0, "", 1), (1, 2.0, "", 1)]
    assert torch.get_num_threads() == threads
    assert not dist.is_initialized()


def test_the_error_of_a_rank_ends_the_others() -> None:
    with pytest.raises((ZeroDivisionError, RuntimeError)):  # rank 0 finds the connection closed
        on_ranks(_one_fails)


@pytest.mark.long
def test_a_script_is_checked_in_a_folder_of_its_own() -> None:
    report = check_script("import torch\n\nx = torch.ones(3)\nassert x.sum() == 3\n")
    assert report["findings"] == []
    assert report["script"]["reason"] == "finished"
    with pytest.raises(RuntimeError, match="printed no report"):
        check_script("", "--no-such-option")
