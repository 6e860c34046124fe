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
import zlib
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
from trueloop.export.safety import safe_graph, safe_script


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


def test_a_graph_of_ours_is_loaded_and_gives_the_same(graph: Path) -> None:
    image = torch.randint(0, 255, (2, 1, 3, 4), dtype=torch.uint8)
    plain, packed = torch.export.load(graph).module(), torch.export.load(safe_graph(graph)).module()
    for one, other in zip(plain(image), packed(image), strict=True):
        assert torch.equal(one, other)


def test_metadata_does_not_reach_torch(graph: Path, tmp_path: Path) -> None:
    """torch imports the classes that it names."""

    def change(told: Any) -> None:
        told["graph_module"]["graph"]["nodes"][0]["metadata"]["nn_module_stack"] = "x,y,antigravity.fly"

    evil = _changed(graph, tmp_path / "evil.pt2", "models/model.json", _in_graph(change))
    assert b"antigravity" not in safe_graph(evil).getvalue()


def test_a_graph_under_the_name_of_a_weight_stays_a_weight(graph: Path, tmp_path: Path) -> None:
    """Since 3.12 Python takes a file's name from an extra field (0x7075) that torch ignores."""
    evil = tmp_path / "evil.pt2"
    with zipfile.ZipFile(graph) as old, zipfile.ZipFile(evil, "w") as new:
        for name in old.namelist():
            if not name.endswith("models/model.json"):
                new.writestr(name, old.read(name))
        root = old.namelist()[0].split("/")[0]
        entry, posed = zipfile.ZipInfo(f"{root}/models/model.json"), f"{root}/data/weights/weight_99".encode()
        body = b"\x01" + zlib.crc32(entry.filename.encode()).to_bytes(4, "little") + posed
        entry.extra = b"\x75\x70" + len(body).to_bytes(2, "little") + body
        told = json.loads(old.read(f"{root}/models/model.json"))
        _set_guard(told)
        new.writestr(entry, json.dumps(told))
    try:
        packed = safe_graph(evil)
    except BadArtifact:
        return  # the name that torch reads
    assert "archive/models/model.json" not in zipfile.ZipFile(packed).namelist()


def _set_guard(told: Any) -> None:
    told["guards_code"] = ["__import__('os').system('true') == 0"]


def _set_lambda(told: Any) -> None:
    told["guards_code"] = ["(lambda: 1)() == 1"]


def _set_call(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["target"] = "torch.hub.load"


def _set_name(told: Any) -> None:
    told["graph_module"]["graph"]["nodes"][0]["name"] = "x = 1; import os"


def _set_expression(told: Any) -> None:
    _set_size(told, "lambdify('x', 'x')")


def _set_attribute(told: Any) -> None:
    _set_size(told, "().__class__")


def _set_size(told: Any, expression: str) -> None:
    first = next(iter(told["graph_module"]["graph"]["tensor_values"].values()))
    first["sizes"][0] = {"as_expr": {"expr_str": expression, "hint": None}}


def _set_outputs(told: Any) -> None:
    """torch imports the module of a defaultdict's factory."""
    context = json.dumps({"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []})
    tree = {"type": "collections.defaultdict", "context": context, "children_spec": []}
    told["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


def _set_unknown(told: Any) -> None:
    told["graph_module"]["graph"]["hook"] = "os.system"


def _set_class(told: Any) -> None:
    told["graph_module"]["graph"]["custom_obj_values"] = {"x": {"name": "x", "class_fqn": "os.system"}}


def _set_two(told: Any) -> None:
    told["graph_module"]["graph"]["outputs"][0] = {"as_none": True, "as_int": 3}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set_guard, "evaluates __import__"),
        (_set_lambda, "evaluates"),
        (_set_call, "calls torch.hub.load"),
        (_set_name, "holds the invalid name x = 1"),
        (_set_expression, "evaluates lambdify"),
        (_set_attribute, "evaluates"),
        (_set_outputs, r"builds outputs of the type \[1, .*defaultdict"),
        (_set_unknown, "holds the unknown field 'hook'"),
        (_set_class, "names classes of Python objects"),
        (_set_two, "holds 2 values where one belongs"),
    ],
)
def test_a_graph_that_would_run_code_is_refused(
    graph: Path, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    evil = _changed(graph, tmp_path / "evil.pt2", "models/model.json", _in_graph(change))
    with pytest.raises(BadArtifact, match=f"nothing in it was executed: .*{said}"):
        safe_graph(evil)


def test_sample_inputs_that_are_more_than_tensors_are_refused(graph: Path, tmp_path: Path) -> None:
    witness = tmp_path / "it-ran"
    buffer = io.BytesIO()
    torch.save(Evil(witness), buffer)
    evil = _changed(graph, tmp_path / "evil.pt2", "sample_inputs/model.pt", lambda _: buffer.getvalue())
    with pytest.raises(BadArtifact, match="holds more than tensors"):
        safe_graph(evil)
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
    with pytest.raises(BadArtifact, match=r"names the file opaque_obj_0|not part of an exported graph"):
        safe_graph(evil)
    assert not witness.exists()


@pytest.mark.parametrize("name", ["data/aotinductor/model/model.so", "data/weights/model.pt", "extra/anything"])
def test_files_that_no_plain_graph_has_are_refused(graph: Path, tmp_path: Path, name: str) -> None:
    evil = _changed(graph, tmp_path / "evil.pt2", "none", lambda data: data, {name: b"code"})
    with pytest.raises(BadArtifact, match="is not part of an exported graph"):
        safe_graph(evil)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"no archive at all"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.pt2").write_bytes(content)
    with pytest.raises(BadArtifact, match=r"is not a torch\.export file"):
        safe_graph(tmp_path / "model.pt2")


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
        safe_graph(evil)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("code/__torch__.py", 'torch.save(x, "/etc/passwd")', "calls save"),
        ("code/__torch__.py", 'return (torch.from_file)("/etc/passwd")', "calls from_file"),
        ("code/__torch__.py", "return torch . from_file  (x)", "calls from_file"),
        ("code/__torch__.py", 'return ops.image.read_file("/etc/passwd")', "calls read_file"),
        ("code/__torch__.py", "return ops.mine.run(x)", "calls ops.mine, which is not an operation of torch"),
        ("code/__torch__.PY", "return x", "is not part of a TorchScript archive"),
        ("code/../__torch__.py", "return x", "is not part of a TorchScript archive"),
        ("other/__torch__.py", "return x", "is not part of a TorchScript archive"),
    ],
)
def test_torchscript_that_accesses_files_is_refused(tmp_path: Path, name: str, code: str, said: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil", "w") as archive:
        archive.writestr(f"model/{name}", f"def forward(self, x):\n  {code}\n")
    with pytest.raises(BadArtifact, match=said):
        safe_script(tmp_path / "evil")


def test_torchscript_of_ours_is_packed_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "good", "w") as archive:
        archive.writestr("model/code/__torch__.py", "def forward(self, x):\n  return torch.add(x, 1)\n")
        archive.writestr("model/code/__torch__.py.debug_pkl", b"lines")
    assert zipfile.ZipFile(safe_script(tmp_path / "good")).namelist() == ["archive/code/__torch__.py"]
    (tmp_path / "none").write_bytes(b"pickle")
    with pytest.raises(BadArtifact, match="is not a TorchScript archive"):
        safe_script(tmp_path / "none")


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
