"""One trial in its own process: `python -m trueloop.tune.trial`. It talks in lines of JSON:

    <- {"word": "digits", ..., "changes": {"threads": 1}}     the recipe, and what to change
    -> {"ready": {...}}                                       it is warmed up and waits
    <- {"do": "window", "seconds": 0.2}                       train for about this long
    -> {"window": [0.0031, 0.0030], "peak": 104857600}        seconds per step of each interval
    <- {"do": "prove", ...}                                   collect evidence to compare with the reference
    -> {"proof": {...}}
    <- {"do": "stop"}

So two trials can be timed in turns. An error is its last line, {"error": ...}. What the recipe prints goes to stderr.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TextIO, final

import torch

from trueloop.engine.row_schedule import row_interval
from trueloop.errors import TrueloopError
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.tune.process import PeakMemory, TrialSpec
from trueloop.tune.timing import Controller, Enough, TrialRecipe, calibrate_interval, drive
from trueloop.tune.trial_evidence import Order, collect_evidence

__all__ = ["FEWEST", "Channel", "full_replays", "main", "variant"]


def variant(spec: TrialSpec, changes: Mapping[str, Any]) -> Recipe:
    """The user's recipe with their settings and these changes."""
    return replace(find_recipe(spec.word, spec.arguments, spec.settings), **changes)


RECOMPILES: Final = 256
"""Evidence needs several trainings, each with a new model, and each counts as a recompile. Beyond torch's limit of
eight the model would silently run eagerly."""
FEWEST: Final = 2
"""Intervals of a turn. The first is not counted: part of it may have run before, and the other trial has used the
caches."""


def full_replays(every: int, recipe: Recipe) -> int:
    """Steps between two rows of metrics, rounded up to full replays; the recipe's own interval is not changed."""
    steps = recipe.steps_per_replay
    if recipe.program != "cuda_graphs" or every == row_interval(recipe.log_every):
        return every
    return -(-every // steps) * steps


@final
class Channel:
    """Messages from and to the parent process."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def receive(self) -> dict[str, Any]:
        """The next message; stop if the parent is gone."""
        line = self._incoming.readline()
        return dict(json.loads(line)) if line else {"do": "stop"}

    def send(self, **message: Any) -> None:
        self._outgoing.write(json.dumps(message) + "\n")
        self._outgoing.flush()


def main() -> int:
    outgoing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the recipe prints goes to stderr
    channel = Channel(sys.stdin, outgoing)
    try:
        work(TrialSpec(**channel.receive()), channel)
    except Exception as error:  # noqa: BLE001 - any error is the trial's result
        if not _is_memory(error):
            import traceback

            traceback.print_exc()
        channel.send(error=_message(error), memory=_is_memory(error))
        return 1
    return 0


def work(spec: TrialSpec, channel: Channel) -> None:
    began = perf_counter()
    if torch.cuda.is_available() and spec.fraction < 1.0:
        torch.cuda.set_per_process_memory_fraction(spec.fraction)
    memory = PeakMemory()
    request = DataRequest(Path(spec.data) if spec.data else None, spec.download)
    subject = TrialRecipe(variant(spec, spec.changes), request)
    if subject.recipe.compile != "off":
        from trueloop.torch_private.compiler import set_recompile_limit  # lazy: it loads dynamo

        set_recompile_limit(RECOMPILES)
    every = full_replays(spec.log_every or calibrate_interval(subject), subject.recipe)
    ending = drive(subject, every, _Trial(spec, subject, channel, memory, began, every))
    if ending is not None:
        raise RuntimeError(f"the training ended early: {ending}")


@final
class _Trial(Controller):
    def __init__(
        self, spec: TrialSpec, subject: TrialRecipe, channel: Channel, memory: PeakMemory, began: float, every: int
    ) -> None:
        self.spec, self.subject, self.channel, self.memory = spec, subject, channel, memory
        self.began, self.every = began, every
        self.until = 0.0
        self.steps: list[float] = []

    def warm(self, per_step: float, samples: float) -> None:
        if self.subject.recipe.program != "cuda_graphs":  # the memory of a graph is allocated while recording
            self.memory.reset()
        ready = {"start": perf_counter() - self.began, "every": self.every, "step": per_step, "samples": samples}
        self.channel.send(ready=ready)
        self._wait()

    def interval(self, per_step: float) -> None:
        self.steps.append(per_step)
        if perf_counter() >= self.until and len(self.steps) >= FEWEST:
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()  # otherwise its work would run in the other's turn
            self.channel.send(window=self.steps, peak=self.memory.peak())
            self._wait()

    def _wait(self) -> None:
        while (order := self.channel.receive())["do"] == "prove":
            reference = variant(self.spec, self.spec.reference)
            self.channel.send(proof=collect_evidence(self.subject, reference, Order(**order["order"])))
        if order["do"] == "stop":
            raise Enough
        self.steps, self.until = [], perf_counter() + order["seconds"]


def _is_memory(error: BaseException) -> bool:
    """CUDA has a class for it; on the CPU the message differs by system."""
    words = ("can't allocate memory", "not enough memory")
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(word in str(error) for word in words)


def _message(error: BaseException) -> str:
    """trueloop's errors in full, of others the class and the first line."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    if isinstance(error, TrueloopError):
        return " ".join(lines)
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")


if __name__ == "__main__":
    # Imported under its own name: the classes of __main__ would differ from imported ones.
    from trueloop.tune.trial import main as start

    sys.exit(start())
