"""Which targets there are, and what runs an artifact."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from trueloop.errors import BadArtifact, Misuse, TrueloopError, did_you_mean
from trueloop.export.exporter import Exporter, Runner
from trueloop.export.folder import verified_file
from trueloop.results.artifact import Artifact

__all__ = ["TARGETS", "able", "exporter_named", "runner_of"]

TARGETS: Final = {
    "pt2": "Pt2",
    "aoti": "Aoti",
    "onnx": "Onnx",
    "executorch": "Executorch",
    "safetensors": "Safetensors",
    "torchscript": "Torchscript",
}
"""A target's file in this folder -> its class there."""
SPOKEN: Final = 200
"""Letters of a runtime's own words that are handed on."""


def exporter_named(target: str) -> Exporter:
    if target not in TARGETS:
        raise Misuse(
            f"There is no target {target!r}.{did_you_mean(target, TARGETS)} Nothing was run. There are: {', '.join(TARGETS)}."
        )
    made: Exporter = getattr(import_module(f"trueloop.export.{target}"), TARGETS[target])()
    return made


def able(artifact: Artifact, device: str = "") -> tuple[Exporter, str]:
    """Who would open it, and where: the file is whole, what it needs is here. Raises as `runner_of` does; nothing is
    loaded."""
    exporter, device = exporter_named(artifact.target), device or artifact.device
    exporter.fits(artifact, device)
    exporter.require(device)
    verified_file(artifact)
    return exporter, device


def runner_of(artifact: Artifact, device: str = "") -> Runner:
    """Opened in its own runtime, here; the model's file is verified first. `device`: cpu, cuda or cuda:N; empty: what
    its machine code is for, and of other targets the CPU. Raises BadArtifact, MissingExtra, or Misuse if it cannot run
    on this device."""
    exporter, device = able(artifact, device)
    try:
        return exporter.open(artifact, device)
    except TrueloopError:
        raise
    except Exception as error:  # noqa: BLE001 - each runtime has errors of its own, and all say that the file is no model
        why, runtime = " ".join(str(error).split())[:SPOKEN] or type(error).__name__, artifact.runtime["package"]
        on = "" if device == "cpu" else f" on {device}"
        raise BadArtifact(
            f"{artifact.file} cannot be opened by {runtime}{on} ({why}). Nothing was run. Export the run again."
        ) from None
