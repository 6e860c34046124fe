"""A form of a model (an artifact, eager, compiled), opened in this process and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.bench.inputs import inputs_of

if TYPE_CHECKING:
    from trueloop.export.exporter import Runner
    from trueloop.results.artifact import Port

__all__ = ["WARM", "FormSpec", "OpenForm", "open_form", "time_calls"]

WARM: Final = 5  # Calls per batch size that are not counted: allocation, recompilation
LEAST: Final = 3  # Calls per turn, however long one takes


@dataclass(frozen=True, slots=True)
class FormSpec:
    """Which form, in plain values: it is sent to another process."""

    kind: str  # artifact | eager | compiled
    folder: str  # Of the artifact, or of the run
    name: str
    about: Mapping[str, Any] = field(default_factory=dict)  # Of a run: `origin` and `data` of its run.json
    checkpoint: str = "best"
    device: str = "cpu"

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@final
@dataclass(frozen=True)
class OpenForm:
    runtime: str
    bytes: int
    ports: tuple[Port, ...]
    preprocessing: Mapping[str, Any]
    runner: Runner  # From arrays to arrays in host memory: on a GPU both copies are part of a call

    def call(self, batch: int) -> Callable[[], object]:
        arrays = inputs_of(self.ports, self.preprocessing, batch)
        return lambda: self.runner.run(arrays)


def time_calls(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The duration of each call, repeated for `seconds`."""
    times: list[float] = []
    begun = last = clock()
    while last - begun < seconds or len(times) < LEAST:
        call()
        now = clock()
        times.append(now - last)
        last = now
    return times


def open_form(spec: FormSpec) -> OpenForm:
    return _open_artifact(spec) if spec.kind == "artifact" else _open_model(spec)


def _open_artifact(spec: FormSpec) -> OpenForm:
    from trueloop.export.catalogue import runner_of
    from trueloop.export.confined_runner import is_confined
    from trueloop.export.folder import read_artifact

    artifact = read_artifact(Path(spec.folder))
    runner = runner_of(artifact, spec.device)
    size = artifact.files[artifact.file.name]["bytes"]
    apart = ", confined" if is_confined(artifact) else ""
    runtime = f"{artifact.runtime['package']} {artifact.runtime['version']}{apart}"
    return OpenForm(runtime, size, artifact.inputs, artifact.preprocessing, runner)


def _open_model(spec: FormSpec) -> OpenForm:
    import torch

    from trueloop.export.device import torch_device
    from trueloop.export.exporter import TorchRunner
    from trueloop.export.trained_model import Origin, load_trained_model

    trained = load_trained_model(Origin.of_run(Path(spec.folder), spec.about, checkpoint=spec.checkpoint))
    program, device = trained.program(), torch_device(spec.device)
    ports = trained.example(program, inside=True).ports
    preprocessing = trained.preprocessing(inside=True)
    run: Any = program.to(device)
    run = torch.compile(run) if spec.kind == "compiled" else run
    return OpenForm(f"torch {torch.__version__}", 0, ports, preprocessing, TorchRunner(run, device))
