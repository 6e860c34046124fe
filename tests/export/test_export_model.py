"""What an export says of itself before it is verified, and what each target promises."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import artifact, run_here, shades, subject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import CannotSave, MissingExtra
from trueloop.export.catalogue import TARGETS, find_exporter, runner_of
from trueloop.export.export_model import _notes, _outputs, export_model
from trueloop.export.exporter import Example, installed_version
from trueloop.export.torchscript import Torchscript


@pytest.mark.parametrize(
    ("target", "runtime", "inside", "native", "match"),
    [
        ("pt2", "torch", True, False, False),
        ("aoti", "torch", True, True, True),
        ("onnx", "onnxruntime", True, False, False),
        ("executorch", "executorch", True, False, False),
        ("safetensors", "torch", False, False, False),
        ("torchscript", "torch", True, False, False),
    ],
)
def test_what_each_target_promises(target: str, runtime: str, inside: bool, native: bool, match: bool) -> None:
    exporter = find_exporter(target)
    assert exporter.runtime == runtime
    assert exporter.inside is inside
    assert exporter.native is native
    assert exporter.exact_minor is match


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in ("pt2", "onnx")])
def test_what_a_person_should_know_of_a_target_is_said(target: str) -> None:
    assert find_exporter(target).notes


def test_packages_that_are_not_here_have_no_version() -> None:
    assert installed_version("no-such-package") == ""
    assert installed_version("torch") == torch.__version__


def test_an_artifact_whose_runtime_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.onnx.Onnx.needs", ("no-such-package",))
    with pytest.raises(MissingExtra, match=r"pip install 'trueloop\[onnx\]'"):
        runner_of(artifact())


class Tagging(nn.Module):
    """A score for each token, and one for the row."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(9, 4)

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        vectors = self.vectors(tokens)
        return {"tags": vectors, "row": vectors.sum((1, 2))}


def test_sizes_of_outputs_are_free_where_they_follow_the_inputs() -> None:
    tokens = torch.randint(0, 9, (5, 6), generator=torch.Generator().manual_seed(0))
    made = subject(Tagging, Splits(Tensors(tokens, torch.zeros(5).long()), facts=Facts(vocabulary=9)))
    program = made.program()
    tags, row = _outputs(program, made, made.example(program, inside=True).ports)
    assert (tags.name, tags.shape) == ("tags", (None, None, 4))
    assert (row.name, row.shape) == ("row", (None,))


@pytest.mark.parametrize(("precision", "told"), [("fp32", 0), ("tf32", 0), ("bf16", 1), ("fp16", 1)])
def test_a_precision_that_does_not_leave_with_the_weights_is_told(precision: str, told: int) -> None:
    of = subject(precision=precision)
    assert [f"Trained in {precision}" in note for note in _notes(of, of.program(), {})] == [True] * told


def test_the_description_says_what_it_was_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    made = export_model(subject(), Torchscript(), tmp_path / "out", notes=("int8",))
    assert made.versions["torch"] == torch.__version__
    assert made.versions["python"] == platform.python_version()
    assert made.runtime == {"package": "torch", "version": torch.__version__, "match": "major", "machine": ""}
    assert made.notes[-1] == "int8"
    assert made.run["facts"]["classes"] == list(shades().facts.classes)
    assert made.run["layouts"] == [{"names": ["input"], "kind": "tensor"}, {"names": ["output"], "kind": "tensor"}]


def test_a_disk_that_is_full_is_no_fault_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(exporter: Torchscript, program: nn.Module, given: Example, file: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Torchscript, "write", full)
    with pytest.raises(CannotSave, match="No space left on device"):
        export_model(subject(), Torchscript(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
