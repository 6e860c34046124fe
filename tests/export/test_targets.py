"""Every target, end to end: written, run in its own runtime in another process, read back, run here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.export.made import Shades, run_here, subject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadArtifact, CannotExport, MissingExtra, Misuse
from trueloop.export.beyond_data import MANY
from trueloop.export.catalogue import TARGETS, find_exporter, runner_of
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Exporter, FakeRunner
from trueloop.export.folder import CARD
from trueloop.results.artifact import answer_of

QUICK = ["pt2", "onnx", "torchscript"]
EXECUTORCH = pytest.param(
    "executorch",
    marks=[
        pytest.mark.long,
        pytest.mark.skipif(
            importlib.util.find_spec("executorch") is None, reason="executorch is not installed: `make ship-executorch`"
        ),
    ],
)
SLOW = [pytest.param("aoti", marks=pytest.mark.long), EXECUTORCH]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process of their own, for tests that are not about it."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


class Words(nn.Module):
    """Rows of tokens of any length up to nine."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(20, 6)
        self.places = nn.Embedding(9, 6)
        self.scores = nn.Linear(6, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.vectors(tokens) + self.places.weight[: tokens.shape[1]]
        scores: Tensor = self.scores(stream.cumsum(1))
        return scores


def _words() -> Splits:
    tokens = torch.randint(0, 20, (45, 9), generator=torch.Generator().manual_seed(0))
    return Splits(Tensors(tokens, tokens), facts=Facts(inputs=(9,), vocabulary=20))


@pytest.mark.parametrize("target", [*QUICK, *SLOW])
def test_an_exported_model_answers_as_the_model_does(tmp_path: Path, target: str) -> None:
    made_of = subject()
    made = export_model(made_of, find_exporter(target), tmp_path / "out", licence={"model": "MIT"})
    verified = made.verification
    assert verified is not None
    assert (verified.samples, verified.disagreements) == (50, 0)
    assert verified.batches[:4] == (1, 2, 7, 32)
    assert verified.metrics["accuracy"][0] == verified.metrics["accuracy"][1]
    assert made.inputs[0].shape == (None, 1, 3, 4)
    assert made.outputs[0].shape == (None, 3)
    assert made.classes == ("dark", "grey", "light")
    assert made.preprocessing["inside"]
    raw = made_of.fetch(torch.arange(9)).inputs
    (answered,) = runner_of(made).run([raw.numpy()])
    assert np.abs(answered - made_of.program().answer([raw])[0].numpy()).max() < 1e-5
    assert answer_of(made, answered[0].tolist())["class"] in made.classes
    card = (tmp_path / "out" / CARD).read_text(encoding="utf-8")
    assert made.files[made.file.name]["sha256"] in card
    assert "- model: MIT" in card
    assert "- data: (to be filled)" in card


@pytest.mark.parametrize("target", [*QUICK, *SLOW])
def test_sequences_may_have_any_length_that_the_model_takes(tmp_path: Path, target: str) -> None:
    made_of = subject(Words, _words(), task="language")
    made = export_model(made_of, find_exporter(target), tmp_path / "out")
    assert made.verification is not None
    assert made.verification.lengths == (1, 4, 9)
    assert made.inputs[0].shape == (None, None)
    assert made.inputs[0].most[1] == 9
    assert made.outputs[0].shape == (None, None, 20)
    tokens = torch.randint(0, 20, (2, 5))
    (answered,) = runner_of(made).run([tokens.numpy()])
    assert np.abs(answered - made_of.model(tokens).numpy()).max() < 1e-5


def test_weights_alone_need_the_recipe_they_were_made_by(tmp_path: Path) -> None:
    """Of a subject that names no recipe: see tests/cli/test_export.py for one that does."""
    with pytest.raises(CannotExport, match="does not name the recipe"):
        export_model(subject(), find_exporter("safetensors"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_fewer_samples_than_the_sizes_of_batches_are_all_tried(tmp_path: Path) -> None:
    made = export_model(subject(), find_exporter("torchscript"), tmp_path / "out", samples=5)
    assert made.verification is not None
    assert (made.verification.samples, made.verification.batches) == (5, (1, 2, MANY, 7))


def test_a_runtime_that_is_not_installed_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = find_exporter("onnx")
    monkeypatch.setattr(type(exporter), "needs", ("no-such-package",))
    with pytest.raises(MissingExtra, match=r"needs no-such-package.*pip install 'trueloop\[onnx\]'"):
        export_model(subject(), exporter, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", list(TARGETS))
def test_every_target_is_a_file_of_its_own(target: str) -> None:
    exporter = find_exporter(target)
    assert isinstance(exporter, Exporter)
    assert exporter.target == target
    assert exporter.file.startswith("model.")


def test_a_misspelt_target_is_refused_with_the_nearest() -> None:
    with pytest.raises(Misuse, match=r"Did you mean onnx\? Nothing was run\. Targets: pt2, aoti"):
        find_exporter("onxx")


def test_the_fake_answers_by_a_function_and_counts() -> None:
    fake = FakeRunner(lambda images: [images * 2])
    assert fake.run([np.ones(3)])[0].tolist() == [2, 2, 2]
    assert fake.batches == [3]


@pytest.mark.usefixtures("here")
def test_a_damaged_model_is_not_opened(tmp_path: Path) -> None:
    made = export_model(subject(Shades), find_exporter("torchscript"), tmp_path / "out", samples=3)
    made.file.write_bytes(made.file.read_bytes()[:-1])
    with pytest.raises(BadArtifact, match="is damaged"):
        runner_of(made)


def test_what_runs_an_onnx_model_needs_no_torch() -> None:
    code = (
        "import sys; from trueloop.export import catalogue, subprocess_runner, folder, onnx; assert 'torch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
