"""An artifact that was not exported here is opened and computed in a process that can do nothing but answer."""

from __future__ import annotations

import os
import re
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import run_here, subject
from trueloop.bench.form import FormSpec, open_form
from trueloop.errors import BadArtifact
from trueloop.export import confined_runner
from trueloop.export.array_bytes import NotArrays, pack, unpack
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.export.confined_runner import ConfinedRunner
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Array
from trueloop.export.folder import read_artifact
from trueloop.export.onnx import OnnxRunner
from trueloop.results.artifact import Artifact
from trueloop.trust.confine.client import Refused

TARGETS = ("onnx", "pt2")
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 1, 3, 4), np.uint8)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
        return {target: export_model(subject(), find_exporter(target), place / target).folder for target in TARGETS}


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody with another key, for whom the artifacts were made by a stranger."""
    monkeypatch.setenv("TRUELOOP_KEY", str(tmp_path / "another-key"))


@contextmanager
def opened(artifact: Artifact) -> Iterator[ConfinedRunner]:
    runner = runner_of(artifact)
    try:
        assert isinstance(runner, ConfinedRunner)
        yield runner
    finally:
        runner.close()


def process_of(runner: ConfinedRunner) -> int:
    worker = runner.session._worker._process.pid
    return int(Path(f"/proc/{worker}/task/{worker}/children").read_text())


@pytest.mark.parametrize("target", TARGETS)
def test_it_answers_as_it_does_where_it_was_made(
    target: str, exported: dict[str, Path], request: pytest.FixtureRequest
) -> None:
    artifact = read_artifact(exported[target])
    own = runner_of(artifact)
    assert not isinstance(own, ConfinedRunner)
    request.getfixturevalue("stranger")
    with opened(artifact) as runner:
        for count in (5, 1, 2):
            (ours,), (theirs,) = own.run([IMAGES[:count]]), runner.run([IMAGES[:count]])
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)


def test_with_trust_it_is_opened_here(
    exported: dict[str, Path], stranger: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUELOOP_TRUST", "1")
    assert not isinstance(runner_of(read_artifact(exported["onnx"])), ConfinedRunner)


@pytest.mark.parametrize("target", TARGETS)
def test_the_process_that_computes_it_is_fenced_in(target: str, exported: dict[str, Path], stranger: None) -> None:
    with opened(read_artifact(exported[target])) as runner:
        runner.run([IMAGES])
        place = Path(f"/proc/{process_of(runner)}")
        status = (place / "status").read_text()
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
        assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
        limits = (place / "limits").read_text()
        assert re.search(r"^Max data size\s+4\d{9} ", limits, re.MULTILINE)
        assert re.search(r"^Max file size\s+0 ", limits, re.MULTILINE)
        files = [os.readlink(each) for each in (place / "fd").iterdir()]
        allowed = re.compile(rf"/dev/(null|urandom)|pipe:.*|{re.escape(str(exported[target]))}/model\.\w+")
        assert all(map(allowed.fullmatch, files)), files
        assert b"HOME=/nonexistent\0" in (place / "environ").read_bytes()
        assert b"TRUELOOP_KEY" not in (place / "environ").read_bytes()


def test_a_model_that_took_over_its_runtime_can_do_nothing(
    exported: dict[str, Path], stranger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined_runner, "READER", "tests.export.taken_over:answer_attempts")
    monkeypatch.setenv("TRUELOOP_CANARY", "secret")
    (exported["onnx"] / "secret").write_text("of the user's", encoding="utf-8")
    before = sorted(exported["onnx"].iterdir())
    try:
        with opened(read_artifact(exported["onnx"])) as runner:
            said = runner.run([IMAGES])[0].tobytes().decode()
        assert (exported["onnx"] / "secret").read_text(encoding="utf-8") == "of the user's"
        assert sorted(exported["onnx"].iterdir()) == before
    finally:
        (exported["onnx"] / "secret").unlink()
    assert len(said.splitlines()) == 23
    assert "done" not in said, said


def test_a_model_that_names_a_file_of_the_user_does_not_get_it(
    exported: dict[str, Path], stranger: None, tmp_path: Path
) -> None:
    """ONNX keeps large weights in other files; ONNX Runtime opens whichever the model names."""
    onnx = pytest.importorskip("onnx")
    (tmp_path / "secret").write_bytes(bytes(48))
    weights = onnx.helper.make_tensor("weights", onnx.TensorProto.FLOAT, [12], bytes(48), raw=True)
    onnx.external_data_helper.set_external_data(weights, "secret")
    weights.ClearField("raw_data")
    output = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [12])
    node = onnx.helper.make_node("Identity", ["weights"], ["output"])
    graph = onnx.helper.make_graph([node], "graph", [], [output], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    file = tmp_path / "model.onnx"
    file.write_bytes(model.SerializeToString())
    assert OnnxRunner(file).run([])[0].shape == (12,)  # where it is trusted
    with pytest.raises(Refused, match=r"External data path .* escapes"):
        ConfinedRunner(replace(read_artifact(exported["onnx"]), folder=tmp_path))


# -- its end --


@pytest.fixture
def shades(exported: dict[str, Path], stranger: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfinedRunner]:
    monkeypatch.setattr(confined_runner, "READER", "tests.export.taken_over:answer_shades")
    with opened(read_artifact(exported["onnx"])) as runner:
        yield runner


def test_a_process_that_is_killed_is_started_again(shades: ConfinedRunner) -> None:
    said: list[str] = []
    shades.lost = said.append
    for _ in range(2):
        assert shades.run([IMAGES])[0].shape == (5, 3)
        os.kill(process_of(shades), signal.SIGKILL)
    assert shades.run([IMAGES])[0].shape == (5, 3)
    expected = f"{shades.artifact.file}: its confined process was ended by SIGKILL. Starting it again."
    assert said == [expected, expected]


def test_a_batch_that_ends_its_process_is_one_sentence(shades: ConfinedRunner) -> None:
    with pytest.raises(BadArtifact) as caught:
        shades.run([np.full((1, 1, 3, 4), 7, np.uint8)])
    said = (
        r"model\.onnx could not compute a batch of shape \[1, 1, 3, 4\]: its confined process was ended by SIGKILL\. "
    )
    assert re.search(f"{said}There is no output for it. If you trust its author, add --trust.$", str(caught.value))
    assert shades.run([IMAGES[:1]])[0].shape == (1, 3)


def test_a_batch_that_takes_for_ever_is_one_sentence(shades: ConfinedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_runner, "CALL", 0.5)
    with pytest.raises(BadArtifact, match=r"its confined process did not answer within 0\.5 s\. There is no output"):
        shades.run([np.full((1, 1, 3, 4), 8, np.uint8)])


def test_more_outputs_than_it_has_are_refused(shades: ConfinedRunner) -> None:
    with pytest.raises(BadArtifact, match=r"was refused: its confined process answered with 2 arrays instead of 1\."):
        shades.run([np.full((1, 1, 3, 4), 9, np.uint8)])


def test_a_batch_that_the_runtime_refuses_is_one_sentence(exported: dict[str, Path], stranger: None) -> None:
    with opened(read_artifact(exported["onnx"])) as runner:
        with pytest.raises(
            BadArtifact, match=r"model\.onnx could not compute a batch of shape \[2, 7\]: InvalidArgument"
        ):
            runner.run([np.zeros((2, 7), np.uint8)])
        assert runner.run([IMAGES])[0].shape == (5, 3)


# -- where it is refused --


@pytest.mark.parametrize("target", TARGETS)
def test_without_fences_it_is_refused(
    target: str, exported: dict[str, Path], stranger: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    said = r"was refused: this system has no seccomp or Landlock .* add --trust\. Nothing was run\."
    with pytest.raises(BadArtifact, match=said):
        runner_of(read_artifact(exported[target]))


def test_on_a_gpu_it_is_refused(exported: dict[str, Path], stranger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(find_exporter("pt2")), "require", lambda *_: None)
    said = "was not exported by you on this machine, so it runs in a confined process without GPU, not on cuda. Nothing"
    with pytest.raises(BadArtifact, match=said):
        runner_of(read_artifact(exported["pt2"]), "cuda")


def test_bench_says_that_it_measured_a_confined_process(exported: dict[str, Path], stranger: None) -> None:
    form = open_form(FormSpec("artifact", str(exported["onnx"]), "onnx"))
    assert isinstance(form.runner, ConfinedRunner)
    form.call(2)()
    form.runner.close()
    assert re.fullmatch(r"onnxruntime \S+, confined", form.runtime)


# -- arrays as bytes --


def joined(arrays: list[Array]) -> memoryview:
    return memoryview(bytearray(b"".join(pack(arrays))))


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8", "c16"])
def test_arrays_are_the_same_as_before(dtype: str) -> None:
    arrays = [np.arange(24).reshape(2, 3, 4).astype(dtype)[:, ::2], np.zeros((), dtype), np.zeros((0, 3), dtype)]
    again = unpack(joined(arrays), 3)
    assert [each.shape for each in again] == [(2, 2, 4), (), (0, 3)]
    assert all(np.array_equal(*pair) and pair[0].dtype == pair[1].dtype for pair in zip(arrays, again, strict=True))
    assert all(each.flags.aligned and each.flags.writeable for each in again)


def test_values_that_are_not_numbers_are_not_sent() -> None:
    with pytest.raises(ValueError, match="values of type object"):
        pack([np.array(["a"], object)])


@pytest.mark.parametrize(
    "table",
    [
        b"[[[", b"{}" * 9, b"[1]", b"[[1, 2]]", b'[["O", [1]]]', b'[["<f4", [1e9]]]', b'[["<f4", [-1]]]', b"[" * 90_000,
        b'[["<f4", [4611686018427387904, 4]]]', b'[["<f4", [0, 4611686018427387904, 4611686018427387904]]]',
        b'[["<f4", [true]]]', b'[["|O8", [1]]]', b'[["<b8", [1]]]', b'[["<f4"]]', b"null", b'[["<f4", {"0": 1}]]',
    ],
)  # fmt: skip
def test_a_table_that_lies_is_refused(table: bytes) -> None:
    with pytest.raises(ValueError, match=r"array|numbers"):
        unpack(memoryview(struct.pack("<Q", len(table)) + table + bytes(64)), 9)


@given(st.binary(max_size=200))
def test_any_bytes_are_arrays_or_refused(data: bytes) -> None:
    with suppress(NotArrays):
        assert all(each.dtype.kind in "biufc" for each in unpack(memoryview(data), 9))
