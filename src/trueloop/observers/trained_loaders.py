"""Which loaders are trained on: the optimizer steps after their batches."""

from collections import Counter
from dataclasses import dataclass, field

from trueloop.event import LoaderTrained, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, BuiltLoader, LoaderStart, RunEnd, StepCall
from trueloop.taps.names import names_of

__all__ = ["TrainedLoadersObserver"]


@dataclass(slots=True)
class _Loader:
    built: Place | None
    place: Place | None = None
    passes: int = 0
    batches: int = 0
    stretches: int = 0
    stepped: Counter[int] = field(default_factory=Counter)
    first_pass: int = -1
    last_pass: int = -1
    names: tuple[str, ...] = ()


class TrainedLoadersObserver(Observer):
    emits = (LoaderTrained,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._loaders: dict[int, _Loader] = {}
        self._passes = 0
        self._latest: int | None = None
        self._counted: set[int] = set()  # optimizers that have stepped since the latest batch

    def watching_resumed(self, nothing: None) -> None:
        self._latest = None

    def loader_built(self, built: BuiltLoader) -> None:
        self._loaders[self.bus.ordinal("loader", built.loader)] = _Loader(built.place)

    def loader_started(self, start: LoaderStart) -> None:
        loader = self._loaders.setdefault(self.bus.ordinal("loader", start.loader), _Loader(None))
        loader.place, loader.last_pass = start.place, self._passes
        loader.first_pass = self._passes if loader.passes == 0 else loader.first_pass
        loader.names = loader.names or names_of((start.loader, start.loader.dataset))
        loader.passes += 1
        self._passes += 1

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        number = None if drawn.loader is None else self.bus.ordinal("loader", drawn.loader)
        loader = None if number is None else self._loaders.get(number)
        if loader is not None:
            loader.batches += 1
            loader.stretches += number != self._latest
        self._latest, self._counted = number, set()

    def step_ended(self, call: StepCall) -> None:
        loader = None if self._latest is None else self._loaders.get(self._latest)
        number = self.bus.ordinal("optimizer", call.optimizer)
        if loader is not None and number not in self._counted:
            self._counted.add(number)
            loader.stepped[number] += 1

    def run_ended(self, end: RunEnd) -> None:
        for number, one in self._loaders.items():
            if one.passes:
                self.emit(LoaderTrained, one.place, number, one.built, one.passes, one.batches, one.stretches,
                          tuple(one.stepped.items()), one.first_pass, one.last_pass, one.names)  # fmt: skip
