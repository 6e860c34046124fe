"""What is written for Triton and Docker."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.serve.made import artifact
from trueloop.errors import CannotSave, Misuse
from trueloop.results.artifact import FILE, Artifact, Port
from trueloop.serve.deployment import config_of, dockerfile_of, write_docker, write_triton
from trueloop.serve.limits import Limits


def on_disk(folder: Path, **fields: Any) -> Artifact:
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"abc")
    (folder / FILE).write_text("{}")
    return artifact(
        folder=folder, files={"model.onnx": {"bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}}, **fields
    )


def test_triton_gets_a_repository_with_model_config_and_labels(tmp_path: Path) -> None:
    written = write_triton(
        on_disk(tmp_path / "made", name="my shades"), tmp_path / "models", Limits(batch=8, wait=0.002, queue=64)
    )
    place = tmp_path / "models" / "my_shades"
    assert written == [place / "config.pbtxt", place / "labels.txt", place / "1" / "model.onnx"]
    assert (place / "1" / "model.onnx").read_bytes() == b"abc"
    assert (place / "labels.txt").read_text() == "dark\ngrey\nlight\n"
    assert (place / "config.pbtxt").read_text().splitlines() == [
        'name: "my_shades"',
        'backend: "onnxruntime"',
        "max_batch_size: 8",
        'input [ { name: "input" data_type: TYPE_UINT8 dims: [ 1, 3, 4 ] } ]',
        'output [ { name: "output" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]',
        "instance_group [ { kind: KIND_CPU } ]",
        "dynamic_batching { max_queue_delay_microseconds: 2000 default_queue_policy { max_queue_size: 64 } }",
    ]


def test_torchscript_has_places_in_place_of_names() -> None:
    config = config_of(artifact("tensors", target="torchscript"), Limits())
    assert 'backend: "pytorch"' in config
    assert 'name: "INPUT__0" data_type: TYPE_FP32 dims: [ 2 ]' in config
    assert 'name: "INPUT__1" data_type: TYPE_INT64 dims: [ 1 ]' in config
    assert 'name: "OUTPUT__0"' in config


def test_free_lengths_and_single_numbers_are_said_as_triton_says_them() -> None:
    told = artifact("tokens", outputs=(Port("output", "float32", (None,)),), classes=())
    config = config_of(told, Limits(batch=1))
    assert "dims: [ -1 ]" in config
    assert "dims: [ 1 ] reshape { shape: [ ] }" in config
    assert "dynamic_batching" not in config
    assert "label_filename" not in config


def test_a_batch_that_is_not_free_stays_in_the_shape() -> None:
    config = config_of(artifact(inputs=(Port("input", "uint8", (1, 1, 3, 4)),)), Limits())
    assert "max_batch_size: 0" in config
    assert "dims: [ 1, 1, 3, 4 ]" in config


def test_a_name_cannot_break_out_of_the_config() -> None:
    config = config_of(artifact(inputs=(Port('a" } ] evil: "\n', "uint8", (None, 3)),)), Limits())
    assert 'name: "a\\" } ] evil: \\"\\n" data_type' in config


def test_triton_runs_no_python(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"Triton does not run pt2 without Python.*--to onnx or torchscript"):
        write_triton(artifact(target="pt2"), tmp_path, Limits())
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    made = on_disk(tmp_path / "made")
    write_triton(made, tmp_path / "models", Limits())
    write_docker(made, tmp_path / "image", Limits())
    with pytest.raises(Misuse, match="exists"):
        write_triton(made, tmp_path / "models", Limits())
    with pytest.raises(Misuse, match="exists and is not empty"):
        write_docker(made, tmp_path / "image", Limits())


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    made = on_disk(tmp_path / "made")
    (tmp_path / "file").write_text("")
    for write in (write_triton, write_docker):
        with pytest.raises(CannotSave, match="could not be written"):
            write(made, tmp_path / "file" / "inside", Limits())


def test_the_image_holds_the_artifact_and_its_versions(tmp_path: Path) -> None:
    written = write_docker(on_disk(tmp_path / "made"), tmp_path / "image", Limits())
    assert written == [tmp_path / "image" / "Dockerfile", tmp_path / "image" / "artifact"]
    assert sorted(path.name for path in written[1].iterdir()) == [FILE, "model.onnx"]
    lines = written[0].read_text().splitlines()
    assert '    "torch==2.13.0" "onnxruntime==1.2.3" "$TRUELOOP"' in lines
    assert "USER serving" in lines
    assert lines.index("USER serving") < next(at for at, line in enumerate(lines) if line.startswith("CMD"))
    assert any(line.startswith('ARG TRUELOOP="trueloop[serve,onnx]==') for line in lines)


def test_torch_alone_needs_no_other_package_and_options_are_kept() -> None:
    text = dockerfile_of(
        artifact(target="pt2", runtime={"package": "torch", "version": "2.13.0"}, name="A b\nRUN evil"),
        Limits(wait=0.01),
    )
    assert '    "torch==2.13.0" "$TRUELOOP"' in text
    assert '"--wait", "10ms"' in text
    assert '"--connections", "1000", "--per-client", "500"' in text
    assert "\nRUN evil" not in text
    assert "docker build -t a-b-run-evil ." in text


def test_only_the_runtime_of_its_target_is_installed() -> None:
    """pip executes code of what it installs: a stranger's artifact may name any package."""
    text = dockerfile_of(artifact(runtime={"package": "evil", "version": "1.0"}), Limits())
    assert "evil" not in text
    assert '    "torch==2.13.0" "onnxruntime==1.0" "$TRUELOOP"' in text


@pytest.mark.parametrize("name", ["syntax=evil/image", "escape=`", "check=skip=all", " syntax = evil/image"])
def test_a_name_is_no_directive_of_the_builder(name: str) -> None:
    """`# syntax=IMAGE` on the first line makes BuildKit run IMAGE."""
    first = dockerfile_of(artifact(name=name), Limits()).splitlines()[0]
    assert not re.match(r"#\s*[A-Za-z][A-Za-z0-9]*\s*=", first)


def test_a_limit_on_latency_is_written_too() -> None:
    limits = Limits(latency=0.25)
    assert (
        "default_queue_policy { max_queue_size: 256 timeout_action: REJECT default_timeout_microseconds: 250000 }"
        in config_of(artifact(), limits)
    )
    assert '"--latency", "250ms"' in dockerfile_of(artifact(), limits)
    assert "--latency" not in dockerfile_of(artifact(), Limits())
