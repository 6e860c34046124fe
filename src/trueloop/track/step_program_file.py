"""`step_program.json` in the folder of a checked script: what its sampled steps computed, compact, for drawing.

    {"format": 1,
     "files": ["/home/me/train.py"],
     "models": [{"model": 0, "name": "Net", "parameters": 1290}],
     "optimizers": [{"optimizer": 0, "name": "AdamW", "learning_rates": [0.001]}],
     "programs": [{
        "phase": "training", "step": 2, "complete": true,
        "values": [[[64, 784], "float32", "batch", ""], ..., [[10], "float32", "parameter", "fc.bias", "optimizer"]],
        "operations": [["linear", [0, 1, 2], [3], [0, 12], 0, 1], ...],
        "calls": [{"model": 0, "name": "Net", "inputs": [0], "outputs": [3], "place": [0, 31], "training": true,
                   "grad": true}],
        "losses": [7]}]}

files        the user's files; a place in a program is `[index in files, line]`, or null
models       every model that was called, with the number of its parameters
optimizers   every optimizer that stepped
programs     one training step, and one evaluation if one was sampled
  values       by number: [shape, dtype, origin, name], and who trains it where that is known. origin: operation,
               parameter, buffer, batch (from a loader) or outside (a tensor from before the step). Who trains a
               parameter: optimizer, elsewhere or nobody
  operations   in order: [name, inputs, outputs, place, model, own]. inputs and outputs are numbers of values; model is
               the one in whose forward it ran, -1: none; own is 1 where the user's line calls it itself, not a layer
  calls        of models: inputs and outputs are numbers of values
  losses       values on which backward was called
  complete     false: the step had more operations than are recorded
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from trueloop.event import Event, ModelSeen, Operation, Place, Stepped, StepProgram, Value

__all__ = ["FILE", "StepProgramFile"]

FILE: Final = "step_program.json"
FORMAT: Final = 1
KINDS: Final = frozenset({StepProgram, ModelSeen, Stepped})
MOST_PROGRAMS: Final = 3  # of one phase: the first steps of a run are sampled; the last of them is kept


@final
class StepProgramFile:
    """Collects what a run says about its steps; `write` puts it on disk if there is something new."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._models: dict[int, ModelSeen] = {}
        self._optimizers: dict[int, Stepped] = {}
        self._programs: dict[str, StepProgram] = {}
        self._seen: dict[str, int] = {}
        self._new = False

    def hear(self, event: Event) -> None:
        if isinstance(event, StepProgram):
            count = self._seen[event.phase] = self._seen.get(event.phase, 0) + 1
            before = self._programs.get(event.phase)
            if count <= MOST_PROGRAMS and (before is None or len(event.losses) >= len(before.losses)):
                self._programs[event.phase], self._new = event, True
        elif isinstance(event, ModelSeen):
            self._models.setdefault(event.model, event)
        elif isinstance(event, Stepped) and event.optimizer not in self._optimizers:
            self._optimizers[event.optimizer] = event

    def write(self) -> None:
        """Replaced whole. Raises OSError."""
        if not self._new:
            return
        self._new = False
        aside = self.path.with_suffix(".writing")
        aside.write_text(json.dumps(self._content(), separators=(",", ":")) + "\n", encoding="utf-8")
        aside.replace(self.path)

    def _content(self) -> Mapping[str, Any]:
        files: dict[str, int] = {}
        programs = [_program(program, files) for program in self._programs.values()]
        models = [
            {"model": each.model, "name": each.name, "parameters": each.parameters} for each in self._models.values()
        ]
        optimizers = [
            {"optimizer": each.optimizer, "name": each.name, "learning_rates": each.learning_rates}
            for each in self._optimizers.values()
        ]
        return {
            "format": FORMAT,
            "files": list(files),
            "models": models,
            "optimizers": optimizers,
            "programs": programs,
        }


def _program(program: StepProgram, files: dict[str, int]) -> dict[str, Any]:
    def place(at: Place | None) -> list[int] | None:
        return None if at is None else [files.setdefault(at.path, len(files)), at.line]

    def operation(each: Operation) -> list[Any]:
        return [each.name, each.inputs, each.outputs, place(each.place), each.model, int(each.direct)]

    calls = [
        {
            "model": use.model,
            "name": use.name,
            "inputs": use.inputs,
            "outputs": use.outputs,
            "place": place(use.place),
            "training": use.training,
            "grad": use.grad,
        }
        for use in program.models
    ]
    return {
        "phase": program.phase,
        "step": program.step,
        "complete": program.complete,
        "values": [_value(value) for value in program.values],
        "operations": [operation(each) for each in program.operations],
        "calls": calls,
        "losses": program.losses,
    }


def _value(value: Value) -> list[Any]:
    known: list[Any] = [value.shape, value.dtype, value.origin, value.name]
    return [*known, value.trainer] if value.trainer else known
