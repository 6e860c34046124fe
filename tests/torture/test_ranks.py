"""A few kills of single processes of a launched run; `python -m tests.torture.ranks` does more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.ranks import Account, shown, torment


@pytest.mark.long
@pytest.mark.parametrize("way", ["fsdp", "ddp"])
def test_a_run_whose_processes_are_killed_ends_with_the_same_bits(way: str, tmp_path: Path) -> None:
    account = torment(way, 3, os.getpid(), tmp_path / way)
    assert not account.troubles, f"seed {os.getpid()}: {account.troubles}"
    assert account.kills.total() == account.ranks.total() == 3
    assert account.identical == account.runs


def test_the_table_tells_who_was_killed_and_when() -> None:
    account = Account("fsdp", runs=2, identical=1, saving=2)
    account.kills.update(start=1, save=2)
    account.ranks.update({0: 1, 1: 2})
    assert shown([account]).splitlines()[-1].split() == ["fsdp", "2", "3", "1", "2", "2", "1", "1/2"]
