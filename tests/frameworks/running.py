"""How a script runs in the environment of the frameworks: what stands beside it, and what `trueloop check` says of
it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

__all__ = ["PYTHON", "found_in", "run_in", "write"]

ROOT = Path(__file__).parent.parent.parent
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"

BESIDE = """
import hashlib
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0); np.random.seed(0); random.seed(0)
inputs = torch.randn(192, 8)
train_data = TensorDataset(inputs[:128], inputs[:128, :3].argmax(1))
valid_data = TensorDataset(inputs[128:], inputs[128:, :3].argmax(1))
data = train_data

def net():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.Linear(32, 3))

def end(model):
    numbers = torch.cat([p.detach().double().reshape(-1) for p in model.state_dict().values()])
    print("weights", hashlib.sha256(numbers.numpy().tobytes()).hexdigest(), torch.rand(1).item())
"""


def write(folder: Path, script: str) -> str:
    """`train.py` and what it imports; the text of the script as written."""
    (folder / "beside.py").write_text(BESIDE, encoding="utf-8")
    text = "from beside import *\n" + dedent(script)
    (folder / "train.py").write_text(text, encoding="utf-8")
    return text


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return subprocess.run(
        [str(PYTHON), *words], cwd=folder, capture_output=True, text=True, timeout=300, env=environment
    )


def found_in(folder: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """`trueloop check train.py`, and its report."""
    checked = run_in(folder, "-m", "trueloop", "check", "--format", "json", "--output", "found.json", "train.py")
    found: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return checked, found
