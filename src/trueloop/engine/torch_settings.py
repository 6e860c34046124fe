"""Settings of torch that belong to the whole process: set for a run, and put back after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from trueloop.engine.compile_model import compile_errors
from trueloop.engine.precision import Precision
from trueloop.recipe.recipe import Recipe

__all__ = ["pick_device", "torch_settings"]

WORKSPACE: Final = "CUBLAS_WORKSPACE_CONFIG"
"""What cuBLAS reads when it starts."""


@contextmanager
def torch_settings(precision: Precision, recipe: Recipe) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(WORKSPACE)
    threads = torch.get_num_threads()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    if recipe.deterministic:
        os.environ.setdefault(WORKSPACE, ":4096:8")  # cuBLAS is deterministic only with a workspace of fixed size
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    try:
        with precision.matmul_precision(), compile_errors(recipe):
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.backends.cudnn.benchmark = benchmark
        torch.set_num_threads(threads)
        if recipe.deterministic and workspace is None:
            os.environ.pop(WORKSPACE, None)


def pick_device(word: str) -> torch.device:
    """auto: the best that is there. Asked for by name, it must be there: `machine_mistakes` has asked."""
    if word not in ("auto", "cuda"):
        return torch.device(word)
    if word == "cuda" or torch.cuda.is_available():
        # With its number: a device without one is not equal to the device of the tensors that are on it.
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
