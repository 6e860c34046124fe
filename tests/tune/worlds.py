"""What tests of the search share: a machine of plain facts, a recipe that is never built, and one that trains in a
blink."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.tune import Agreement, Pace, Place, Trial, Tuning
from trueloop.tune.machine_facts import MachineFacts

PLACE = Place("cpu", "Test processor", 4, 8 * 10**9, "2.13.0", "0.1.0")
CPU = MachineFacts(
    place=PLACE,
    device="cpu",
    cores=4,
    threads=4,
    native_bf16=False,
    compiler="",
    convolutions=False,
    blocks=0,
    can_fuse=True,
    data_bytes=10**6,
    data_fit=True,
    samples=4096,
    shapes="abc",
)
CUDA = replace(
    CPU, device="cuda", native_bf16=True, place=replace(PLACE, device="cuda", name="Test GPU", memory=80 * 10**9)
)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))


def read(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (320,), generator=draws)
    inputs = torch.randn(4, 16, generator=draws)[labels] + 0.5 * torch.randn(320, 16, generator=draws)
    return Splits(Tensors(inputs[:256], labels[:256]), Tensors(inputs[256:], labels[256:]))


def recipe(**changes: Any) -> Recipe:
    made = Recipe(name="blink", model=network, data=read, epochs=4, batch=32, lr=1e-2, device="cpu")
    return replace(made, **changes)


FILE = '''"""A recipe in a file: what a trial in another process finds by its path."""
import torch
from torch import nn
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import Recipe


def network():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))


def read(request):
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (320,), generator=draws)
    inputs = torch.randn(4, 16, generator=draws)[labels] + 0.5 * torch.randn(320, 16, generator=draws)
    return Splits(Tensors(inputs[:256], labels[:256]), Tensors(inputs[256:], labels[256:]))


recipe = Recipe(name="small", model=network, data=read, epochs=4, batch=32, lr=1e-2, device="cpu")
'''

SAME = Agreement(50, 0.001, 0.02, 0.999, 0.9, "0.weight", 1.0, "accuracy", (0.9, 0.91), (0.9, 0.92), 0.01)


def pace(rate: float = 1000.0, peak: int = 10**8) -> Pace:
    return Pace(rate, 64 / rate, peak, 3.0, 5, 0.01)


def tuning(**changes: Any) -> Tuning:
    """A finished one: a reference, one kept, one refused, one failed, one that gains nothing."""
    refused = replace(
        SAME,
        loss_apart=0.7,
        failures=("its loss lies 70.0% from the reference's within 50 steps, and 2.0% is rounding",),
    )
    trials = (
        Trial(0, "reference", {}, {}, "reference", pace=pace(), gain=1.0, speed=1.0),
        Trial(
            1,
            "threads",
            {"threads": 1},
            {"threads": 1},
            "kept",
            pace=pace(2000.0, 9 * 10**7),
            gain=2.0,
            speed=2.0,
            agreement=SAME,
        ),
        Trial(
            2,
            "precision",
            {"threads": 1, "precision": "bf16"},
            {"precision": "bf16"},
            "refused",
            refused.failures[0],
            pace(4000.0),
            2.0,
            4.0,
            refused,
        ),
        Trial(
            3,
            "compile",
            {"threads": 1, "compile": "default"},
            {"compile": "default"},
            "failed",
            "out of memory at 3.1 GB",
        ),
        Trial(
            4,
            "channels last",
            {"threads": 1, "channels_last": True},
            {"channels_last": True},
            "no gain",
            "",
            pace(1500.0),
            0.75,
            1.5,
        ),
    )
    made = Tuning("digits", PLACE, "throughput", trials, 1, budget=60.0, seconds=42.0, when=1_700_000_000.0)
    return replace(made, **changes)
