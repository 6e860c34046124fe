"""A folder for `docker build`: an image that serves one artifact, unprivileged, with the versions that made it."""

import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trueloop import __version__
from trueloop.errors import CannotSave, Misuse
from trueloop.results.artifact import FILE, Artifact
from trueloop.serve.limits import Limits

__all__ = ["dockerfile_of", "write_docker"]

PYTHON: Final = "3.12"
EXTRAS: Final[Mapping[str, str]] = {"onnx": "serve,onnx", "executorch": "serve,executorch"}
"""Target -> extras of trueloop; other targets only need torch."""
TEMPLATE: Final = """# {name} as {target}, served by trueloop. Made by `trueloop serve --write docker`.
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


def dockerfile_of(artifact: Artifact, limits: Limits) -> str:
    runtime = artifact.runtime
    options = {
        "--batch": str(limits.batch),
        "--wait": f"{limits.wait * 1e3:g}ms",
        **({"--latency": f"{limits.latency * 1e3:g}ms"} if limits.latency < math.inf else {}),
        "--queue": str(limits.queue),
        "--max-body": f"{limits.body}B",
        "--timeout": f"{limits.timeout:g}s",
        "--grace": f"{limits.grace:g}s",
    }
    return TEMPLATE.format(
        name=" ".join(artifact.name.split()),
        target=artifact.target,
        tag=re.sub("[^a-z0-9]", "-", artifact.name.lower()).strip("-") or "model",
        python=PYTHON,
        extras=EXTRAS.get(artifact.target, "serve"),
        version=__version__,
        torch=artifact.versions["torch"].partition("+")[0],
        runtime=f'"{runtime["package"]}=={runtime["version"]}" ' if runtime["package"] != "torch" else "",
        options=", ".join(f'"{word}"' for pair in options.items() for word in pair),
    )
