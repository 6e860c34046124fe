"""The course of a profile: which instrument looks at which steps. Every other step is left alone, and in the end so is
the run.

    warm-up     nothing is kept: caches, autotuning, compilation
    timed       the clock only
    window      PyTorch's profiler
    counted     one step, operation by operation; it is not timed
    sampled     the clock, and looks at the lines, every millisecond
    timed       the clock only, up to the number of steps that was asked for

A script that ends early is told as far as it went.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, Final, final

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from trueloop.event import Event, Place
from trueloop.profile.clock import Clock
from trueloop.profile.memory import CudaPeak, Kept, own_parameters
from trueloop.profile.sampler import Sampler
from trueloop.profile.traffic import Traffic
from trueloop.profile.window import Seen, Window
from trueloop.profile.work import WorkCounter
from trueloop.results.profile import HotLine, Loading, Updating
from trueloop.taps.bus import Bus, StopTheRun
from trueloop.taps.calls import BatchDrawn, BuiltLoader, BuiltOptimizer, LoaderStart, ModuleCall, tensors_in
from trueloop.taps.registry import TapRegistry
from trueloop.torch_private.modules import is_compiled_in_place
from trueloop.torch_private.profiler import dump_memory_snapshot, profiler_enabled, record_memory_history

__all__ = ["STEPS", "WINDOW", "Observer"]

STEPS: Final = 60
"""Steps that are watched unless somebody says otherwise."""
WINDOW: Final = 4
"""Steps under PyTorch's profiler."""
WARM: Final = 4
FIRST: Final = 12
"""Timed steps before the slower instruments: a script that ends early has at least those."""
SAMPLED: Final = 8
SAMPLING: Final = 0.4
"""Seconds for which lines are sampled at least, where steps are short: some hundred looks."""
MOST_SAMPLED: Final = 300
"""Steps that are sampled at most, however short."""
TIMED: Final = 1.0
"""Seconds that are timed at least, where nobody has said how many steps: the mean of sixty steps of a third of a
millisecond is noise."""
MOST: Final = 2000
"""Steps after which that ends all the same."""
FUSABLE: Final = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
"""Optimizers of which torch has a fused version, on processors too."""


@final
class Observer:
    """Watches one run. `install` before it, `remove` after it."""

    def __init__(
        self,
        *,
        steps: int | None = None,
        window: int = WINDOW,
        to_end: bool = False,
        trace: Path | None = None,
        snapshot: Path | None = None,
        waited: Callable[[], float] | None = None,
    ) -> None:
        self.bus = Bus(_unheard)
        self.clock = Clock(waited)
        self.steps, self.window_steps, self.to_end, self.trace, self.snapshot = steps, window, to_end, trace, snapshot
        self.bus.subscribe([self.clock, self])
        self.registry = TapRegistry(self.bus, None, None)
        self.traffic = Traffic(self.bus, self.clock)
        self.models: list[weakref.ref[nn.Module]] = []
        self.compiled = False
        self.seen: Seen | None = None
        self.counter: WorkCounter | None = None
        self.kept: Kept | None = None
        self.peak: CudaPeak | None = None
        self.module_parameters: dict[str, int] = {}
        self.lines: tuple[HotLine, ...] = ()
        self.notes: list[str] = []
        self.over = False
        """Everything has been seen."""
        self.taken = 0
        self.batch_size = 0
        self._loaders: dict[int, _Loader] = {}
        self._built: weakref.WeakKeyDictionary[Any, Place | None] = weakref.WeakKeyDictionary()
        self._leader: weakref.ref[Optimizer] | None = None
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._course = self._stages()
        self._handle: Any = None
        self._counting = False

    # -- life --

    def install(self) -> None:
        self.registry.install()
        self._handle = register_optimizer_step_post_hook(self._after_step)
        next(self._course)
        if sys.platform != "win32":
            bus, watcher = weakref.ref(self.bus), weakref.ref(self)
            os.register_at_fork(before=lambda: _before_fork(watcher()), after_in_child=lambda: _silence(bus()))

    def remove(self) -> None:
        """Put torch back as it was; whatever instrument is at work ends."""
        self._course.close()
        self.traffic.remove()
        self.registry.remove()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    # -- moments --

    def module_call_started(self, call: ModuleCall) -> None:
        if self.over:
            self.remove()  # not when the last step ended: hooks cannot be taken out while they are being called
        elif call.grad and not any(known() is call.module for known in self.models):
            self.models.append(weakref.ref(call.module))
            self.compiled = (
                self.compiled or call.compiled or any(is_compiled_in_place(part) for part in call.module.modules())
            )
        if call.grad and not self.batch_size:
            first = next(tensors_in([*call.args, *call.kwargs.values()]), None)
            self.batch_size = len(first) if first is not None and first.dim() else 0

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        self._built[built.optimizer] = built.place

    def loader_built(self, built: BuiltLoader) -> None:
        self._built[built.loader] = built.place

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        if number not in self._loaders:
            self._loaders[number] = _Loader(start.loader, self._built.get(start.loader, start.place))

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if (known := self._loaders.get(-1 if drawn.number is None else drawn.number)) is not None:
            known.draw(drawn)

    # -- steps --

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self.over or self.bus.is_foreign() or torch.compiler.is_compiling():
            return
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
            return  # the script captures a graph, which must meet nothing of ours
        self._optimizers.add(optimizer)
        if self._leader is None or self._leader() is None:
            self._leader = weakref.ref(optimizer)
        if self._leader() is not optimizer:
            return  # a round of several optimizers is one step: the first one's
        self.clock.step_over()
        self.taken += 1
        try:
            next(self._course, None)
        except Exception:  # noqa: BLE001 - the watcher never breaks the run
            self.bus.fail("the profile could not be taken further")
            self.over = True
        if self.over and not self.to_end:
            raise StopTheRun("the profile is complete")
        self.clock.restart()

    def _stages(self) -> Generator[None, None, None]:
        """One `yield` for each step of the run."""
        for _ in range(WARM):
            yield
        self.traffic.install()
        yield from self._timed(lambda: self.taken >= WARM + FIRST)
        yield from self._profiled()
        yield from self._counted()
        yield from self._sampled()
        began = perf_counter()
        least = self.steps or STEPS
        yield from self._timed(
            lambda: (
                self.taken >= least
                and (self.steps is not None or perf_counter() - began >= TIMED or self.taken >= MOST)
            )
        )
        self.over = True
        yield

    def _timed(self, enough: Callable[[], bool]) -> Generator[None, None, None]:
        cuda, first = self._device().type == "cuda", len(self.clock.steps)
        if cuda:
            torch.cuda.synchronize()
        self.clock.counting = True
        if self.peak is None and cuda:
            self.peak = CudaPeak(self._device())
        try:
            while not enough():
                yield
        finally:
            self.clock.counting = False
            if cuda:
                began = perf_counter_ns()
                torch.cuda.synchronize()
                self.clock.ran_ahead(first, perf_counter_ns() - began)
            if self.peak is not None:
                self.peak.read()

    def _sampled(self) -> Generator[None, None, None]:
        sampler, began, first = Sampler(), perf_counter(), self.taken
        self.clock.pieces.clear()
        self.clock.recording = True
        sampler.start()
        try:
            last = min(first + MOST_SAMPLED, (first + (self.steps or MOST)) // 2)  # some are left for the clock alone
            while self.taken < first + SAMPLED or (perf_counter() - began < SAMPLING and self.taken < last):
                yield
        finally:
            sampler.stop()
            self.clock.recording = False
            self.lines = sampler.lines(self.clock.pieces)

    def _profiled(self) -> Generator[None, None, None]:
        if profiler_enabled():
            self.notes.append("the script uses PyTorch's profiler itself: operations and modules were not looked at")
            return
        cuda = self._device().type == "cuda"
        window = Window(cuda=cuda, shapes=self.compiled or self.trace is not None, modules=not self.compiled)
        self.clock.pieces.clear()
        self.clock.recording = True
        if self.snapshot is not None and cuda:
            record_memory_history(True)
        window.start()
        first = self.taken
        try:
            while self.taken < first + self.window_steps:
                yield
        finally:
            self.clock.recording = False
            window.stop()
            if self.snapshot is not None and cuda:
                dump_memory_snapshot(self.snapshot)
                record_memory_history(False)
        self.seen = window.seen(self.clock.pieces, self.taken - first)
        if self.trace is not None:
            window.save(self.trace)

    def _counted(self) -> Generator[None, None, None]:
        models = self._alive()
        self.kept = Kept(models, self._optimizers)
        for model in models:
            self.module_parameters |= own_parameters(model)
        if self.compiled:
            self.notes.append(
                "the model is compiled: FLOPs are the profiler's estimate, and activations were not counted"
            )
            return
        self.counter = WorkCounter(self.bus)
        self.counter.begin(self.kept.storages)
        self._counting = True
        try:
            yield
        finally:
            self.stop_counting()

    def stop_counting(self) -> None:
        if self._counting and self.counter is not None:
            self._counting = False
            self.counter.end()
            if self.counter.failure:
                self.bus.failures.append(f"the work of a step could not be counted:\n{self.counter.failure}")

    # -- facts --

    def _alive(self) -> list[nn.Module]:
        return [model for known in self.models if (model := known()) is not None]

    def _device(self) -> torch.device:
        for model in self._alive():
            for parameter in model.parameters():
                return parameter.device
        return torch.device("cpu")

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.kept.device if self.kept is not None else self._device()

    def loading(self) -> Loading | None:
        """Of the loader that most batches came from."""
        most = max(self._loaders.values(), key=lambda each: each.batches, default=None)
        return None if most is None else most.facts()

    def updating(self) -> Updating | None:
        optimizer = None if self._leader is None else self._leader()
        if optimizer is None:
            return None
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        return Updating(
            name=type(optimizer).__name__,
            fused=bool(group.get("fused")),
            foreach=bool(group.get("foreach")) or (group.get("foreach", False) is None and self.device.type == "cuda"),
            fusable=type(optimizer) in FUSABLE,
            tensors=sum(len(each["params"]) for each in optimizer.param_groups),
            place=self._built.get(optimizer),
        )


class _Loader:
    """What was seen of one loader."""

    def __init__(self, loader: DataLoader[Any], place: Place | None) -> None:
        self.batches = 0
        self._ns: Counter[str] = Counter()
        self._facts: dict[str, Any] = {
            "workers": loader.num_workers,
            "pinned": loader.pin_memory,
            "samples": _length(loader.dataset),
            "batch_size": loader.batch_size or 0,
            "place": place,
        }

    def draw(self, drawn: BatchDrawn) -> None:
        self.batches += 1
        if drawn.computed_ns is not None:
            self._ns["waited"] += drawn.waited_ns
            self._ns["computed"] += drawn.computed_ns
        if "batch_bytes" not in self._facts:
            tensors = list(tensors_in(drawn.batch))
            self._facts["batch_bytes"] = sum(each.numel() * each.element_size() for each in tensors)
            self._facts["batch_size"] = self._facts["batch_size"] or (
                len(tensors[0]) if tensors and tensors[0].dim() else 0
            )

    def facts(self) -> Loading | None:
        if "batch_bytes" not in self._facts:
            return None
        return Loading(**self._facts, computed=self._ns["computed"] / self._ns["waited"] if self._ns["waited"] else 0.0)


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):  # it is made as it is read
        return 0


def _before_fork(observer: Observer | None) -> None:
    """A worker that is started in the counted step must not inherit the counting, nor pay for it."""
    if observer is not None:
        observer.stop_counting()


def _unheard(event: Event) -> None:
    """A profile judges no events."""


def _silence(bus: Bus | None) -> None:
    if bus is not None:
        bus.busy = True
