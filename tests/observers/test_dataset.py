"""The rehearsal of a dataset: the run that follows is the run without it, and what cannot be rehearsed is said."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Checked, in_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only")

RULES = ("DAT104", "DAT107")

HEAD = """\
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
"""

LOOP = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = DataLoader(Data(), batch_size=4, shuffle=True{options})
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
print(random.random(), np.random.rand(), torch.rand(1).item())
"""

DATASETS = {
    "state of every kind": """
class Data(Dataset):
    def __init__(self):
        self.rng, self.own, self.python = np.random.default_rng(0), torch.Generator().manual_seed(1), random.Random(2)
        self.calls, self.cache, self.x = 0, {}, torch.rand(16, 4)
    def __len__(self):
        return 16
    def __getitem__(self, index):
        self.calls += 1
        print("drawn", index, self.calls)
        self.x[index] += 0.01
        x = self.cache.setdefault(index, self.x[index].clone()) + float(self.rng.normal()) + torch.rand(4, generator=self.own)
        return x * self.python.random() + random.random() + float(np.random.rand()) + torch.rand(4), x.sum()
""",  # noqa: E501
    "a file that is read on and on": """
with open("rows.bin", "wb") as file:
    file.write(bytes(range(256)) * 64)
class Data(Dataset):
    def __init__(self):
        self.file = open("rows.bin", "rb")
        self.file.read(7)
    def __len__(self):
        return 16
    def __getitem__(self, index):
        x = torch.frombuffer(bytearray(self.file.read(4)), dtype=torch.uint8).float() / 255
        self.file.seek(3, 1)
        return x, x.sum()
""",
    "shared memory that is written": """
class Data(Dataset):
    def __init__(self):
        self.x = torch.rand(16, 4).share_memory_()
    def __len__(self):
        return 16
    def __getitem__(self, index):
        self.x[index] *= 0.9
        return self.x[index].clone(), self.x[index].sum()
""",
    "a cache on disk": """
import os
class Data(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        if not os.path.exists(f"{index}.npy"):
            np.save(f"{index}.npy", np.full(4, index + np.random.rand()))
        x = torch.from_numpy(np.load(f"{index}.npy")).float()
        return x, x.sum()
""",
    "samples that take their time": """
import time
class Data(Dataset):
    def __init__(self):
        self.x = torch.rand(2, 4)
    def __len__(self):
        return 2
    def __getitem__(self, index):
        time.sleep(0.6)
        self.x[index] += 0.1
        return self.x[index].clone(), self.x[index].sum()
""",
}


def _printed_alone(folder: Path, text: str) -> str:
    """What the script prints without anybody watching."""
    (folder / "alone.py").write_text(text, encoding="utf-8")

    def work() -> str:
        os.chdir(folder)
        with (folder / "printed_alone.txt").open("w", encoding="utf-8") as printed:
            sys.stdout = printed
            runpy.run_path("alone.py", run_name="__main__")
        return (folder / "printed_alone.txt").read_text(encoding="utf-8")

    printed: str = in_child(work)
    return printed


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("name", [name for name in DATASETS if "time" not in name])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_run_is_the_run_without_it(name: str, workers: int, check: Callable[..., Checked], tmp_path: Path) -> None:
    text = HEAD + DATASETS[name] + LOOP.format(options=f", num_workers={workers}")
    if workers:
        text = text.replace('print("drawn", index, self.calls)', "pass")  # what a worker prints comes when it likes
    (tmp_path / "alone").mkdir()
    alone = _printed_alone(tmp_path / "alone", text)
    result = check(text, select=RULES)
    assert not result.verdict.failures
    assert result.output == alone
    assert "0x" in alone


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shared memory that is written", "outside of the process"),
        ("a cache on disk", "outside of the process"),
        ("samples that take their time", "a sample takes"),
        ("a file that is read on and on", ""),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_cannot_be_rehearsed_is_said(name: str, why: str, check: Callable[..., Checked]) -> None:
    result = check(HEAD + DATASETS[name] + LOOP.format(options=""), select=RULES)
    reasons = " ".join(unjudged.because for unjudged in result.verdict.not_applicable)
    assert not result.findings
    assert why in reasons
    assert bool(why) == bool(reasons)


def test_a_dataset_is_rehearsed_once(check: Callable[..., Checked]) -> None:
    text = HEAD + DATASETS["shared memory that is written"].replace(".share_memory_()", "") + LOOP.format(options="")
    [finding] = check(text, select=RULES).findings
    assert finding.name == "dataset-modified-in-place"
    assert finding.count == 1


@pytest.mark.parametrize(
    "dataset",
    [
        "range(300)",
        "{i: torch.ones(4) * i for i in range(300)}",
        "Slots()",
        "NoLength()",
        "Incomparable()",
    ],
)
def test_any_object_with_items_is_a_dataset(dataset: str, check: Callable[..., Checked]) -> None:
    """No weak references, no length, no comparison: no observer fails."""
    text = f"""{HEAD}
class Slots:
    __slots__ = ("length",)
    def __len__(self):
        return 300
    def __getitem__(self, index):
        return torch.ones(4) * index
class NoLength(Slots):
    def __len__(self):
        raise ValueError("not known")
class Incomparable(Slots):
    __hash__ = None
    def __eq__(self, other):
        raise RuntimeError("not comparable")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for rows in DataLoader({dataset}, batch_size=30, sampler=range(300)):
        rows = (rows[:, None] if rows.ndim == 1 else rows).expand(-1, 4).float() / 300
        loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert not check(text).verdict.failures
