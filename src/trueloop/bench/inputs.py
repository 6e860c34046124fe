"""Random inputs with the dtypes, shapes and ranges of the artifact; the same for every form."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trueloop.results.artifact import Port

__all__ = ["LENGTH", "inputs_of"]

LENGTH: Final = 64  # Of a sequence without a known limit
SEED: Final = 0


def inputs_of(ports: Sequence[Port], preprocessing: Mapping[str, Any], batch: int) -> list[npt.NDArray[Any]]:
    """One batch. Raises ValueError if a port does not accept this batch size."""
    draws = np.random.default_rng(SEED)
    made = []
    for port in ports:
        free = [port.limit(at) or LENGTH if size is None else size for at, size in enumerate(port.shape)]
        shape = [batch, *free[1:]]
        refusal = port.refusal(shape)
        if refusal:
            raise ValueError(refusal)
        made.append(_random(draws, np.dtype(port.dtype), shape, preprocessing))
    return made


def _random(
    draws: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int], preprocessing: Mapping[str, Any]
) -> npt.NDArray[Any]:
    if dtype.kind == "f":
        return draws.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return draws.integers(0, 2, shape).astype(dtype)
    low, high = preprocessing.get("range") or (0, max(1, int(preprocessing.get("tokens") or 2) - 1))
    return draws.integers(int(low), int(high) + 1, shape).astype(dtype)
