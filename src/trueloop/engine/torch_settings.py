"""Process-wide settings of torch: set for a run, and restored after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from trueloop.engine.compile_model import compile_errors
from trueloop.engine.precision import Precision
from trueloop.recipe.recipe import Recipe

__all__ = ["pick_device", "torch_settings"]

WORKSPACE: Final = "CUBLAS_WORKSPACE_CONFIG"  # Read by cuBLAS when it starts


@contextmanager
def torch_settings(precision: Precision, recipe: Recipe) -> Iterator[None]:
    """oneDNN too: torch turns it off when a bf16 product fails, which changes the last bits of later fp32 runs."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, workspace = torch.backends.cudnn.benchmark, os.environ.get(WORKSPACE)
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
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
        torch.backends.mkldnn.enabled = onednn
        if recipe.deterministic and workspace is None:
            os.environ.pop(WORKSPACE, None)


def pick_device(word: str) -> torch.device:
    """auto: the best available. `machine_problems` refuses a device that does not exist."""
    if word not in ("auto", "cuda"):
        return torch.device(word)
    if word == "cuda" or torch.cuda.is_available():
        # With its index: a device without one is not equal to the device of its tensors.
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
