"""What cannot be exported, or answers otherwise, is a failure with the line or the layer to look at; nothing is left of
it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import Shades, run_here, subject
from trueloop.errors import CannotExport
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Example, Exporter, Runner
from trueloop.export.onnx import Onnx
from trueloop.export.program import Exportable, LayerOutputs
from trueloop.export.pt2 import Pt2
from trueloop.export.torchscript import Torchscript
from trueloop.results.artifact import Artifact, Port


class Planted(Exporter):
    """Writes the second layer's weights otherwise than they are: the wrong that verification is there for."""

    target = "torchscript"
    file = "model.pt"
    runtime = "torch"
    layer = "second"
    by = 0.01

    def write(self, program: Exportable, given: Example, file: Path) -> tuple[Port, ...]:
        root = program.program if isinstance(program, LayerOutputs) else program
        layer = root.model.get_submodule(self.layer)
        assert isinstance(layer, nn.Linear)
        with torch.no_grad():
            layer.weight[0] += self.by
        return Torchscript().write(program, given, file)

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        return Torchscript().open(artifact)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes of their own: they are tested in test_targets.py."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


@pytest.mark.parametrize("layer", ["first", "second"])
@pytest.mark.usefixtures("here")
def test_a_wrong_export_is_caught_and_its_first_differing_layer_named(tmp_path: Path, layer: str) -> None:
    exporter = Planted()
    exporter.layer = layer
    with pytest.raises(CannotExport) as caught:
        export_model(subject(), exporter, tmp_path / "out")
    said = str(caught.value)
    assert f"The first differing layer is {layer} (Linear, created at {Path(__file__).with_name('made.py')}:" in said
    assert "does not give the model's outputs" in said
    assert "Nothing was exported." in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_a_difference_below_the_tolerance_is_none(tmp_path: Path) -> None:
    made = export_model(subject(), Planted(), tmp_path / "out", tolerance=0.5)
    assert made.verification is not None
    assert 0 < made.verification.max_error < 0.5


@pytest.mark.usefixtures("here")
def test_an_earlier_export_stays_when_a_later_one_fails(tmp_path: Path) -> None:
    place = tmp_path / "out"
    export_model(subject(), Torchscript(), place)
    before = (place / "artifact.json").read_bytes()
    with pytest.raises(CannotExport):
        export_model(subject(), Planted(), place)
    assert (place / "artifact.json").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


class Deciding(nn.Module):
    """Its way depends on its data."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images)
        if images.sum() > 0:  # here
            return scores
        return -scores


class Counting(nn.Module):
    """Takes three samples and no others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images.reshape(3, 1, 3, 4) if images.shape[0] == 3 else images)  # here
        return scores


class Unknown(nn.Module):
    """Uses what ONNX has no word for."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images) + torch.special.i1e(images).sum()  # here
        return scores


def _here(model: type[nn.Module]) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith(f"class {model.__name__}("))
    return next(number for number, line in enumerate(lines[begins:], begins + 1) if line.endswith("# here"))


@pytest.mark.parametrize(
    ("model", "exporter", "advice"),
    [(Deciding, Pt2, "torch.where"), (Counting, Pt2, "x.shape[0]"), (Unknown, Onnx, "ONNX has no such operation")],
)
def test_what_a_target_cannot_take_is_named_with_its_line_and_what_to_write(
    tmp_path: Path, model: type[nn.Module], exporter: type[Exporter], advice: str
) -> None:
    with pytest.raises(CannotExport) as caught:
        export_model(subject(model), exporter(), tmp_path / "out")
    said = str(caught.value)
    assert said.startswith(f"{__file__}:{_here(model)}: ")
    assert advice in said
    assert said.endswith("Nothing was exported.")
    assert list(tmp_path.iterdir()) == []


class Broken(Exporter):
    """Writes a file that its runtime cannot open."""

    target = "torchscript"
    file = "model.pt"
    runtime = "torch"

    def write(self, program: Exportable, given: Example, file: Path) -> tuple[Port, ...]:
        file.write_bytes(b"nothing that a runtime could open")
        return given.ports

    def open(self, artifact: Artifact, device: str = "cpu") -> Runner:
        return Torchscript().open(artifact)


def test_a_file_that_its_runtime_cannot_open_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(CannotExport, match=r"was written, but torch could not run it: .*Nothing was exported"):
        export_model(subject(), Broken(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_that_dies_is_told_by_its_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killer = tmp_path / "python"
    killer.write_text("#!/bin/sh\nkill -SEGV $$\n", encoding="utf-8")
    killer.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(killer))
    with pytest.raises(CannotExport, match="killed by signal 11"):
        export_model(subject(), Torchscript(), tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["python"]


@pytest.mark.usefixtures("here")
def test_a_trace_that_fixes_what_depends_on_the_batch_is_caught(tmp_path: Path) -> None:
    """TorchScript follows one run, of three samples, without a word; one sample alone is answered otherwise."""
    with pytest.raises(CannotExport, match=r"does not give the model's outputs|could not run"):
        export_model(subject(ByNumber), Torchscript(), tmp_path / "out")


class ByNumber(nn.Module):
    """Adds one where the batch is large."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Shades()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.inner(images)
        return scores + 1 if len(images) > 2 else scores
