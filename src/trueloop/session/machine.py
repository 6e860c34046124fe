"""The machine and the versions that a run was trained with, for run.json."""

import os
import platform
from typing import Any

import torch

__all__ = ["machine"]


def machine() -> dict[str, Any]:
    from trueloop import __version__

    return {
        "trueloop": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpus": os.cpu_count(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
