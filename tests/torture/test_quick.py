"""A few kills in each scenario, as part of the ordinary tests; `make torture` does hundreds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.torture.bits import differences
from tests.torture.recipes import SCENARIOS, Scenario
from tests.torture.run import Account, shown, torment
from tests.torture.victim import warm_up


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_killed_run_ends_with_the_same_bits(scenario: Scenario, tmp_path: Path) -> None:
    warm_up()
    short = replace(scenario, settings=scenario.settings | ({"epochs": 4} if scenario.train is None else {}))
    account = torment(short, 2, os.getpid(), tmp_path)
    assert not account.troubles, f"seed {os.getpid()}: {account.troubles}"
    assert account.kills.total() == 2
    assert account.identical == account.runs


def test_a_difference_of_one_bit_is_seen() -> None:
    one = {"a": [torch.tensor([1.0, 0.0]), 0.1]}
    assert not list(differences(one, {"a": [torch.tensor([1.0, 0.0]), 0.1]}))
    assert list(differences(one, {"a": [torch.tensor([1.0, -0.0]), 0.1]})) == ["/a[0]: tensors differ"]
    assert list(differences(one, {"a": [torch.tensor([1.0, 0.0]), 0.1 + 1e-17 * 2]})) == [
        "/a[1]: 0.1 and 0.10000000000000002"
    ]
    assert list(differences(one, {"b": []})) == [": ['a', 'b'] is in one only"]
    assert list(differences({"a": 1}, {"a": 1.0})) == ["/a: int and float"]
    assert list(differences([1], [1, 2])) == [": 1 and 2 entries"]


def test_the_table_adds_up() -> None:
    accounts = [
        Account("first", runs=2, resumed=3, identical=2, saving=1),
        Account("second", runs=1, resumed=1, identical=0),
    ]
    accounts[0].kills.update(save=2, evaluation=1)
    last = shown(accounts).splitlines()[-1].split()
    assert last == ["all", "3", "3", "1", "1", "0", "4", "2/3"]
