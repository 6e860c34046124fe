"""A model repository for Triton Inference Server: NAME/config.pbtxt, NAME/labels.txt, NAME/1/model.onnx or .pt."""

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

BACKENDS: Final[Mapping[str, str]] = {"onnx": "onnxruntime", "torchscript": "pytorch"}  # Target -> Triton backend
LABELS: Final = "labels.txt"


def write_triton(artifact: Artifact, folder: Path, limits: Limits) -> list[Path]:
    """The paths that were written. Raises Misuse: Triton does not support the target, or the folder exists."""
    if artifact.target not in BACKENDS:
        raise Misuse(
            f"Triton does not run {artifact.target} without Python. Nothing was written: export the run again --to "
            f"{' or '.join(BACKENDS)}."
        )
    place = folder / re.sub(r"[^\w-]", "_", artifact.name)
    if place.exists():
        raise Misuse(f"{place} exists. Nothing was written: remove it, or choose another folder.")
    config, labels, model = place / "config.pbtxt", place / LABELS, place / "1" / artifact.file.name
    try:
        model.parent.mkdir(parents=True)
        shutil.copyfile(artifact.file, model)
        config.write_text(config_of(artifact, limits), encoding="utf-8")
        if artifact.classes:
            labels.write_text("".join(f"{' '.join(name.split())}\n" for name in artifact.classes), encoding="utf-8")
    except OSError as error:
        raise CannotSave(f"{place} could not be written ({error.strerror or error}).") from None
    return [config, *([labels] if artifact.classes else []), model]


def config_of(artifact: Artifact, limits: Limits) -> str:
    """config.pbtxt. Triton adds the batch dimension if every port has a free one."""
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
        late = ""
        if limits.latency < math.inf:
            late = f" timeout_action: REJECT default_timeout_microseconds: {round(limits.latency * 1e6)}"
        queue = f"default_queue_policy {{ max_queue_size: {limits.queue}{late} }}"
        parts.append(f"dynamic_batching {{ {delay} {queue} }}")
    return "\n".join((*parts, ""))


def _ports(kind: str, ports: Sequence[Port], artifact: Artifact, batched: bool) -> list[str]:
    lines = []
    for at, port in enumerate(ports):
        # TorchScript has no tensor names: Triton numbers them.
        name = f"{kind.upper()}__{at}" if artifact.target == "torchscript" else port.name
        dims = ", ".join(str(-1 if size is None else size) for size in port.shape[1 if batched else 0 :]) or "1"
        reshaped = " reshape { shape: [ ] }" if batched and len(port.shape) == 1 else ""
        labels = f' label_filename: "{LABELS}"' if kind == "output" and at == 0 and artifact.classes else ""
        dtype = f"TYPE_{port.dtype.upper().replace('FLOAT', 'FP')}"
        fields = f"name: {_quoted(name)} data_type: {dtype} dims: [ {dims} ]{reshaped}{labels}"
        lines.append(f"{kind} [ {{ {fields} }} ]")
    return lines


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
