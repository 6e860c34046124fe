"""Runs one instrument after the other over the steps of a run:

    warm-up     nothing is recorded: caches, autotuning, compilation
    timed       the clock only
    window      PyTorch's profiler
    counted     one step, operation by operation; it is not timed
    sampled     the clock, and a sample of the current line every millisecond
    timed       the clock only, up to the requested number of steps

A script that ends early gives a partial profile.
"""

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

from trueloop.event import Place
from trueloop.profile.clock import Clock, TransferTimer
from trueloop.profile.memory import CudaPeak, PersistentTensors, own_parameters
from trueloop.profile.profiler_window import ProfilerWindow, WindowResult
from trueloop.profile.sampler import Sampler
from trueloop.profile.work_counter import ModuleStack, WorkCounter
from trueloop.results.profile import HotLine, Loading, Updating
from trueloop.taps.bus import Bus, StopTheRun
from trueloop.taps.calls import BatchDrawn, BuiltLoader, BuiltOptimizer, LoaderStart, ModuleCall, tensors_in
from trueloop.taps.registry import TapRegistry
from trueloop.torch_private.modules import is_compiled_in_place
from trueloop.torch_private.profiler import dump_memory_snapshot, profiler_enabled, record_memory_history

__all__ = ["STEPS", "WINDOW", "Observer"]

STEPS: Final = 60  # Default number of observed steps
WINDOW: Final = 4  # Steps under PyTorch's profiler
WARM: Final = 4
FIRST: Final = 12  # Timed steps before the slower instruments, for scripts that end early
SAMPLED: Final = 8
SAMPLING: Final = 0.4  # Minimum seconds of sampling if steps are short: some hundred samples
MOST_SAMPLED: Final = 300  # Maximum number of sampled steps
TIMED: Final = 1.0  # Minimum seconds of timing without a number of steps: the mean of 60 steps of 0.3 ms is noise
MOST: Final = 2000  # Maximum number of steps for that
FUSABLE: Final = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
"""Optimizers with a fused version in torch, on CPUs too."""


@final
class Observer:
    """Observes one run. Call `install` before it, `remove` after it."""

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
        self.bus = Bus(lambda _: None)  # a profile ignores events
        self.clock = Clock(waited)
        self.steps, self.window_steps, self.to_end, self.trace, self.snapshot = steps, window, to_end, trace, snapshot
        self.bus.subscribe([self.clock, self])
        self.registry = TapRegistry(self.bus, None, None)
        self.transfers = TransferTimer(self.bus, self.clock)
        self.models: list[weakref.ref[nn.Module]] = []
        self.model_names: dict[int, str] = {}  # Names of several models by their ids, where they are known
        self.compiled = False
        self.seen: WindowResult | None = None
        self.counter: WorkCounter | None = None
        self.tensors: PersistentTensors | None = None
        self.peak: CudaPeak | None = None
        self.module_parameters: dict[str, int] = {}
        self.lines: tuple[HotLine, ...] = ()
        self.notes: list[str] = []
        self.over = False  # All instruments are done
        self.steps_done = 0
        self.batch_size = 0
        self._loaders: dict[int, _Loader] = {}
        self._built: weakref.WeakKeyDictionary[Any, Place | None] = weakref.WeakKeyDictionary()
        self._leader: weakref.ref[Optimizer] | None = None
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._schedule = self._stages()
        self._handle: Any = None
        self._counting = False

    # -- install and remove --

    def install(self) -> None:
        self.registry.install()
        self._handle = register_optimizer_step_post_hook(self._after_step)
        next(self._schedule)
        if sys.platform != "win32":
            bus, observer = weakref.ref(self.bus), weakref.ref(self)
            os.register_at_fork(before=lambda: _before_fork(observer()), after_in_child=lambda: _silence(bus()))

    def remove(self) -> None:
        """Stop the running instrument and remove all patches."""
        self._schedule.close()
        self.transfers.remove()
        self.registry.remove()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    # -- events --

    def module_call_started(self, call: ModuleCall) -> None:
        if self.over:
            self.remove()  # not at the end of the last step: hooks cannot be removed while they are called
        elif call.grad and not any(known() is call.module for known in self.models):
            self.models.append(weakref.ref(call.module))
            self.compiled |= call.compiled or any(is_compiled_in_place(part) for part in call.module.modules())
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
            return  # the script captures a CUDA graph, which must not contain anything of trueloop
        self._optimizers.add(optimizer)
        if self._leader is None or self._leader() is None:
            self._leader = weakref.ref(optimizer)
        if self._leader() is not optimizer:
            return  # several optimizers make one step: the step of the first
        self.clock.step_over()
        self.steps_done += 1
        try:
            next(self._schedule, None)
        except Exception:  # noqa: BLE001 - the observer never breaks the run
            self.bus.fail("the profile could not be continued")
            self.over = True
        if self.over and not self.to_end:
            raise StopTheRun("the profile is complete")
        self.clock.restart()

    def _stages(self) -> Generator[None, None, None]:
        """One `yield` per step of the run."""
        for _ in range(WARM):
            yield
        self.transfers.install()
        yield from self._timed(lambda: self.steps_done >= WARM + FIRST)
        yield from self._profiled()
        yield from self._counted()
        yield from self._sampled()
        began = perf_counter()
        least = self.steps or STEPS

        def enough() -> bool:
            done = self.steps_done >= least
            return done and (self.steps is not None or perf_counter() - began >= TIMED or self.steps_done >= MOST)

        yield from self._timed(enough)
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
                self.clock.add_device_lag(first, perf_counter_ns() - began)
            if self.peak is not None:
                self.peak.read()

    def _sampled(self) -> Generator[None, None, None]:
        sampler, began, first = Sampler(), perf_counter(), self.steps_done
        self.clock.spans.clear()
        self.clock.recording = True
        sampler.start()
        try:
            last = min(first + MOST_SAMPLED, (first + (self.steps or MOST)) // 2)  # leaves steps for the clock alone
            while self.steps_done < first + SAMPLED or (perf_counter() - began < SAMPLING and self.steps_done < last):
                yield
        finally:
            sampler.stop()
            self.clock.recording = False
            self.lines = sampler.lines(self.clock.spans)

    def _named(self) -> list[tuple[str, nn.Module]]:
        """Each model with a name to put before its layers: all of several models may have a layer called 0. Not parts
        of other models that are called by themselves."""
        models = self._alive()
        parts = {id(part) for model in models for part in model.modules() if part is not model}
        models = [model for model in models if id(model) not in parts]
        learning = [model for model in models if next(model.parameters(), None) is not None]  # a loss is no model
        numbers = {id(model): f"model {at}" for at, model in enumerate(learning, 1)} if len(learning) > 1 else {}
        return [(self.model_names.get(id(each), numbers.get(id(each), "")), each) for each in models]

    def _name_modules(self, stack: ModuleStack) -> None:
        for prefix, model in self._named():
            for name, part in model.named_modules():
                stack.names[id(part)] = joined = _join(prefix, name)
                stack.kinds.setdefault(joined, type(part).__name__)

    def _profiled(self) -> Generator[None, None, None]:
        if profiler_enabled():
            self.notes.append("the script uses PyTorch's profiler itself: operations and modules were not profiled")
            return
        cuda = self._device().type == "cuda"
        window = ProfilerWindow(cuda=cuda, shapes=self.compiled or self.trace is not None, modules=not self.compiled)
        if window.stack is not None:
            self._name_modules(window.stack)
        self.clock.spans.clear()
        self.clock.recording = True
        if self.snapshot is not None and cuda:
            record_memory_history(True)
        window.start()
        first = self.steps_done
        try:
            while self.steps_done < first + self.window_steps:
                yield
        finally:
            self.clock.recording = False
            window.stop()
            if self.snapshot is not None and cuda:
                dump_memory_snapshot(self.snapshot)
                record_memory_history(False)
        self.seen = window.result(self.clock.spans, self.steps_done - first)
        if self.trace is not None:
            window.save(self.trace)

    def _counted(self) -> Generator[None, None, None]:
        models = self._alive()
        self.tensors = PersistentTensors(models, self._optimizers)
        for prefix, model in self._named():
            self.module_parameters |= {_join(prefix, name): each for name, each in own_parameters(model).items()}
        if self.compiled:
            self.notes.append("the model is compiled: FLOPs are the profiler's estimate; activations were not counted")
            return
        self.counter = WorkCounter(self.bus)
        self._name_modules(self.counter.stack)
        self.counter.begin(self.tensors.storages)
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
        """The device of the model."""
        return self.tensors.device if self.tensors is not None else self._device()

    def loading(self) -> Loading | None:
        """Facts about the loader with the most batches."""
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
    """Observations of one loader."""

    def __init__(self, loader: DataLoader[Any], place: Place | None) -> None:
        self.batches = 0
        self._ns: Counter[str] = Counter()
        size, samples = loader.batch_size or 0, _length(loader.dataset)
        self._facts: dict[str, Any] = {"samples": samples, "batch_size": size, "place": place}
        self._facts |= {"workers": loader.num_workers, "pinned": loader.pin_memory}

    def draw(self, drawn: BatchDrawn) -> None:
        self.batches += 1
        if drawn.computed_ns is not None:
            self._ns["waited"] += drawn.waited_ns
            self._ns["computed"] += drawn.computed_ns
        if "batch_bytes" not in self._facts:
            tensors = list(tensors_in(drawn.batch))
            self._facts["batch_bytes"] = sum(each.numel() * each.element_size() for each in tensors)
            if not self._facts["batch_size"]:
                self._facts["batch_size"] = len(tensors[0]) if tensors and tensors[0].dim() else 0

    def facts(self) -> Loading | None:
        if "batch_bytes" not in self._facts:
            return None
        return Loading(**self._facts, computed=self._ns["computed"] / self._ns["waited"] if self._ns["waited"] else 0.0)


def _join(model: str, layer: str) -> str:
    return ".".join(filter(None, (model, layer)))


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):  # a dataset without a length
        return 0


def _before_fork(observer: Observer | None) -> None:
    """A worker started during the counted step must not inherit the slow counter."""
    if observer is not None:
        observer.stop_counting()


def _silence(bus: Bus | None) -> None:
    if bus is not None:
        bus.busy = True
