"""A script run with what each optimizer step starts from, for comparing an undisturbed run with a resumed one.

    python -m trueloop.claims.script_steps OUT.jsonl SEED STEPS KILL_AT SCRIPT [its own arguments]

Each step is a line of OUT, flushed at once: a process that is killed (SIGKILL, after step KILL_AT; 0: not at all)
leaves complete lines. SEED is set where the script seeds nothing; STEPS of 0: to its own end.
"""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO, final

import torch
from torch import nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trueloop.claims.operation_trace import Start, find_program
from trueloop.claims.tensor_digest import digest_of_all
from trueloop.doctor.launch import run
from trueloop.event import Place
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, undone_after

__all__ = ["ScriptSteps", "StepDigest", "read_steps"]

EVERYTHING: Final = 1 << 62  # elements per digest: all of them


@dataclass(frozen=True, slots=True)
class StepDigest:
    """An optimizer step: digests of what it starts from, and of the weights after it."""

    weights: int
    optimizer: int  # moments and counters
    rates: str  # learning rates and the other settings of its groups
    gradients: int
    after: int


@dataclass
class ScriptSteps:
    """A run, as far as it came."""

    steps: list[StepDigest] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)  # the number of steps before each `torch.save` of a file
    loads: int = 0  # calls of load_state_dict before the first step
    load_place: Place | None = None  # the last of them
    ended: str = "killed"  # finished | cut | exit | exception | interrupted | killed
    error: str = ""
    buffers: list[int] = field(default_factory=list)  # of the trained modules, at the end


def read_steps(file: Path) -> ScriptSteps:
    made = ScriptSteps()
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # the kill came in the middle of it
        kind, data = json.loads(line)
        if kind == "step":
            made.steps.append(StepDigest(**data))
        elif kind == "saved":
            made.saved.append(len(made.steps))
        elif kind == "loaded":
            made.loads += 1
            made.load_place = data and Place(**data)
        else:
            made.ended, made.error, made.buffers = data["ended"], data["error"], data["buffers"]
    return made


@final
class _Recorder:
    def __init__(self, out: TextIO, most: int, kill_at: int) -> None:
        self._out, self._most, self._kill_at = out, most, kill_at
        self._taken = 0
        self._process = os.getpid()  # a forked worker records nothing
        self._before: tuple[int, int, str, int] = (0, 0, "", 0)
        self._optimizers: set[int] = set()
        self._modules: list[nn.Module] = []  # those that are trained, kept for their buffers at the end

    def write(self, kind: str, data: Any) -> None:
        if os.getpid() == self._process:
            self._out.write(json.dumps([kind, data]) + "\n")
            self._out.flush()

    def buffers(self) -> list[int]:
        """In no particular order: sorted."""
        distinct = {id(buffer): buffer for module in self._modules for buffer in module.buffers()}
        return sorted(digest_of_all(buffer, EVERYTHING) for buffer in distinct.values())

    @contextmanager
    def on(self) -> Iterator[None]:
        handles = (register_optimizer_step_pre_hook(self._begins), register_optimizer_step_post_hook(self._ends))
        loads = [Patch(owner, "load_state_dict", self._loading) for owner in (nn.Module, Optimizer)]
        patches = [Patch(torch, "save", self._saving), *loads]
        with undone_after(handles, patches):
            yield

    def _begins(self, optimizer: Optimizer, *_: Any) -> None:
        if id(optimizer) not in self._optimizers:
            self._optimizers.add(id(optimizer))
            self._modules += _modules_of(optimizer)
        rates = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        weights = _weights(optimizer)
        state = [optimizer.state.get(weight) for weight in weights]
        numbers = [sorted((k, v) for k, v in each.items() if not torch.is_tensor(v)) for each in state if each]
        gradients = digest_of_all([weight.grad for weight in weights], EVERYTHING)
        shown = f"{rates} {numbers}"
        self._before = (digest_of_all(weights, EVERYTHING), digest_of_all(state, EVERYTHING), shown, gradients)

    def _ends(self, optimizer: Optimizer, *_: Any) -> None:
        if os.getpid() != self._process:
            return
        self._taken += 1
        self.write("step", asdict(StepDigest(*self._before, digest_of_all(_weights(optimizer), EVERYTHING))))
        if self._taken == self._kill_at:
            os.kill(self._process, signal.SIGKILL)
        if self._taken == self._most:
            raise StopTheRun(f"{self._most} steps are enough")

    def _saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.write("saved", None)
            return result

        return save

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._taken:
                place = here(2)
                self.write("loaded", place and asdict(place))
            return original(owner, *args, **kwargs)

        return load_state_dict


def _weights(optimizer: Optimizer) -> list[torch.Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _modules_of(optimizer: Optimizer) -> list[nn.Module]:
    """The modules that hold a weight of this optimizer, wherever the script keeps them."""
    trained = {id(weight) for weight in _weights(optimizer)}
    # By type: isinstance would ask objects for their __class__, and some of them warn.
    modules: list[nn.Module] = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    return [each for each in modules if any(id(weight) in trained for weight in each.parameters())]


def main(words: list[str]) -> int:
    out, seed, steps, kill_at, *command = words
    Start(int(seed), int(seed), int(seed)).set()
    with Path(out).open("w", encoding="utf-8") as lines:
        recorder = _Recorder(lines, int(steps), int(kill_at))
        with recorder.on():
            outcome, error = run(find_program(command))
        said = "" if error is None else f"{type(error).__name__}: {error}".split("\n")[0]
        recorder.write("end", {"ended": outcome.reason, "error": said, "buffers": recorder.buffers()})
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
