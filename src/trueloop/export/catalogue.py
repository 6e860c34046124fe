"""Which targets there are, and what runs an artefact."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from trueloop.artefact import Artefact
from trueloop.errors import Misuse, did_you_mean
from trueloop.export.exporter import Exporter, Runner
from trueloop.export.folder import verified_file

__all__ = ["TARGETS", "exporter_named", "runner_of"]

TARGETS: Final = {
    "pt2": "Pt2",
    "aoti": "Aoti",
    "onnx": "Onnx",
    "executorch": "Executorch",
    "safetensors": "Safetensors",
    "torchscript": "Torchscript",
}
"""A target's file in this folder -> its class there."""


def exporter_named(target: str) -> Exporter:
    if target not in TARGETS:
        raise Misuse(f"There is no target {target!r}.{did_you_mean(target, TARGETS)} Nothing was run. There are: {', '.join(TARGETS)}.")
    made: Exporter = getattr(import_module(f"trueloop.export.{target}"), TARGETS[target])()
    return made


def runner_of(artefact: Artefact) -> Runner:
    """Opened in its own runtime, here; the model's file is verified first. Raises BadArtefact or MissingExtra."""
    exporter = exporter_named(artefact.target)
    exporter.require()
    verified_file(artefact)
    return exporter.open(artefact)
