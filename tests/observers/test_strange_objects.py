"""Objects and files that nobody expects beside a training: no observer fails, and no code of the user's is called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.utils.data import Dataset

from trueloop.event import StepProgram
from trueloop.measure.stored_columns import stored_columns

START = """
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
"""

ANOMALIES = """
class Closed(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("read by somebody")

    def __iter__(self):
        return iter(["labels"])

    def __len__(self):
        return 1


normal = torch.randn(600, 8)
np.savez("z.npz", labels=np.array(["a"] * 300, dtype=object), status=np.zeros(300, ">i4"), fault=np.zeros(300, "S3"))
stored, trusted, closed = np.load("z.npz"), np.load("z.npz", allow_pickle=True), Closed()
y, labels = np.arange(300).astype(">i2") % 2, np.array([0.5 + 1j] * 300)
model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(20):
    rows = normal[torch.randint(600, (64,))]
    loss = nn.functional.mse_loss(model(rows), rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    print("anomaly", (model(normal[:300]) - normal[:300]).pow(2).mean().item())
"""

FILES = """
import json

for name in ("train", "valid"):
    pictures = (np.random.default_rng(0).random((60, 24, 24)) * 255).astype("uint8")
    np.savez(name + ".npz", pictures=pictures, box=np.full((60, 4), 1.7e308))
    with open(name + ".json", "w") as file:
        json.dump({"a": {"b": [{"box": [float("inf"), 2, 3, 4]}] * 60, "n": float("nan")}}, file)
    json.load(open(name + ".json"))
x, y = torch.rand(60, 6), torch.rand(60, 4)
np.load("train.npz"), np.load("valid.npz")
model = nn.Linear(6, 4)
torch.save({"model": {3: torch.randn(4, 4)}, "ema": {"w": torch.randn(2, 2).to_sparse()}, "step": 10**30}, "c.pt")
torch.save({"model": {"weight": torch.empty(0, 4), "b": torch.randn(9, 9).bfloat16()}, "ema": {"w": x[:0]}}, "d.pt")
torch.load("d.pt")
for wrong in (torch.load("c.pt")["model"], "c.pt", None, model):
    try:
        model.load_state_dict(wrong, strict=False)
    except (AttributeError, TypeError):
        pass
    else:
        raise SystemExit("torch takes it now")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Lazy:
    """An object whose attributes are computed."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("read by somebody")

    def to_numpy(self) -> None:
        raise RuntimeError("called by somebody")


class Rows(Dataset[int]):
    def __init__(self) -> None:
        self.lazy, self.held = Lazy(), {"a": Lazy()}
        self.huge, self.complex = [10**400] * 200, [np.complex64(1j)] * 200
        self.y = torch.arange(200)

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("read by somebody")


def test_labels_that_are_objects_foreign_numbers_or_mappings(told: Callable[..., list[StepProgram]]) -> None:
    assert told(ANOMALIES, StepProgram)


def test_files_with_infinite_boxes_and_states_that_torch_refuses(told: Callable[..., list[StepProgram]]) -> None:
    assert told(FILES, StepProgram)


def test_columns_of_a_dataset_whose_attributes_raise_and_hold_no_numbers() -> None:
    (column,) = stored_columns(Rows(), 200)
    assert torch.equal(column, torch.arange(200).double())
