"""Training that resumes from a file: what the file held, and what of it was restored before the first step.

Tensor identity shows that a loaded state comes from a file. Only weak references and numbers are kept.
"""

import weakref
from collections.abc import Iterator, Mapping
from itertools import islice
from math import isclose
from typing import Final, NamedTuple

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from trueloop.event import Contents, Place, Resumed, ScheduleAtResume
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltSchedule, FileRead, Restored, StateLoad, StepCall
from trueloop.taps.checkpoint_contents import (
    SavedOptimizer,
    contents_of,
    path_of,
    saved_optimizers,
    settings_of,
    weights_in,
)
from trueloop.taps.place import is_users
from trueloop.torch_private.modules import EXTRA_STATE

__all__ = ["ResumedTrainingObserver"]

_SETTINGS: Final = (
    *("T_max", "eta_min", "total_iters", "step_size", "gamma", "milestones", "total_steps", "T_0", "T_mult", "power"),
    *("factor", "start_factor", "end_factor"),
)  # of torch's schedules: `step` leaves them as they are, `load_state_dict` replaces them
REMEMBERED: Final = 4096  # tensors of one file to remember: more than a checkpoint has, fewer than a dataset may have


class _File(NamedTuple):
    """One torch.load."""

    path: str
    contents: Contents
    optimizers: tuple[SavedOptimizer, ...]


class _Loaded(NamedTuple):
    """An untrained model with all parameters from a file."""

    module: weakref.ref[nn.Module]
    ids: frozenset[int]
    file: _File
    place: Place | None


class _First(NamedTuple):
    """The first step after a load, while it runs."""

    loaded: _Loaded
    fresh: bool


class ResumedTrainingObserver(Observer):
    emits = (Resumed,)

    def prepare(self) -> None:
        self._tensors: dict[int, tuple[weakref.ref[Tensor], _File]] = {}
        self._loaded: list[_Loaded] = []
        self._trained: dict[int, weakref.ref[Tensor]] = {}  # identities of parameters that some optimizer has stepped
        self._schedules: list[weakref.ref[LRScheduler]] = []
        self._built: dict[int, dict[str, object]] = {}  # settings of each schedule, by its number
        self._restored: set[str] = set()
        self._under_way: dict[int, _First] = {}  # by the number of the optimizer

    # -- what comes before the first step --

    def file_read(self, read: FileRead) -> None:
        self._tensors = {key: entry for key, entry in self._tensors.items() if entry[0]() is not None}
        file = _File(path_of(read.file), contents_of(read.value), tuple(saved_optimizers(read.value)))
        for tensor in islice(weights_in(read.value), REMEMBERED):
            self._tensors[id(tensor)] = (weakref.ref(tensor), file)

    def state_loading(self, load: StateLoad) -> None:
        self._loaded = [entry for entry in self._loaded if entry.module() not in (None, load.module)]
        file = self._origin(load.state)
        if file is None or not load.direct or not _is_whole(load.module, load.state):
            return
        parameters = list(load.module.parameters())
        if any(self._is_trained(parameter) for parameter in parameters):
            return  # weights of a model that was trained here: the best ones restored, or another stage
        self._loaded.append(_Loaded(weakref.ref(load.module), frozenset(map(id, parameters)), file, load.place))

    def _is_trained(self, parameter: Tensor) -> bool:
        known = self._trained.get(id(parameter))
        return known is not None and known() is parameter

    def _origin(self, state: Mapping[str, object]) -> _File | None:
        """The file that the tensors of a state were read from."""
        for tensor in state.values() if self._tensors else ():
            entry = self._tensors.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                return entry[1]
        return None

    def state_restored(self, restored: Restored) -> None:
        self._restored.add(restored.kind)

    def schedule_built(self, built: BuiltSchedule) -> None:
        self._schedules = [ref for ref in self._schedules if ref() is not None]
        self._schedules.append(weakref.ref(built.scheduler))
        self._built[self.bus.ordinal("schedule", built.scheduler)] = _settings(built.scheduler)

    def watching_resumed(self, nothing: None) -> None:
        self._loaded.clear()  # their first step may be unseen

    # -- the first step --

    def step_started(self, call: StepCall) -> None:
        if not call.index:
            self._trained.update((id(parameter), weakref.ref(parameter)) for parameter in parameters_of(call.optimizer))
        if not self._loaded:
            return
        held = frozenset(map(id, parameters_of(call.optimizer)))
        mine = [entry for entry in self._loaded if entry.ids & held]
        if not mine:
            return
        self._loaded = [entry for entry in self._loaded if entry not in mine]
        # A new head beside the loaded part is a different task; optimizer state of earlier steps is not from a file.
        given = frozenset[int]().union(*(entry.ids for entry in mine))
        if held <= given and len({id(entry.file) for entry in mine}) == 1 and not call.index:
            self._under_way[self.bus.ordinal("optimizer", call.optimizer)] = _First(mine[0], _is_fresh(call.optimizer))

    def step_ended(self, call: StepCall) -> None:
        if not self._under_way:
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        first = self._under_way.pop(number, None)
        module = None if first is None else first.loaded.module()
        if first is None or module is None:
            return
        file = first.loaded.file
        kept = next((kept for kept in file.optimizers if _fits(kept, call.optimizer)), None)
        self.emit(
            Resumed,
            first.loaded.place,
            file=file.path,
            model=type(module).__name__,
            optimizer=number,
            name=type(call.optimizer).__name__,
            optimizer_place=self.objects.optimizer(call.optimizer).place,
            fresh=first.fresh,
            stateful=bool(_kinds(call.optimizer)),
            key=() if kept is None else kept.key,
            parameters_with_state=0 if kept is None else sum(shape is not None for shape in kept.shapes),
            steps_before=0 if kept is None else kept.steps,
            same_settings=kept is not None and _same_settings(kept, call.optimizer),
            rate_moved=kept is not None and any(not isclose(rate, initial) for rate, initial in kept.rates),
            contents=file.contents,
            schedules=tuple(self._schedules_of(call.optimizer)),
            scaler_used=self.bus.scaler_used,
            scaler_restored="scaler" in self._restored,
            random_restored="random" in self._restored,
            saved_rates=() if kept is None else tuple(rate for rate, _ in kept.rates),
        )

    def _schedules_of(self, optimizer: Optimizer) -> list[ScheduleAtResume]:
        living = [scheduler for ref in self._schedules if (scheduler := ref()) is not None]
        return [
            ScheduleAtResume(
                number := self.bus.ordinal("schedule", s),
                type(s).__name__,
                s.last_epoch,
                _is_users_own(s),
                tuple(_replaced(self._built.get(number, {}), _settings(s))),
            )
            for s in living
            if getattr(s, "optimizer", None) is optimizer and isinstance(getattr(s, "last_epoch", None), int)
        ]


def _is_whole(module: nn.Module, state: Mapping[str, object]) -> bool:
    """Does the state hold every parameter of the module, and nothing else? Fine-tuning starts from a part."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    others = {name for name in state if not name.endswith(EXTRA_STATE)} - parameters - buffers
    return parameters <= state.keys() and not others


def _is_fresh(optimizer: Optimizer) -> bool:
    """Empty, or what some optimizers create when they are built."""
    return all(not float(entry.get("step", 1)) for entry in optimizer.state.values() if isinstance(entry, Mapping))


def _kinds(optimizer: Optimizer) -> frozenset[str]:
    entries = [entry for entry in optimizer.state.values() if isinstance(entry, Mapping)]
    return frozenset(name for entry in entries for name, kept in entry.items() if kept is not None)


def _fits(kept: SavedOptimizer, optimizer: Optimizer) -> bool:
    """Was that state made for parameters of these shapes, in this order?"""
    shapes = [tuple(parameter.shape) for parameter in parameters_of(optimizer)]
    if len(shapes) != len(kept.shapes):
        return False
    return all(shape is None or shape in (own, ()) for shape, own in zip(kept.shapes, shapes, strict=True))


def _same_settings(kept: SavedOptimizer, optimizer: Optimizer) -> bool:
    groups = optimizer.param_groups
    if kept.kinds != _kinds(optimizer) or len(kept.settings) != len(groups):
        return False
    settings = all(_agree(theirs, settings_of(group)) for theirs, group in zip(kept.settings, groups, strict=True))
    rates = [{float(group.get("lr", 0.0)), float(group.get("initial_lr", group.get("lr", 0.0)))} for group in groups]
    pairs = zip(kept.rates, rates, strict=True)
    return settings and all(any(isclose(a, b) for a in saved for b in own) for saved, own in pairs)


def _agree(theirs: Mapping[str, object], own: Mapping[str, object]) -> bool:
    """Equal in all common settings; a newer PyTorch may have more."""
    return all(theirs[name] == own[name] for name in theirs.keys() & own.keys())


def _settings(scheduler: LRScheduler) -> dict[str, object]:
    """Plain numbers, and the milestones as a list."""
    found = {name: value for name in _SETTINGS if (value := vars(scheduler).get(name)) is not None}
    return {name: sorted(value) if isinstance(value, Mapping) else value for name, value in found.items()}


def _replaced(built: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    for name in built:
        if name in now and built[name] != now[name]:
            yield f"{name}={built[name]} by {now[name]}"


def _is_users_own(scheduler: LRScheduler) -> bool:
    """A class of the user, or one that calls a function of the user."""
    if not type(scheduler).__module__.startswith("torch."):
        return True
    functions = vars(scheduler).get("lr_lambdas", ())
    return any(is_users(f.__code__.co_filename) if hasattr(f, "__code__") else True for f in functions)
