"""One trial, in a process of its own: `python -m trueloop.tune.trial`. It is told what to do by lines of JSON, and
answers by such lines.

    <- {"word": "digits", ..., "changes": {"threads": 1}}     the recipe, and what to change
    -> {"ready": {...}}                                       it trains, warm, and waits between two lines of metrics
    <- {"do": "window", "seconds": 0.2}                       train for about so long
    -> {"window": [0.0031, 0.0030], "peak": 104857600}        seconds per step of each interval
    <- {"do": "prove", ...}                                   compute what is held against the reference
    -> {"proof": {...}}
    <- {"do": "stop"}

So two trials can be timed in turns, on the same machine in the same minute. Whatever ends it is told in one last line,
{"error": ...}; or by its silence, when it was killed. What the recipe prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TextIO, final

import torch

from trueloop.errors import TrueloopError
from trueloop.recipe.overrides import apply_overrides
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.tune.sameness import Order, prove
from trueloop.tune.spec import Spec
from trueloop.tune.subject import Subject
from trueloop.tune.timing import Desk, Enough, calibrated, drive
from trueloop.tune.watermark import Watermark

__all__ = ["FEWEST", "Line", "main", "variant", "whole_replays"]


def variant(spec: Spec, changes: Mapping[str, Any]) -> Recipe:
    """The user's recipe with their settings and these changes."""
    return replace(apply_overrides(find_recipe(spec.word, spec.arguments), spec.settings), **changes)


RECOMPILES: Final = 256
"""A proof builds the model anew for each of its trainings, and each counts as a recompile: beyond torch's limit of
eight it would be run as it is, without a word, and the proof would be of something else."""


FEWEST: Final = 2
"""Intervals of a turn: the first is not counted, because a part of it may have been done before (a line of metrics is
told when the next steps are under way), and because it comes back to caches that the other has used."""


def whole_replays(every: int, recipe: Recipe) -> int:
    """Steps between two lines of metrics in which a graphed program has something to play; the recipe's own interval
    stays as it is."""
    steps = recipe.steps_per_replay
    if recipe.program != "cuda_graphs" or every == recipe.log_every:
        return every
    return -(-every // steps) * steps


@final
class Line:
    """The talk with whoever started this process."""

    def __init__(self, listening: TextIO, telling: TextIO) -> None:
        self._listening, self._telling = listening, telling

    def told(self) -> dict[str, Any]:
        """The next line; nobody there any more: stop."""
        line = self._listening.readline()
        return dict(json.loads(line)) if line else {"do": "stop"}

    def tell(self, **said: Any) -> None:
        self._telling.write(json.dumps(said) + "\n")
        self._telling.flush()


def main() -> int:
    telling = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the recipe prints is no answer of ours
    line = Line(sys.stdin, telling)
    try:
        work(Spec(**line.told()), line)
    except Exception as error:  # noqa: BLE001 - the last door of this process: whatever it is, it is the trial's result
        if not _is_memory(error):
            import traceback

            traceback.print_exc()
        line.tell(error=_said(error), memory=_is_memory(error))
        return 1
    return 0


def work(spec: Spec, line: Line) -> None:
    began = perf_counter()
    if torch.cuda.is_available() and spec.fraction < 1.0:
        torch.cuda.set_per_process_memory_fraction(spec.fraction)
    mark = Watermark()
    request = DataRequest(Path(spec.data) if spec.data else None, spec.download)
    subject = Subject(variant(spec, spec.changes), request)
    if subject.recipe.compile != "off":
        from trueloop.torch_private.compiler import set_recompile_limit  # lazy: it loads dynamo

        set_recompile_limit(RECOMPILES)
    every = whole_replays(spec.log_every or calibrated(subject), subject.recipe)
    desk = _Trial(spec, subject, line, mark, began, every)
    ending = drive(subject, every, desk)
    if ending is not None:
        raise RuntimeError(f"the training ended by itself: {ending}")


@final
class _Trial(Desk):
    """Answers between two lines of metrics."""

    def __init__(self, spec: Spec, subject: Subject, line: Line, mark: Watermark, began: float, every: int) -> None:
        self.spec, self.subject, self.line, self.mark, self.began, self.every = spec, subject, line, mark, began, every
        self.until = 0.0
        self.steps: list[float] = []

    def warm(self, per_step: float, samples: float) -> None:
        if (
            self.subject.recipe.program != "cuda_graphs"
        ):  # what a recording holds is taken when it is made, and never counted again
            self.mark.reset()
        said = {"start": perf_counter() - self.began, "every": self.every, "step": per_step, "samples": samples}
        self.line.tell(ready=said)
        self._wait()

    def interval(self, per_step: float) -> None:
        self.steps.append(per_step)
        if perf_counter() >= self.until and len(self.steps) >= FEWEST:
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()  # what is under way there would be done in the other's turn
            self.line.tell(window=self.steps, peak=self.mark.peak())
            self._wait()

    def _wait(self) -> None:
        while (asked := self.line.told())["do"] == "prove":
            order = Order(**asked["order"])
            self.line.tell(proof=prove(self.subject, variant(self.spec, self.spec.reference), order))
        if asked["do"] == "stop":
            raise Enough
        self.steps, self.until = [], perf_counter() + asked["seconds"]


def _is_memory(error: BaseException) -> bool:
    """CUDA has a class for it; the CPU says it in words, which differ from system to system."""
    words = ("can't allocate memory", "not enough memory")
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(word in str(error) for word in words)


def _said(error: BaseException) -> str:
    """Sentences of ours as a whole; of others, what they are and their first line."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    return (
        " ".join(lines)
        if isinstance(error, TrueloopError)
        else f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")
    )


if __name__ == "__main__":
    # As a module of its own name, not as __main__: what it makes is then of the same classes as what others import.
    from trueloop.tune.trial import main as start

    sys.exit(start())
