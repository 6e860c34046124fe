"""The most that a machine does: measured once, kept, and measured again when a run has done more."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from trueloop.profile import ceilings
from trueloop.profile.ceilings import ceilings_of
from trueloop.results.profile import Ceilings

CPU = torch.device("cpu")


def low() -> Ceilings:
    return Ceilings({"float32": 1.0}, bandwidth=2.0, launch=1.0, flops_all_cores=1.0, cold=0.5)


def high() -> Ceilings:
    return Ceilings({"float32": 10.0, "bfloat16": 3.0}, bandwidth=1.0, launch=0.1, flops_all_cores=20.0, cold=0.7)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "trueloop" / "ceilings.json"


def test_what_was_measured_is_kept_and_not_measured_twice(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "_cpu", low)
    assert ceilings_of(CPU) == low()
    monkeypatch.setattr(ceilings, "_cpu", high)
    assert ceilings_of(CPU) == low()


def test_measured_again_the_better_of_each_number_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "_cpu", low)
    ceilings_of(CPU)
    monkeypatch.setattr(ceilings, "_cpu", high)
    again = ceilings_of(CPU, again=True)
    assert again == Ceilings(
        {"float32": 10.0, "bfloat16": 3.0}, bandwidth=2.0, launch=0.1, flops_all_cores=20.0, cold=0.5
    )
    assert list(json.loads(cache.read_text()).values()) == [asdict(again)]
    assert ceilings_of(CPU) == again
