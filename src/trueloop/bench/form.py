"""A form of a model, opened in this process: what a call is, and how it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from trueloop.bench.inputs import inputs_of

if TYPE_CHECKING:
    from trueloop.export.exporter import Runner
    from trueloop.results.artifact import Port

__all__ = ["WARM", "Asked", "Opened", "opened", "timed"]

WARM: Final = 5
"""Calls that are not counted, of each size of batch: memory is found, a compiler may compile again."""
LEAST: Final = 3
"""Calls of a turn, however long one takes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which form, in plain values: it travels to another process."""

    kind: str
    """artifact | eager | compiled."""
    folder: str
    """Of the artifact, or of the run."""
    name: str
    origin: Mapping[str, Any] | None = None
    """Of a run: the recipe, as run.json names it."""
    data: str = ""
    checkpoint: str = "best"
    device: str = "cpu"
    """cpu, cuda or cuda:N: the same for all forms of a bench."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@final
@dataclass(frozen=True)
class Opened:
    """Ready to be called."""

    runtime: str
    bytes: int
    ports: tuple[Port, ...]
    preprocessing: Mapping[str, Any]
    runner: Runner
    """From arrays to arrays, in the host's memory: what goes to a GPU and comes back is part of a call."""

    def call(self, batch: int) -> Callable[[], object]:
        arrays = inputs_of(self.ports, self.preprocessing, batch)
        return lambda: self.runner.run(arrays)


def timed(call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Seconds of each call, until so many seconds are over."""
    times: list[float] = []
    begun = last = clock()
    while last - begun < seconds or len(times) < LEAST:
        call()
        now = clock()
        times.append(now - last)
        last = now
    return times


def opened(asked: Asked) -> Opened:
    return _artifact(asked) if asked.kind == "artifact" else _model(asked)


def _artifact(asked: Asked) -> Opened:
    from trueloop.export.catalogue import runner_of
    from trueloop.export.folder import read_artifact

    artifact = read_artifact(Path(asked.folder))
    runner = runner_of(artifact, asked.device)
    size = artifact.files[artifact.file.name]["bytes"]
    runtime = f"{artifact.runtime['package']} {artifact.runtime['version']}"
    return Opened(runtime, size, artifact.inputs, artifact.preprocessing, runner)


def _model(asked: Asked) -> Opened:
    import torch

    from trueloop.export.device import TorchRunner, torch_device
    from trueloop.export.subject import subject_of
    from trueloop.recipe.overrides import apply_overrides
    from trueloop.recipe.recipe import DataRequest
    from trueloop.recipes.catalogue import find_recipe

    assert asked.origin is not None
    recipe = apply_overrides(find_recipe(asked.origin["recipe"], asked.origin["arguments"]), asked.origin["settings"])
    request = DataRequest(Path(asked.data) if asked.data else None, False, recipe.seed)
    subject = subject_of(recipe, request, Path(asked.folder), asked.checkpoint)
    program = subject.program()
    given = subject.given(program, inside=True)
    preprocessing = subject.preprocessing(inside=True)
    device = torch_device(asked.device)
    run: Any = program.to(device)
    run = torch.compile(run) if asked.kind == "compiled" else run
    return Opened(f"torch {torch.__version__}", 0, given.ports, preprocessing, TorchRunner(run, device))
