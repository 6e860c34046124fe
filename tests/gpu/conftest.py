"""A process whose first CUDA call is a product of matrices gets a warning from torch about the missing context: one is
made before the first test."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _cuda_context() -> None:
    if torch.cuda.is_available():
        torch.ones(1, device="cuda").add_(1)
        torch.cuda.synchronize()
