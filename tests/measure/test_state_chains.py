"""Transitions that alias one array, and environments that seldom change their state."""

import random

from trueloop.measure.state_chains import StateChains

Row = tuple[float, float, float]


def aliased(rng: random.Random, episodes: int, length: int) -> list[Row]:
    """The first state of an episode is a copy; all others are the array that holds its last state."""
    rows = []
    for _ in range(episodes):
        last = rng.random()
        rows += [(rng.random() if t == 0 else last, last, rng.random()) for t in range(length)]
    return rows


def sticky(rng: random.Random, count: int, change: float, noise: bool) -> list[Row]:
    state, rows = rng.random(), []
    for _ in range(count):
        after = rng.random() if rng.random() < change else state
        rows.append((state, after, rng.random() if noise else round(state, 1)))
        state = after
    return rows


def said(rng: random.Random, memory: list[Row], steps: int = 12, batch: int = 64) -> bool:
    chains, found = StateChains(), False
    for _ in range(steps):
        states, following, rewards = zip(*rng.sample(memory, batch), strict=True)
        found |= chains.end_where_they_began(states, following, rewards)
    return found


def test_an_array_that_the_environment_changes_is_seen() -> None:
    rng = random.Random(0)
    assert all(said(rng, aliased(rng, 20, 40)) for _ in range(20))


def test_states_that_seldom_change_are_entered_before_they_are_left() -> None:
    rng = random.Random(1)
    for change in (0.02, 0.05, 0.1, 0.15, 0.3):
        for count in (300, 1000, 5000):
            assert not any(said(rng, sticky(rng, count, change, noise)) for noise in (True, False) for _ in range(10))


def test_one_step_and_then_an_absorbing_state_with_one_reward() -> None:
    rng = random.Random(2)
    memory = [row for _ in range(100) for row in [(rng.random(), -1.0, rng.random()), *[(-1.0, -1.0, 0.0)] * 9]]
    assert not said(rng, memory)
