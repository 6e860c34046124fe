"""Random states: captured and restored for Python, NumPy, torch and every device in use."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from trueloop.measure.randomness import GlobalRandomStates, fence, restore_states, seed_all, take_states
from trueloop.taps.replay_copy import ReplayCopy


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_draws_inside_a_fence_change_nothing_after_it() -> None:
    seed_all(3)
    expected = draw()
    seed_all(3)
    with fence(7):
        inside = draw()
    assert draw() == expected
    with fence(7):
        assert draw() == inside


def test_a_fence_restores_the_states_after_an_error() -> None:
    seed_all(3)
    expected = draw()
    seed_all(3)
    with pytest.raises(ZeroDivisionError), fence():
        draw()[0] / 0
    assert draw() == expected


def test_states_are_plain_values_and_come_back() -> None:
    states = take_states()
    expected = draw()
    draw()
    restore_states(states)
    assert draw() == expected
    assert set(states) >= {"python", "numpy", "torch"}
    assert isinstance(states["python"], list)
    assert isinstance(states["numpy"][1], torch.Tensor)


def test_a_replay_draws_as_at_the_moment_of_capture() -> None:
    states = GlobalRandomStates()
    expected = draw()
    with states.replay():
        assert draw() == expected
    with states.replay(5):
        seeded = draw()
    with states.replay(5):
        assert draw() == seeded != expected
    assert draw() == expected, "the states of the moment of capture are back"


def test_mps_is_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.Generator().manual_seed(1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", device.get_state)
    monkeypatch.setattr(torch.mps, "set_rng_state", device.set_state)
    expected = torch.rand((), generator=device.clone_state())
    with fence():
        torch.rand((), generator=device)
    states = take_states()
    torch.rand((), generator=device)
    restore_states(states)
    replay = ReplayCopy(torch.nn.Linear(2, 2))
    torch.rand((), generator=device)
    replay.run(((torch.zeros(1, 2),), {}))
    assert torch.rand((), generator=device) == expected


def test_a_forked_copy_leaves_devices_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: pytest.fail("a device was read"))
    assert GlobalRandomStates(devices=False).mps is None
