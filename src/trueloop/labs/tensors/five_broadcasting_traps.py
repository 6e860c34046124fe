"""five-broadcasting-traps: Which shapes fit by accident, and who notices?

Broadcasting aligns shapes at their ends and stretches sizes of 1. So [16, 1] and [16] fit: as [16, 16]. Nothing
crashes, the loss falls a little, and the model has learned something else. Five traps that real trainings fall into,
each run under `trueloop check`, which names the rule that it breaks.

It takes longer than other labs: the five trainings run in a process that is watched.
"""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def column_minus_row(output: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return ((output - y) ** 2).mean()  # [16, 1] - [16]


def weights_in_a_column(output: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return (F.mse_loss(output[:, 0], y, reduction="none") * weight).mean()  # [16] * [16, 1]


def accuracy_of_a_column(output: Tensor, y: Tensor) -> float:
    return ((output > 0) == (y > 0)).sum().item() / len(y)  # [16, 1] == [16]


class MeanWithoutKeepdim(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x - x.mean(1))[:, 0]  # [16, 16] - [16]: subtracts another sample's mean


class PositionsOverBatch(nn.Module):
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(64, 1, 8))
        self.inner, self.last = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.table[: x.size(0)]  # [16, 12, 8] + [16, 1, 8]: by sample, not by time
        return self.last(torch.relu(self.inner(x)).mean(1))[:, 0]


def trained(model: nn.Module, x: Tensor, y: Tensor, loss_of: Callable[..., Tensor]) -> nn.Module:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        for inputs, targets, weights in DataLoader(TensorDataset(x, y, torch.rand(128, 1)), 16, shuffle=True):
            optimizer.zero_grad()
            loss_of(model(inputs), targets, weights).backward()
            optimizer.step()
    return model


def plain_loss(output: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return F.mse_loss(output.flatten(), y)


MAIN = """
torch.manual_seed(0)
x, series = torch.randn(128, 16), torch.randn(128, 12, 8)
y, label = x @ torch.randn(16), series.mean((1, 2))
trained(nn.Linear(16, 1), x, y, column_minus_row)
trained(nn.Linear(16, 1), x, y, weights_in_a_column)
model = trained(nn.Linear(16, 1), x, y, plain_loss).eval()
with torch.no_grad():
    batches = DataLoader(TensorDataset(x, y), 16)
    print("accuracy", sum(accuracy_of_a_column(model(a), b) for a, b in batches) / len(batches))
trained(MeanWithoutKeepdim(), x, y, plain_loss)
trained(PositionsOverBatch(), series, label, plain_loss)
"""
IMPORTS = """import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from collections.abc import Callable
"""
TRAPS: dict[Any, str] = {
    column_minus_row: "LOS105", weights_in_a_column: "LOS105", accuracy_of_a_column: "LOS105",
    MeanWithoutKeepdim: "MDL108", PositionsOverBatch: "MDL112",
}  # fmt: skip
"""Trap -> the rule that it breaks."""


@dataclass(frozen=True)
class Measured:
    shape: tuple[int, ...]  # of a column minus a row
    accuracy: float
    rules: dict[str, list[str]]  # trap -> codes that `trueloop check` reported on its lines


def measure() -> Measured:
    script = "\n\n".join([IMPORTS, *map(inspect.getsource, (*TRAPS, trained, plain_loss)), MAIN])
    with TemporaryDirectory() as folder:
        file = Path(folder, "traps.py")
        file.write_text(script, encoding="utf-8")
        command = [sys.executable, "-m", "trueloop", "check", "--output", "found.json", "traps.py"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        findings = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))["findings"]
    rules: dict[str, list[str]] = {trap.__name__: [] for trap in TRAPS}
    for trap in TRAPS:
        lines = inspect.getsource(trap).splitlines()
        begin = script.splitlines().index(lines[0]) + 1
        at = [each["code"] for each in findings if begin <= (each["line"] or 0) < begin + len(lines)]
        rules[trap.__name__] = sorted(set(at))
    shape = tuple((torch.zeros(16, 1) - torch.zeros(16)).shape)
    return Measured(shape, float(ran.stdout.split("accuracy")[1].split()[0]), rules)


def answer(page: Page, measured: Measured) -> None:
    rows = [(name, ", ".join(codes) or "nothing") for name, codes in measured.rules.items()]
    page.table("What `trueloop check` reports on the lines of each trap", ("trap", "rule"), rows)
    page.says("A column minus a row is a square: [16, 1] and [16] make [16, 16].", measured.shape == (16, 16))
    page.says(f"An accuracy of {measured.accuracy:.0%} is possible, if it counts pairs.", measured.accuracy > 1)
    for trap, code in TRAPS.items():
        name = trap.__name__
        page.says(f"`{name}` breaks {code}: `trueloop explain {code}`.", code in measured.rules[name])


LAB = Lab(code=(*TRAPS, trained), measure=measure, answer=answer, seconds=60)
