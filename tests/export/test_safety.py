"""A .pt2 file that would run code when torch loads it is refused before torch sees it; so is a checkpoint that
would."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.export.made import RECIPE, subject
from trueloop.checkpoint.store import MANIFEST, seal_json, unseal_json
from trueloop.cli.main import main
from trueloop.errors import BadArtifact
from trueloop.export.pt2 import Pt2
from trueloop.export.safety import refuse_unsafe_graph, refuse_unsafe_script


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.witness),)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A harmless file."""
    file = tmp_path_factory.mktemp("graph") / "model.pt2"
    made = subject()
    Pt2().write(made.program(), made.example(made.program(), inside=True), file)
    return file


def _changed(
    graph: Path, to: Path, ending: str, change: Callable[[bytes], bytes], more: dict[str, bytes] | None = None
) -> Path:
    """A copy in which one file of the archive is another."""
    with zipfile.ZipFile(graph) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name.endswith(ending) else old.read(name))
        for name, data in (more or {}).items():
            new.writestr(f"{old.namelist()[0].split('/')[0]}/{name}", data)
    return to


def _in_graph(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def work(data: bytes) -> bytes:
        told = json.loads(data)
        change(told)
        return json.dumps(told).encode()

    return work


def test_a_graph_of_ours_is_trusted(graph: Path) -> None:
    refuse_unsafe_graph(graph)
    torch.export.load(graph)


def _set_guard(told: Any) -> None:
    told["guards_code"] = ["__import__('os').system('true') == 0"]


def _set_lambda(told: Any) -> None:
    told["guards_code"] = ["(lambda: 1)() == 1"]


def _set_call(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["target"] = "torch.hub.load"


def _set_name(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["name"] = "x = 1; import os"


def _set_expression(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["inputs"].append({"expr_str": "lambdify('x', 'x')"})


def _set_attribute(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["inputs"].append({"expr_str": "().__class__"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set_guard, "evaluates __import__"),
        (_set_lambda, "evaluates"),
        (_set_call, "calls torch.hub.load"),
        (_set_name, "holds the invalid name x = 1"),
        (_set_expression, "evaluates lambdify"),
        (_set_attribute, "evaluates"),
    ],
)
def test_a_graph_that_would_run_code_is_refused(
    graph: Path, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    evil = _changed(graph, tmp_path / "evil.pt2", "models/model.json", _in_graph(change))
    with pytest.raises(BadArtifact, match=f"nothing in it was executed: .*{said}"):
        refuse_unsafe_graph(evil)


def test_sample_inputs_that_are_more_than_tensors_are_refused(graph: Path, tmp_path: Path) -> None:
    witness = tmp_path / "it-ran"
    buffer = io.BytesIO()
    torch.save(Evil(witness), buffer)
    evil = _changed(graph, tmp_path / "evil.pt2", "sample_inputs/model.pt", lambda _: buffer.getvalue())
    with pytest.raises(BadArtifact, match="holds more than tensors"):
        refuse_unsafe_graph(evil)
    assert not witness.exists()


def test_pickled_constants_are_refused(graph: Path, tmp_path: Path) -> None:
    def pickled(told: Any) -> None:
        told["config"]["evil"] = {
            "path_name": "opaque_obj_0",
            "is_param": False,
            "use_pickle": True,
            "tensor_meta": None,
        }

    witness = tmp_path / "it-ran"
    more = {"data/constants/opaque_obj_0": pickle.dumps(Evil(witness))}
    evil = _changed(graph, tmp_path / "evil.pt2", "model_constants_config.json", _in_graph(pickled), more)
    with pytest.raises(BadArtifact, match=r"holds pickled objects|not part of an exported graph"):
        refuse_unsafe_graph(evil)
    assert not witness.exists()


@pytest.mark.parametrize("name", ["data/aotinductor/model/model.so", "data/weights/model.pt", "extra/anything"])
def test_files_that_no_plain_graph_has_are_refused(graph: Path, tmp_path: Path, name: str) -> None:
    evil = _changed(graph, tmp_path / "evil.pt2", "none", lambda data: data, {name: b"code"})
    with pytest.raises(BadArtifact, match="is not part of an exported graph"):
        refuse_unsafe_graph(evil)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"no archive at all"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.pt2").write_bytes(content)
    with pytest.raises(BadArtifact, match=r"is not a torch\.export file"):
        refuse_unsafe_graph(tmp_path / "model.pt2")


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.load_library.__call__",
        "torch.ops.aten.add.__class__",
    ],
)
def test_operations_that_reach_files_are_refused(graph: Path, tmp_path: Path, target: str) -> None:
    def change(told: Any) -> None:
        told["graph_module"]["graph"]["nodes"][0]["target"] = target

    evil = _changed(graph, tmp_path / "evil.pt2", "models/model.json", _in_graph(change))
    with pytest.raises(BadArtifact, match="calls torch"):
        refuse_unsafe_graph(evil)


def test_torchscript_that_writes_files_is_refused(tmp_path: Path) -> None:
    for name, code in {"good": "return torch.add(x, 1)", "evil": 'torch.save(x, "/etc/passwd")'}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("model/code/__torch__.py", f"def forward(self, x):\n  {code}\n")
    refuse_unsafe_script(tmp_path / "good")
    with pytest.raises(BadArtifact, match="calls save"):
        refuse_unsafe_script(tmp_path / "evil")
    (tmp_path / "none").write_bytes(b"pickle")
    with pytest.raises(BadArtifact, match="is not a TorchScript archive"):
        refuse_unsafe_script(tmp_path / "none")


# -- checkpoints --


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    folder = tmp_path_factory.mktemp("trusted")
    (folder / "trusted_shades.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", "trusted_shades.py"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["export", "runs/shades", "--to", "torchscript"],
        ["inspect", "checkpoint", "runs/shades"],
        ["resume", "runs/shades", "--set", "epochs=2"],
    ],
)
def test_a_checkpoint_that_would_run_code_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Its manifest is right: whoever made it has sealed it again."""
    shutil.copytree(run, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    witness = tmp_path / "it-ran"
    for checkpoint in Path("runs/shades/checkpoints").iterdir():
        torch.save({"optimizer": Evil(witness)}, checkpoint / "training.pt")
        told = unseal_json((checkpoint / MANIFEST).read_bytes(), "")
        data = (checkpoint / "training.pt").read_bytes()
        told["files"]["training.pt"] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        (checkpoint / MANIFEST).write_bytes(seal_json(told))
    code = main(words)
    said = capsys.readouterr()
    assert "refused" in said.err + said.out
    assert code != 0 or words[0] == "inspect"
    assert not witness.exists()
    assert not Path("runs/shades/export").exists() or not any(Path("runs/shades/export").iterdir())
