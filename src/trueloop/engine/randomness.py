"""All random states of a process: seeded, taken, put back, fenced off."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["fence", "restore_states", "seed_all", "take_states"]


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def take_states() -> dict[str, Any]:
    """As plain values and tensors: a checkpoint must load without unpickling classes."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [
            str(kind),
            torch.from_numpy(np.asarray(keys).astype(np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        **_torch_states(),
    }


def _torch_states() -> dict[str, Any]:
    """Of the host and of each device that is in use here; a device that nobody has touched is not woken up for it."""
    states: dict[str, Any] = {"torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_states(states: dict[str, Any]) -> None:
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    _restore_torch(states)


def _restore_torch(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, device)
    if "mps" in states and torch.backends.mps.is_available():
        torch.mps.set_rng_state(states["mps"])


@contextmanager
def fence(seed: int | None = None) -> Iterator[None]:
    """What is drawn inside does not move what is drawn after: validation changes nothing in training."""
    # The states as each library gives them: this may stand around every batch, where turning them into plain values
    # would cost more
    # than the batch.
    python, numpy, others = random.getstate(), np.random.get_state(), _torch_states()
    if seed is not None:
        seed_all(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        _restore_torch(others)
