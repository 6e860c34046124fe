"""Exported models on a real CUDA device: they answer as the model does, in single precision, and are measured there or
told why not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import trueloop
from tests.export.made import RECIPE, run_here, shades, subject
from tests.export.test_device import Placed, texts
from trueloop.cli.main import main
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadArtifact, MissingExtra, Misuse
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.export_model import export_model
from trueloop.export.folder import read_artifact
from trueloop.results.artifact import Artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore"),  # torch's and the compiler's own, which differ from version to version
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

DEVICE = "cuda"
FORMS = ("pt2", "torchscript", "safetensors", "aoti")
"""What runs on a GPU by torch alone."""


class Convolved(nn.Module):
    """Convolutions and norms: what cuDNN would compute in TF32 by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.scores = nn.Linear(1024, 10)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.layers(images).flatten(1))
        return scores


class Wide(nn.Module):
    """One large matrix product of raw numbers: TF32 is seen in its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Linear(3072, 512)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.product(images.flatten(1))
        return scores


def scaled(images: Tensor) -> Tensor:
    """With a constant, as recipes do: it goes where the images are."""
    return images.float() / 127.5 - torch.ones(3, 1, 1).to(images.device)


def pictures(classes: int) -> Splits:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (80, 3, 32, 32), generator=draws, dtype=torch.uint8)
    labels = torch.randint(0, classes, (80,), generator=draws)
    facts = Facts(inputs=(3, 32, 32), classes=tuple(f"class {number}" for number in range(classes)))
    return Splits(Tensors(images, labels), facts=facts, prepare=scaled)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes of their own: one of the tests below has them."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


def apart(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def images_of(splits: Splits, count: int) -> Any:
    return splits.train.fetch(torch.arange(count)).inputs.numpy()


@pytest.mark.usefixtures("here")
def test_a_pt2_program_that_was_traced_on_the_cpu_answers_on_the_gpu(tmp_path: Path) -> None:
    splits = pictures(10)
    made = export_model(subject(Convolved, splits), find_exporter("pt2"), tmp_path / "made", device=DEVICE)
    assert made.verification is not None
    assert made.verification.passed
    assert made.verification.runtime.endswith(f"on cuda ({torch.cuda.get_device_name(0)}), TF32 off")
    assert made.device == "cpu", "it is of no device: it runs on both"
    batch = images_of(splits, 16)
    (there,), (at_home,) = runner_of(made, DEVICE).run([batch]), runner_of(made).run([batch])
    assert 0 < apart(there, at_home) < 1e-4, "computed elsewhere, and the same"


@pytest.mark.usefixtures("here")
def test_positions_states_and_constants_move_too(tmp_path: Path) -> None:
    made = export_model(
        subject(Placed, texts(), task="language"), find_exporter("pt2"), tmp_path / "made", device=DEVICE
    )
    assert made.verification is not None
    assert made.verification.max_error < 1e-4


@pytest.mark.usefixtures("here")
def test_a_trace_that_makes_tensors_on_the_cpu_says_so(tmp_path: Path) -> None:
    made = export_model(subject(Placed, texts(), task="language"), find_exporter("torchscript"), tmp_path / "made")
    with pytest.raises(BadArtifact, match="creates tensors on the CPU, where it was traced, and does not run on cuda"):
        runner_of(made, DEVICE)


@pytest.mark.usefixtures("here")
def test_tf32_is_off_whatever_the_process_is_set_to(tmp_path: Path) -> None:
    splits = pictures(512)
    of = subject(Wide, splits)
    made = export_model(of, find_exporter("pt2"), tmp_path / "made", samples=16, device=DEVICE)
    batch = images_of(splits, 64)
    (expected,) = runner_of(made).run([batch])
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        (answered,) = runner_of(made, DEVICE).run([batch])
        with torch.no_grad():
            rough = of.model.to(DEVICE)(scaled(torch.from_numpy(batch).to(DEVICE))).cpu().numpy()
        assert torch.get_float32_matmul_precision() == "high", "it is put back"
    finally:
        torch.set_float32_matmul_precision(before)
        of.model.cpu()
    exact, tf32 = apart(answered, expected), apart(rough, expected)
    assert exact < 2e-5
    assert tf32 > 4 * exact, "this model would show it"


def test_a_gpu_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(Misuse, match="--device cuda:99 does not exist: this machine has"):
        find_exporter("pt2").require("cuda:99")


def _has_cuda() -> bool:
    onnxruntime = pytest.importorskip("onnxruntime")
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


@pytest.mark.usefixtures("here")
def test_onnx_runs_on_the_gpu_or_names_the_package_that_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    if _has_cuda():
        made = export_model(subject(), find_exporter("onnx"), tmp_path / "made", device=DEVICE)
        assert made.verification is not None
        assert "TF32 off" in made.verification.runtime
    else:
        with pytest.raises(MissingExtra, match="pip install onnxruntime-gpu"):
            export_model(subject(), find_exporter("onnx"), tmp_path / "made", device=DEVICE)


# -- as it is typed --


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of a recipe of the user's. Processes that start in its folder find this trueloop."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "gpu_shades.py").write_text(RECIPE, encoding="utf-8")
    source = str(Path(trueloop.__file__).resolve().parents[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])]))
        patch.chdir(folder)
        assert main(["train", "gpu_shades.py", "--set", "device=cpu"]) == 0
        yield folder


@pytest.fixture(scope="module")
def exported(trained: Path) -> dict[str, Artifact]:
    """All forms of it, each tried on the GPU in a process of its own."""
    from torch.utils.cpp_extension import CUDA_HOME

    forms = FORMS if CUDA_HOME else FORMS[:-1]
    for target in forms:
        assert main(["export", "shades", "--to", target, "--device", DEVICE]) == 0
    return {target: read_artifact(trained / "runs" / "shades" / "export" / target) for target in forms}


def test_every_form_was_verified_on_the_gpu(exported: dict[str, Artifact]) -> None:
    for made in exported.values():
        assert made.verification is not None
        assert made.verification.passed
        assert torch.cuda.get_device_name(0) in made.verification.runtime
        card = (made.folder / "CARD.md").read_text(encoding="utf-8")
        assert torch.cuda.get_device_name(0) in card


def test_machine_code_remembers_its_gpu_and_runs_nowhere_else(exported: dict[str, Artifact]) -> None:
    if "aoti" not in exported:
        pytest.skip("needs the CUDA toolkit")
    made = exported["aoti"]
    major, minor = torch.cuda.get_device_capability(0)
    assert made.device == "cuda"
    assert (made.runtime["gpu"], made.runtime["capability"]) == (torch.cuda.get_device_name(0), f"{major}.{minor}")
    batch = images_of(shades(), 9)
    (answered,) = runner_of(made).run([batch])
    (expected,) = runner_of(exported["pt2"]).run([batch])
    assert apart(answered, expected) < 1e-4, "by itself it runs on the GPU"
    with pytest.raises(BadArtifact, match=r"is machine code for CUDA .* and does not run on cpu"):
        runner_of(made, "cpu")
    with pytest.raises(BadArtifact, match=r"capability 1\.0\), and cuda is"):
        runner_of(replace(made, runtime={**made.runtime, "capability": "1.0"}))


@pytest.mark.usefixtures("trained")
def test_forms_are_measured_on_the_gpu_or_told_why_not(exported: dict[str, Artifact], tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    assert main(["export", "shades", "--to", "onnx"]) == 0, "on the CPU"
    page, numbers = tmp_path / "bench.html", tmp_path / "bench.json"
    typed = ["bench", "shades", "--device", DEVICE, "--no-compile", "--batch", "1,8", "--seconds", "0.1"]
    ended = main([*typed, "--output", str(numbers), "--output", str(page)])
    told = json.loads(numbers.read_text(encoding="utf-8"))
    forms = {form["name"]: form for form in told["forms"]}
    assert set(forms) == {"eager", "onnx", *exported}
    for name in ("eager", *exported):
        assert not forms[name]["failed"], forms[name]["failed"]
        assert [pace["batch"] for pace in forms[name]["paces"]] == [1, 8]
    assert ("onnxruntime-gpu" in forms["onnx"]["failed"]) is not _has_cuda()
    assert ended == (0 if _has_cuda() else 1)
    assert told["machine"]["device"] == f"cuda ({torch.cuda.get_device_name(0)})"
    said = page.read_text(encoding="utf-8")
    assert "in fp32 with TF32 off" in said
    assert "both copies" in said
    assert said.count("<svg") == 3  # latency of two batch sizes, throughput


@pytest.mark.usefixtures("trained")
def test_machine_code_for_the_gpu_is_not_measured_on_the_cpu(exported: dict[str, Artifact], tmp_path: Path) -> None:
    if "aoti" not in exported:
        pytest.skip("needs the CUDA toolkit")
    numbers = tmp_path / "bench.json"
    folder = str(exported["aoti"].folder)
    assert main(["bench", folder, "--no-compile", "--batch", "1", "--seconds", "0.1", "--output", str(numbers)]) == 1
    eager, aoti = json.loads(numbers.read_text(encoding="utf-8"))["forms"]
    assert not eager["failed"]
    assert "is machine code for CUDA" in aoti["failed"]
    assert aoti["paces"] == []
