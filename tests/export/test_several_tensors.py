"""Models that take a dict and answer several tensors leave with the names of all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.export.made import run_here, subject
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.export_model import export_model
from trueloop.export.trained_model import TrainedModel


class Pairs(Source):
    """Points and marks of forty samples."""

    def __init__(self) -> None:
        draws = torch.Generator().manual_seed(0)
        self.points = torch.randn(40, 3, generator=draws)
        self.marks = torch.randint(0, 5, (40,), generator=draws)

    def __len__(self) -> int:
        return 40

    def fetch(self, numbers: Tensor) -> Batch:
        return Batch({"points": self.points[numbers], "marks": self.marks[numbers]}, self.marks[numbers] % 2)


class Both(nn.Module):
    """Scores, and where they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = nn.Linear(3, 4)
        self.vectors = nn.Embedding(5, 4)
        self.scores = nn.Linear(4, 2)

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        hidden = self.lines(inputs["points"]) + self.vectors(inputs["marks"])
        return self.scores(hidden), hidden


def _loss(output: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output[0], targets, reduction="none")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> TrainedModel:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    return subject(Both, Splits(Pairs(), facts=Facts(classes=("even", "odd"))), loss=_loss)


@pytest.mark.parametrize("target", ["pt2", "onnx", "torchscript"])
def test_every_tensor_has_its_name_and_its_answer(both: TrainedModel, tmp_path: Path, target: str) -> None:
    made = export_model(both, find_exporter(target), tmp_path / "out")
    assert [(port.name, port.dtype, port.shape) for port in made.inputs] == [
        ("points", "float32", (None, 3)),
        ("marks", "int64", (None,)),
    ]
    assert [(port.name, port.shape) for port in made.outputs] == [("output_0", (None, 2)), ("output_1", (None, 4))]
    assert made.preprocessing["kind"] == "tensors"
    inputs = both.fetch(torch.arange(5)).inputs
    answered = runner_of(made).run([inputs["points"].numpy(), inputs["marks"].numpy()])
    for ours, theirs in zip(both.model(inputs), answered, strict=True):
        assert np.abs(ours.numpy() - theirs).max() < 1e-5


def test_their_metrics_are_those_of_the_users_own_loss(both: TrainedModel, tmp_path: Path) -> None:
    made = export_model(both, find_exporter("torchscript"), tmp_path / "out")
    assert made.verification is not None
    ours, theirs = made.verification.metrics["loss"]
    inputs = both.fetch(torch.arange(40))
    assert ours == pytest.approx(float(_loss(both.model(inputs.inputs), inputs.targets).mean()), rel=1e-5)
    assert ours == pytest.approx(theirs)
