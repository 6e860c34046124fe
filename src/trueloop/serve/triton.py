"""A model repository for Triton Inference Server: NAME/config.pbtxt, NAME/labels.txt, NAME/1/model.onnx or .pt. No
Python runs there."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trueloop.errors import CannotSave, Misuse
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.limits import Limits

__all__ = ["config_of", "write_triton"]

BACKENDS: Final[Mapping[str, str]] = {"onnx": "onnxruntime", "torchscript": "pytorch"}
"""Target -> which of Triton's backends runs it."""
TYPES: Final[Mapping[str, str]] = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}
LABELS: Final = "labels.txt"


def write_triton(artifact: Artifact, folder: Path, limits: Limits) -> list[Path]:
    """What was written. Raises Misuse: Triton runs no such artifact, or something is there already."""
    if artifact.target not in BACKENDS:
        raise Misuse(
            f"Triton runs no {artifact.target} without Python. Nothing was written: "
            f"export the run again --to {' or '.join(BACKENDS)}, and write that."
        )
    place = folder / re.sub(r"[^\w-]", "_", artifact.name)
    if place.exists():
        raise Misuse(f"{place} is there already. Nothing was written: remove it, or name another folder.")
    config, labels, model = place / "config.pbtxt", place / LABELS, place / "1" / artifact.file.name
    try:
        model.parent.mkdir(parents=True)
        shutil.copyfile(artifact.file, model)
        config.write_text(config_of(artifact, limits), encoding="utf-8")
        if artifact.classes:
            labels.write_text("".join(f"{_plain(name)}\n" for name in artifact.classes), encoding="utf-8")
    except OSError as error:
        raise CannotSave(f"{place} could not be written ({error.strerror or error}).") from None
    return [config, *([labels] if artifact.classes else []), model]


def config_of(artifact: Artifact, limits: Limits) -> str:
    """In protobuf's text form. The batch is Triton's own dimension where every port has a free one."""
    ports = (*artifact.inputs, *artifact.outputs)
    batched = all(port.shape and port.shape[0] is None for port in ports)
    most = artifact.inputs[0].limit(0)
    size = (min(limits.batch, most) if most else limits.batch) if batched else 0
    parts = [
        f"name: {_quoted(re.sub(r'[^A-Za-z0-9_-]', '_', artifact.name))}",
        f'backend: "{BACKENDS[artifact.target]}"',
        f"max_batch_size: {size}",
        *_ports("input", artifact.inputs, artifact, batched),
        *_ports("output", artifact.outputs, artifact, batched),
        "instance_group [ { kind: KIND_CPU } ]",
    ]
    if size > 1:
        delay = f"max_queue_delay_microseconds: {round(limits.wait * 1e6)}"
        late = (
            f" timeout_action: REJECT default_timeout_microseconds: {round(limits.latency * 1e6)}"
            if limits.latency < math.inf
            else ""
        )
        queue = f"default_queue_policy {{ max_queue_size: {limits.queue}{late} }}"
        parts.append(f"dynamic_batching {{ {delay} {queue} }}")
    return "\n".join((*parts, ""))


def _ports(kind: str, ports: Sequence[Port], artifact: Artifact, batched: bool) -> list[str]:
    lines = []
    for at, port in enumerate(ports):
        # TorchScript has places and no names: Triton wants them said so.
        name = f"{kind.upper()}__{at}" if artifact.target == "torchscript" else port.name
        dims = ", ".join(str(-1 if size is None else size) for size in port.shape[1 if batched else 0 :]) or "1"
        reshaped = " reshape { shape: [ ] }" if batched and len(port.shape) == 1 else ""
        labels = f' label_filename: "{LABELS}"' if kind == "output" and at == 0 and artifact.classes else ""
        lines.append(
            f"{kind} [ {{ name: {_quoted(name)} data_type: {TYPES[port.dtype]} dims: [ {dims} ]{reshaped}{labels} }} ]"
        )
    return lines


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _plain(name: str) -> str:
    """One line."""
    return " ".join(name.split())
