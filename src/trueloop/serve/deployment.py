"""Files to serve a model elsewhere: a model repository for Triton Inference Server (NAME/config.pbtxt, NAME/labels.txt,
NAME/1/model.onnx or .pt), or a folder for `docker build`."""

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trueloop import __version__
from trueloop.errors import CannotSave, Misuse
from trueloop.export.catalogue import find_exporter
from trueloop.results.artifact import FILE, Artifact, Port
from trueloop.serve.limits import Limits
from trueloop.trust.artifacts import CARRY_CODE, is_own

__all__ = ["config_of", "dockerfile_of", "image_of", "write_docker", "write_triton"]

BACKENDS: Final[Mapping[str, str]] = {"onnx": "onnxruntime", "torchscript": "pytorch"}  # Target -> Triton backend
LABELS: Final = "labels.txt"
PYTHON: Final = "3.12"
EXTRAS: Final[Mapping[str, str]] = {"onnx": "serve,onnx", "executorch": "serve,executorch"}
"""Target -> extras of trueloop; other targets only need torch."""
# The first comment begins with a word of ours: `# syntax=IMAGE`, by a stranger's name, would make BuildKit run IMAGE.
TEMPLATE: Final = """# Made by `trueloop serve --write docker`: {name} as {target}, served by trueloop.
#   docker build -t {tag} .
#   docker run -p 127.0.0.1:8000:8000 -e TRUELOOP_API_KEY=... {tag}
FROM python:{python}-slim
# For a local wheel or a private index: docker build --build-arg TRUELOOP=...
ARG TRUELOOP="trueloop[{extras}]=={version}"
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \\
    "torch=={torch}" {runtime}"$TRUELOOP"
RUN useradd --system --no-create-home serving
COPY artifact /artifact
USER serving
ENV OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --start-period=60s --interval=10s --timeout=3s \\
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/ready', timeout=2)"]
STOPSIGNAL SIGTERM
CMD ["trueloop", "serve", "/artifact", "--host", "0.0.0.0", "--port", "8000", {options}]
"""


def write_triton(artifact: Artifact, folder: Path, limits: Limits) -> list[Path]:
    """The paths that were written. Raises Misuse: Triton does not support the target, or the folder exists."""
    if artifact.target not in BACKENDS:
        why = f"Triton does not run {artifact.target} without Python."
        raise Misuse(f"{why} Nothing was written: export the run again --to {' or '.join(BACKENDS)}.")
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


def write_docker(artifact: Artifact, folder: Path, limits: Limits) -> list[Path]:
    """The paths that were written. Raises Misuse if the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Misuse(f"{folder} exists and is not empty. Nothing was written: choose another folder.")
    copied = folder / "artifact"
    try:
        copied.mkdir(parents=True)
        for name in (FILE, *artifact.files):
            shutil.copyfile(artifact.folder / name, copied / name)
        (folder / "Dockerfile").write_text(dockerfile_of(artifact, limits), encoding="utf-8")
    except OSError as error:
        raise CannotSave(f"{folder} could not be written ({error.strerror or error}).") from None
    return [folder / "Dockerfile", copied]


def image_of(artifact: Artifact) -> str:
    """The name of its image."""
    return re.sub("[^a-z0-9]", "-", artifact.name.lower()).strip("-") or "model"


def dockerfile_of(artifact: Artifact, limits: Limits) -> str:
    package = find_exporter(artifact.target).runtime  # never a package that the artifact names: pip would run its code
    options = {
        "--batch": str(limits.batch),
        "--wait": f"{limits.wait * 1e3:g}ms",
        **({"--latency": f"{limits.latency * 1e3:g}ms"} if limits.latency < math.inf else {}),
        "--queue": str(limits.queue),
        "--max-body": f"{limits.body}B",
        "--timeout": f"{limits.timeout:g}s",
        "--grace": f"{limits.grace:g}s",
        "--connections": str(limits.connections),
        "--per-client": str(limits.per_client),
    }
    # Whoever writes this file has code checked; the key that shows what was exported here is not in the image.
    trust = ("--trust",) if artifact.target in CARRY_CODE or is_own(artifact) else ()
    return TEMPLATE.format(
        name=" ".join(artifact.name.split()),
        target=artifact.target,
        tag=image_of(artifact),
        python=PYTHON,
        extras=EXTRAS.get(artifact.target, "serve"),
        version=__version__,
        torch=artifact.versions["torch"].partition("+")[0],
        runtime=f'"{package}=={artifact.runtime["version"]}" ' if package != "torch" else "",
        options=", ".join(f'"{word}"' for word in (*trust, *(each for pair in options.items() for each in pair))),
    )
