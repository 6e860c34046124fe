"""Where an exported model runs: what is typed, what is refused in a sentence, and that all of a program moves. No GPU
is needed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.export.made import artifact, run_here, shades, subject
from trueloop.checkpoint.store import seal_json, unseal_json
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadArtifact, CannotExport, MissingExtra, Misuse
from trueloop.export.aoti import Aoti
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.device import (
    device_index,
    device_type,
    gpu_facts,
    gpu_label,
    no_tf32,
    parse_device,
    torch_device,
)
from trueloop.export.export_model import _notes, export_model
from trueloop.export.exporter import TorchRunner, installed_version
from trueloop.export.folder import read_artifact
from trueloop.export.torchscript import Torchscript
from trueloop.export.verify import verify
from trueloop.results.artifact import Artifact

CUDA = {"package": "torch", "version": torch.__version__, "match": "minor", "machine": "", "device": "cuda"}
H200 = {**CUDA, "gpu": "NVIDIA H200", "capability": "9.0"}


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch would tell of them; nothing runs there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, device.index))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that computes no numbers, in place of a GPU: an operation that stayed on the CPU cannot meet what has
    moved."""
    monkeypatch.setattr("trueloop.export.device.torch_device", lambda _: torch.device("meta"))


# -- words --


@pytest.mark.parametrize(
    ("word", "kind", "number"), [("cpu", "cpu", 0), ("cuda", "cuda", 0), ("cuda:0", "cuda", 0), ("cuda:11", "cuda", 11)]
)
def test_devices_that_can_be_asked_for(word: str, kind: str, number: int) -> None:
    assert parse_device(word) == word
    assert (device_type(word), device_index(word)) == (kind, number)


@pytest.mark.parametrize(
    "word", ["", "gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:1x", "cpu:0", "CUDA", "mps", "cuda:1234", "cuda\n"]
)
def test_what_is_no_device_is_refused(word: str) -> None:
    with pytest.raises(
        Misuse, match=r"--device cannot be .*Nothing was run: write cpu, cuda, or cuda:1 for the second GPU\."
    ):
        parse_device(word)


@pytest.mark.usefixtures("no_gpu")
def test_a_machine_without_a_gpu_says_so() -> None:
    assert torch_device("cpu") == torch.device("cpu")
    with pytest.raises(
        Misuse, match=r"--device cuda needs CUDA, which torch does not find.*\. Nothing was run: use --device cpu\."
    ):
        torch_device("cuda")
    assert gpu_label("cuda") == "cuda"
    assert gpu_facts("cpu") == {"device": "cpu"}


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_has_its_number_and_its_name() -> None:
    assert torch_device("cuda") == torch.device("cuda", 0)
    assert torch_device("cuda:1") == torch.device("cuda", 1)
    assert gpu_label("cuda:1") == "cuda:1 (GPU 1)"
    assert gpu_label("cpu") == "cpu"
    assert gpu_facts("cuda:1") == {"device": "cuda", "gpu": "GPU 1", "capability": "8.1"}
    with pytest.raises(Misuse, match=r"--device cuda:2 does not exist: this machine has 2 GPUs, cuda:0 to cuda:1\."):
        torch_device("cuda:2")


@pytest.mark.usefixtures("two_gpus")
def test_the_only_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Misuse, match="this machine has one GPU, cuda:0"):
        torch_device("cuda:1")


# -- torch's own forms --


def test_tf32_is_off_while_it_computes_on_a_gpu_and_put_back() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        with no_tf32(torch.device("cuda", 0)):
            assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
        with no_tf32(torch.device("cpu")):
            assert torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def test_a_runner_keeps_no_graph_and_gives_arrays() -> None:
    layer = nn.Linear(2, 3)
    runner = TorchRunner(lambda rows: (layer(rows),), torch.device("cpu"))
    (answered,) = runner.run([np.ones((4, 2), np.float32)])
    assert isinstance(answered, np.ndarray)
    assert answered.shape == (4, 3)


class Placed(nn.Module):
    """Makes tensors where its inputs are: positions, a start state, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.scores = nn.Linear(8, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        hidden = nn.functional.scaled_dot_product_attention(hidden, hidden, hidden, is_causal=True)
        start = torch.zeros(tokens.shape[0], 1, 8, device=tokens.device)
        scores: Tensor = self.scores(hidden + start) * torch.tensor([2.0]).to(tokens.device)
        return scores


def texts() -> Splits:
    tokens = torch.randint(0, 20, (12, 6), generator=torch.Generator().manual_seed(0))
    return Splits(Tensors(tokens, tokens), facts=Facts(vocabulary=20))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("model", "splits", "tensors"),
    [
        (Placed, texts, (torch.zeros(2, 5, dtype=torch.int64),)),
        (None, shades, (torch.zeros(2, 1, 3, 4, dtype=torch.uint8),)),
    ],
    ids=["texts", "pictures"],
)
def test_all_of_a_pt2_program_moves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: Any,
    splits: Callable[[], Splits],
    tensors: tuple[Tensor, ...],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("trueloop.export.device.torch_device", lambda _: torch.device("cpu"))
        patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        of = subject(model, splits(), task="language") if model else subject()
        made = export_model(of, find_exporter("pt2"), tmp_path / "made", samples=8)
    runner = find_exporter("pt2").open(made, "cuda")
    assert isinstance(runner, TorchRunner)
    (answered,) = runner.called(*(tensor.to("meta") for tensor in tensors))
    assert answered.device.type == "meta"
    assert answered.shape[0] == 2


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Artifact]:
    """A small model as torchscript."""

    def make(*of: Any, **fields: Any) -> Artifact:
        monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        return export_model(subject(*of, **fields), Torchscript(), tmp_path / "script", samples=8)

    return make


def test_a_trace_that_names_no_device_moves(script: Callable[..., Artifact], request: pytest.FixtureRequest) -> None:
    made = script()
    request.getfixturevalue("elsewhere")
    runner = Torchscript().open(made, "cuda")
    assert isinstance(runner, TorchRunner)
    assert {value.device.type for value in runner.called.state_dict().values()} == {"meta"}  # type: ignore[attr-defined]


def test_a_trace_that_makes_tensors_on_the_cpu_is_refused_elsewhere(
    script: Callable[..., Artifact], request: pytest.FixtureRequest
) -> None:
    made = script(Placed, texts(), task="language")
    assert Torchscript().open(made).run([np.zeros((2, 6), np.int64)])[0].shape == (2, 6, 20)
    request.getfixturevalue("elsewhere")
    with pytest.raises(
        BadArtifact, match=r"creates tensors on the CPU, where it was traced, and does not run on cuda.*--to pt2"
    ):
        Torchscript().open(made, "cuda")


# -- opening --


@pytest.mark.usefixtures("no_gpu")
def test_a_form_of_torch_is_not_opened_on_a_gpu_that_is_not_there(script: Callable[..., Artifact]) -> None:
    with pytest.raises(Misuse, match="--device cuda needs CUDA"):
        runner_of(script(), "cuda")


def test_whatever_a_runtime_says_of_a_file_is_one_sentence(
    script: Callable[..., Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script()

    def failing(self: Torchscript, opened: Artifact, device: str) -> None:
        raise RuntimeError("PytorchStreamReader failed\nreading\n  zip archive" + "!" * 500)

    monkeypatch.setattr(Torchscript, "open", failing)
    with pytest.raises(BadArtifact) as caught:
        runner_of(made)
    said = str(caught.value)
    assert said.startswith(f"{made.file} cannot be opened by torch (PytorchStreamReader failed reading zip archive!!!")
    assert said.endswith("!). Nothing was run. Export the run again.")
    assert len(said) < 500
    assert "\n" not in said


def test_an_error_without_words_is_named(script: Callable[..., Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Torchscript, opened: Artifact, device: str) -> None:
        raise KeyError

    made = script()
    monkeypatch.setattr(Torchscript, "open", failing)
    with pytest.raises(BadArtifact, match=r"cannot be opened by torch \(KeyError\)"):
        runner_of(made)


def test_our_own_sentences_are_handed_on(script: Callable[..., Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Torchscript, opened: Artifact, device: str) -> None:
        raise BadArtifact(f"not on {device}")

    made = script()
    monkeypatch.setattr(Torchscript, "open", failing)
    with pytest.raises(BadArtifact, match=r"^not on cpu$"):
        runner_of(made)


def test_only_the_cpu_runs_executorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.exporter.installed_version", lambda _: "1.0")
    find_exporter("executorch").require()
    with pytest.raises(
        Misuse, match=r"executorch runs on the CPU only, not on cuda:1\. Nothing was run: pt2 and aoti run on a GPU\."
    ):
        find_exporter("executorch").require("cuda:1")


# -- machine code --


def test_machine_code_runs_where_it_was_made_for_unless_told_otherwise() -> None:
    assert artifact(runtime=H200).device == "cuda"
    assert artifact(runtime={**CUDA, "device": "cpu"}).device == "cpu"
    assert artifact().device == "cpu", "older ones say nothing of it"


@pytest.mark.usefixtures("no_gpu")
def test_machine_code_for_a_gpu_says_so_where_there_is_none() -> None:
    made_for = r"is machine code for CUDA \(NVIDIA H200, capability 9\.0\)"
    with pytest.raises(BadArtifact, match=rf"{made_for}, and torch finds no GPU\. Nothing was run\."):
        runner_of(artifact(target="aoti", runtime=H200))
    with pytest.raises(
        BadArtifact, match=rf"{made_for} and does not run on cpu\. Nothing was run: use --device cuda, or export"
    ):
        runner_of(artifact(target="aoti", runtime=H200), "cpu")


@pytest.mark.usefixtures("two_gpus")
def test_machine_code_for_the_cpu_is_not_run_on_a_gpu() -> None:
    with pytest.raises(
        BadArtifact, match=r"is machine code for the CPU and does not run on cuda:1\. .*again with --device cuda\."
    ):
        runner_of(artifact(target="aoti"), "cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_machine_code_for_another_gpu_is_refused() -> None:
    other = (
        r"is machine code for CUDA \(NVIDIA H200, capability 9\.0\), and cuda:1 is GPU 1, capability 8\.1\. "
        r"Nothing was run"
    )
    with pytest.raises(BadArtifact, match=other):
        runner_of(artifact(target="aoti", runtime=H200), "cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_machine_code_is_loaded_on_the_gpu_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "trueloop.torch_private.inductor.aoti_load_package",
        lambda file, device_index=-1: loaded.append((file, device_index)),
    )
    made = artifact(target="aoti", files={"model.pt2": {}}, runtime={**H200, "capability": "8.1"})
    runner = Aoti().open(made, "cuda:1")
    assert isinstance(runner, TorchRunner)
    assert runner.device == torch.device("cuda", 1)
    Aoti().open(artifact(target="aoti", files={"model.pt2": {}}))
    assert loaded == [("nowhere/model.pt2", 1), ("nowhere/model.pt2", -1)]


def test_compiling_for_a_gpu_needs_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = subject()
    program = of.program()
    monkeypatch.setattr("torch.utils.cpp_extension.CUDA_HOME", None)
    with pytest.raises(CannotExport, match=r"aoti needs the CUDA toolkit .* or set CUDA_HOME\. Nothing was exported"):
        Aoti().write(program, replace(of.example(program, inside=True), device="cuda"), tmp_path / "model.pt2")


def test_the_card_names_the_gpu() -> None:
    of = subject()
    assert _notes(of, of.program(), {"device": "cpu"}) == []
    assert _notes(of, of.program(), {}) == []
    assert _notes(of, of.program(), H200) == [
        "Compiled for NVIDIA H200: it runs only on GPUs of compute capability 9.0."
    ]


def test_a_runtime_that_is_no_words_is_refused(tmp_path: Path, script: Callable[..., Artifact]) -> None:
    made = script()
    file = made.folder / "artifact.json"
    told = unseal_json(file.read_bytes(), "")
    file.write_bytes(seal_json({**told, "runtime": {**told["runtime"], "device": ["cuda"]}}))
    with pytest.raises(BadArtifact, match="the runtime or the file sizes are missing"):
        read_artifact(made.folder)


# -- ONNX Runtime --


def test_an_onnx_runtime_without_cuda_names_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(
        MissingExtra,
        match=r"onnx on cuda needs .*CUDAExecutionProvider.*\. Nothing was run: .*pip install onnxruntime-gpu",
    ):
        find_exporter("onnx").require("cuda")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    find_exporter("onnx").require("cuda")


class Session:
    """What ONNX Runtime would open, and on which providers it ends up."""

    asked: list[Any] = []
    got = ("CUDAExecutionProvider", "CPUExecutionProvider")

    def __init__(self, file: Path, options: Any, providers: list[Any]) -> None:
        Session.asked = providers

    def get_providers(self) -> list[str]:
        return list(self.got)

    def get_inputs(self) -> list[Any]:
        return []


def test_onnx_runs_on_the_gpu_that_is_asked_for_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    find_exporter("onnx").open(artifact(), "cuda:1")
    assert Session.asked == [("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "0"}), "CPUExecutionProvider"]
    find_exporter("onnx").open(artifact())
    assert Session.asked == ["CPUExecutionProvider"]


def test_onnx_never_goes_on_silently_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    monkeypatch.setattr(Session, "got", ("CPUExecutionProvider",))
    with pytest.raises(
        Misuse, match=r"cannot start its CUDAExecutionProvider on cuda: .*libraries are missing\. Nothing was run\."
    ):
        find_exporter("onnx").open(artifact(), "cuda")


def test_a_package_counts_under_its_name_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "onnxruntime-gpu":
            raise PackageNotFoundError
        return "1.23.0"

    monkeypatch.setattr("trueloop.export.exporter.version", version)
    assert installed_version("onnxruntime") == "1.23.0"
    assert installed_version("torch") == ""


# -- verified there --


def _answering(monkeypatch: pytest.MonkeyPatch, error: float) -> list[str]:
    """In place of another process: answers but for this much, and remembers where it was asked to."""
    asked: list[str] = []
    program = subject().program()

    def run(folder: Path, batches: list[list[np.ndarray]], device: str) -> list[list[np.ndarray]]:
        asked.append(device)
        return [[program.answer([torch.from_numpy(each) for each in batch])[0].numpy() + error] for batch in batches]

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run)
    monkeypatch.setattr("trueloop.export.verify._first_differing", lambda *words: f"Asked on {words[-1]}.")
    return asked


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(("device", "told"), [("cpu", "1.2.3"), ("cuda:1", "1.2.3 on cuda:1, TF32 off")])
def test_a_verification_says_where_it_ran(monkeypatch: pytest.MonkeyPatch, device: str, told: str) -> None:
    asked, made = _answering(monkeypatch, 0.0), subject()
    assert verify(made, made.program(), Torchscript(), artifact(), 1e-4, 5, device).runtime == f"no-such-runtime {told}"
    assert asked == [device]


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(("device", "more"), [("cpu", ""), ("cuda", " (cuda sums in another order than the CPU")])
def test_a_failure_on_a_gpu_says_what_it_is_held_against(
    monkeypatch: pytest.MonkeyPatch, device: str, more: str
) -> None:
    _answering(monkeypatch, 1.0)
    made = subject()
    with pytest.raises(CannotExport) as caught:
        verify(made, made.program(), Torchscript(), artifact(), 1e-4, 5, device)
    assert f"Asked on {device}.{more}" in str(caught.value)
    assert ("--tolerance" in str(caught.value)) is (device != "cpu")
