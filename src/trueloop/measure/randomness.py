"""The random states of a process (Python, NumPy, torch, CUDA, MPS): seed, capture, restore, fence.

The functions are bound when this file is imported: a watched run replaces some of them later.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import numpy as np
import torch

__all__ = ["GlobalRandomStates", "fence", "restore_states", "seed_all", "take_states"]

_SEED_PYTHON: Final = random.seed
_SEED_NUMPY: Final = np.random.seed
_SEED_TORCH: Final = torch.manual_seed
_SET_TORCH: Final = torch.set_rng_state


def seed_all(seed: int) -> None:
    _SEED_PYTHON(seed)
    _SEED_NUMPY(seed % 2**32)
    _SEED_TORCH(seed)


@final
class GlobalRandomStates:
    """All global random states at the moment this is made. A device that nobody has used is not initialized for it."""

    def __init__(self, *, devices: bool = True) -> None:
        """`devices=False` in a forked copy of a process, where no device may be used."""
        # In each library's own form: this may run around every batch, and converting costs more than the batch.
        self.python, self.torch = random.getstate(), torch.get_rng_state()
        self.numpy: Any = np.random.get_state()
        in_use = devices and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self.cuda = torch.cuda.get_rng_state_all() if in_use else []
        self.mps = torch.mps.get_rng_state() if devices and torch.backends.mps.is_available() else None

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        _SET_TORCH(self.torch)
        for device, state in enumerate(self.cuda[: torch.cuda.device_count()] if torch.cuda.is_available() else ()):
            torch.cuda.set_rng_state(state, device)
        if self.mps is not None and torch.backends.mps.is_available():
            torch.mps.set_rng_state(self.mps)

    def seed(self, seed: int) -> None:
        """Only the generators captured here: `torch.manual_seed` would also seed a device that is not in use yet."""
        _SEED_PYTHON(seed)
        _SEED_NUMPY(seed % 2**32)
        for generator in (torch.default_generator, *(torch.cuda.default_generators if self.cuda else ())):
            generator.manual_seed(seed)
        if self.mps is not None:
            torch.mps.manual_seed(seed)

    @contextmanager
    def replay(self, seed: int | None = None) -> Iterator[None]:
        """Draw as at the moment of capture (or from a seed); afterwards the states are those of that moment again."""
        self.restore()
        try:
            if seed is not None:
                self.seed(seed)
            yield
        finally:
            self.restore()


def take_states() -> dict[str, Any]:
    """All states as plain values and tensors: a checkpoint must load without unpickling classes."""
    states = GlobalRandomStates()
    version, words, gauss = states.python
    kind, keys, position, has_gauss, cached = states.numpy
    keys = torch.from_numpy(np.asarray(keys).astype(np.int64))
    plain: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [str(kind), keys, int(position), int(has_gauss), float(cached)],
        "torch": states.torch,
    }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        plain["cuda"] = states.cuda
    return plain if states.mps is None else plain | {"mps": states.mps}


def restore_states(plain: dict[str, Any]) -> None:
    """What `take_states` returned, here or on another machine."""
    states = GlobalRandomStates()
    version, words, gauss = plain["python"]
    kind, keys, position, has_gauss, cached = plain["numpy"]
    states.python = (version, tuple(words), gauss)
    states.numpy = (kind, keys.numpy().astype(np.uint32), position, has_gauss, cached)
    states.torch, states.cuda, states.mps = plain["torch"], plain.get("cuda", []), plain.get("mps")
    states.restore()


@contextmanager
def fence(seed: int | None = None) -> Iterator[None]:
    """Draws inside do not change the draws after it: validation changes nothing in training."""
    states = GlobalRandomStates()
    if seed is not None:
        seed_all(seed)
    try:
        yield
    finally:
        states.restore()
