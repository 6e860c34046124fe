"""Loops over batches whose iterator was used up in the first turn of the loop around them.

The first backward calls and evaluation calls look at the loop they run in. If its iterator can be used only once, and
is not made again by the loop around it, the later turns of that loop are watched: do they get a batch?
A loader over an iterable dataset is watched by its passes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from torch.utils.data import IterableDataset

from trueloop.event import IteratorExhausted, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BatchDrawn, LoaderStart, ModeChange, ModuleCall, RunEnd, ScheduleCall
from trueloop.taps.one_shot_loops import ONE_SHOT, OneShotLoop, counter_of, is_inside, running_loop

__all__ = ["ExhaustedIteratorsObserver"]

LOOKS: Final = 3  # at the loops around the backward calls of one line, and around evaluation calls
PLACES: Final = 16  # lines that are looked at

_Phase = Literal["training", "evaluation"]


@dataclass(slots=True)
class _Watched:
    loop: OneShotLoop
    phase: _Phase
    first: tuple[Any, ...] | None  # the counters of the outer loop when it was found
    later: set[tuple[Any, ...]] = field(default_factory=set)  # its later turns, in which nothing was drawn
    works: bool = False  # batches came in a later turn


@dataclass(slots=True)
class _Passes:
    """Over one loader."""

    place: Place | None
    kind: str
    started: int = 0
    batches: int = 0  # of the pass under way
    most: int = 0  # batches of one pass
    empty: int = 0  # passes without a batch, after one with batches
    works: bool = False


class ExhaustedIteratorsObserver(Observer):
    emits = (IteratorExhausted,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._looks: dict[tuple[_Phase, Place | None], int] = {}
        self._passes: dict[int, _Passes] = {}

    # -- loops --

    def backward_started(self, call: BackwardCall) -> None:
        self._drawn("training", call.place)

    def module_call_started(self, call: ModuleCall) -> None:
        if not call.grad:
            self._drawn("evaluation", call.place)

    def mode_set(self, change: ModeChange) -> None:
        self._turned()

    def schedule_stepped(self, call: ScheduleCall) -> None:
        self._turned()

    def _drawn(self, phase: _Phase, place: Place | None) -> None:
        """A batch was used."""
        if self._watched:
            self._turned(phase)
        looks = self._looks.get((phase, place), 0)
        if looks >= LOOKS or (not looks and len(self._looks) >= PLACES):
            return
        self._looks[phase, place] = looks + 1
        loop = running_loop()
        if loop is not None and (key := (loop.place.path, loop.place.line)) not in self._watched:
            self._watched[key] = _Watched(loop, phase, counter_of(loop))

    def _turned(self, phase: _Phase | None = None) -> None:
        for watched in self._watched.values():
            if watched.works or watched.first is None or not watched.loop.counters:
                continue
            now = counter_of(watched.loop)
            if now is None or now == watched.first:
                continue
            if phase == watched.phase or is_inside(watched.loop):
                watched.works = True
            else:
                watched.later.add(now)

    # -- loaders --

    def loader_started(self, start: LoaderStart) -> None:
        if not isinstance(start.loader.dataset, IterableDataset):
            return
        number = self.bus.ordinal("loader", start.loader)
        kind = next(_one_shots(start.loader.dataset), "") if number not in self._passes else ""
        passes = self._passes.setdefault(number, _Passes(start.place, kind))
        passes.started += 1
        self._close(passes)

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if self._passes and drawn.number in self._passes:
            self._passes[drawn.number].batches += 1

    def watching_resumed(self, nothing: None) -> None:
        for passes in self._passes.values():
            passes.works = True  # batches may have come unseen

    def _close(self, passes: _Passes) -> None:
        """The pass before has ended."""
        if passes.batches:
            passes.works = passes.works or passes.most > 0
            passes.most = max(passes.most, passes.batches)
        elif passes.most:
            passes.empty += 1
        passes.batches = 0

    # -- the end --

    def run_ended(self, end: RunEnd) -> None:
        for passes in self._passes.values():
            self._close(passes)
            if passes.kind and passes.empty and not passes.works:
                self.emit(IteratorExhausted, passes.place, "training", "the dataset", passes.kind, None, passes.empty)
        for watched in self._watched.values():
            planned = (watched.loop.planned or 1) - 1 if end.reason == "finished" else 0
            turns = 0 if watched.works else max(planned, len(watched.later))
            if turns:
                loop = watched.loop
                self.emit(
                    IteratorExhausted, loop.place, watched.phase, loop.iterable, loop.kind, loop.outer_place, turns
                )


def _one_shots(dataset: object) -> Iterator[str]:
    """Iterators among its attributes, and among those of its attributes."""
    values = list(vars(dataset).values())
    for value in [*values, *(inner for each in values if hasattr(each, "__dict__") for inner in vars(each).values())]:
        if isinstance(value, ONE_SHOT):
            yield type(value).__name__
