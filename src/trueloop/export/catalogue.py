"""The export targets, and opening an artifact with the runtime of its target."""

from importlib import import_module
from typing import Final

from trueloop.errors import BadArtifact, Misuse, TrueloopError, did_you_mean
from trueloop.export.confined_runner import ConfinedRunner, check_device, is_confined
from trueloop.export.exporter import Exporter, Runner
from trueloop.export.folder import verify_files
from trueloop.results.artifact import Artifact
from trueloop.trust.artifacts import check_artifact

__all__ = ["TARGETS", "check_runnable", "find_exporter", "runner_of"]

TARGETS: Final = ("pt2", "aoti", "onnx", "executorch", "safetensors", "torchscript")
"""Also the names of their files in this folder, and, capitalized, of their classes."""
QUOTED: Final = 200  # Characters of a runtime's error message that are quoted


def find_exporter(target: str) -> Exporter:
    if target not in TARGETS:
        guess = did_you_mean(target, TARGETS)
        raise Misuse(f"Unknown target {target!r}.{guess} Nothing was run. Targets: {', '.join(TARGETS)}.")
    exporter: Exporter = getattr(import_module(f"trueloop.export.{target}"), target.capitalize())()
    return exporter


def check_runnable(artifact: Artifact, device: str = "") -> tuple[Exporter, str]:
    """The exporter and the device that `runner_of` would use. Raises as it does, without loading the model."""
    exporter, device = find_exporter(artifact.target), device or artifact.device
    exporter.check_fits(artifact, device)
    exporter.require(device)
    check_artifact(artifact)
    check_device(artifact, device)
    verify_files(artifact)
    return exporter, device


def runner_of(artifact: Artifact, device: str = "") -> Runner:
    """Opens the artifact in its own runtime, after its file is verified; one that was not made here in a confined
    process. `device`: cpu, cuda or cuda:N; empty: the device of its machine code, otherwise the CPU. Raises
    BadArtifact, MissingExtra, or Misuse if it cannot run there."""
    exporter, device = check_runnable(artifact, device)
    try:
        return ConfinedRunner(artifact) if is_confined(artifact) else exporter.open(artifact, device)
    except TrueloopError:
        raise
    except Exception as error:  # noqa: BLE001 - each runtime raises errors of its own for a file that is not a model
        why, runtime = " ".join(str(error).split())[:QUOTED] or type(error).__name__, artifact.runtime["package"]
        on = "" if device == "cpu" else f" on {device}"
        failed = f"{artifact.file} cannot be opened by {runtime}{on} ({why})"
        raise BadArtifact(f"{failed}. Nothing was run. Export the run again.") from None
