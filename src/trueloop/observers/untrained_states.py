"""Weights from a file that no training has moved, although training wrote the file, loaded into a model that nothing
trains.

The file says that there was training: it holds the same weights in a trained state, or it counts steps. Beside them,
weights that are many times smaller than drawn ones, in all layers by one factor.
"""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn

from trueloop.event import Place, ShrunkenLoaded, UntrainedLoaded
from trueloop.measure.initial_weights import is_initial, shrunken
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, RunEnd, StateLoad, StepCall
from trueloop.taps.checkpoint_contents import contents_of, path_of, saved_optimizers, weight_states
from trueloop.usercode.names import words_of

__all__ = ["UntrainedStatesObserver"]

FILES: Final = 8
STATES: Final = 8  # of a file
LOADS: Final = 32
COUNTED: Final = frozenset(
    "step steps global_step epoch last_epoch iteration iter it update updates num_updates".split()  # noqa: SIM905
)
"""Names of counters, and not of settings such as `epochs` or `max_steps`."""
MEANT: Final = frozenset(
    ("init", "initial", "initialization", "random", "start", "before", "untrained", "baseline", "fresh", "rewind")
)
"""Words in the name of a state, or of its file, that say so."""


@dataclass(slots=True)
class _State:
    file: int
    key: str
    tensors: dict[int, weakref.ref[Tensor]]
    shapes: dict[str, tuple[int, ...]]
    initial: bool | None
    loaded: bool = False


@dataclass(slots=True)
class _Load:
    state: _State
    model: str
    place: Place | None
    parameters: tuple[weakref.ref[Tensor], ...]
    trained: bool
    shrunken: tuple[int, float] | None  # layers, and the size of their weights as a share of drawn ones


class UntrainedStatesObserver(Observer):
    emits = (UntrainedLoaded, ShrunkenLoaded)

    def prepare(self) -> None:
        self._states: list[_State] = []
        self._files: list[tuple[str, str]] = []  # path, and what it counts: 'step 940'
        self._loads: list[_Load] = []

    def file_read(self, read: FileRead) -> None:
        if len(self._files) >= FILES or MEANT & set(words_of(path_of(read.file).rpartition("/")[2])):
            return
        states = [(key, state) for key, state in weight_states(read.value) if state]
        if not 0 < len(states) <= STATES:
            return
        number = len(self._files)
        self._files.append((path_of(read.file), _counted(read.value)))
        for key, state in states:
            refs = {id(tensor): weakref.ref(tensor) for tensor in state.values()}
            shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
            self._states.append(_State(number, ".".join(key), refs, shapes, is_initial(state)))

    def state_loading(self, load: StateLoad) -> None:
        if not self._states or len(self._loads) >= LOADS:
            return
        given = [value for value in load.state.values() if isinstance(value, Tensor)]
        for state in self._states:
            known = [t for t in given if (ref := state.tensors.get(id(t))) is not None and ref() is t]
            state.loaded = state.loaded or bool(known)
            if 2 * len(known) > len(given):
                small = None if state.initial else shrunken(load.module, _tensors(load.state))
                if state.initial or small:
                    self._loads.append(self._load(state, load.module, load.place, small))

    def _load(self, state: _State, module: nn.Module, place: Place | None, small: tuple[int, float] | None) -> _Load:
        parameters: list[Tensor] = list(module.parameters())
        held = self.objects.held_ids()
        trained = any(id(parameter) in held for parameter in parameters)
        return _Load(state, type(module).__name__, place, tuple(map(weakref.ref, parameters)), trained, small)

    def step_started(self, call: StepCall) -> None:
        if call.index or not self._loads:
            return
        stepped = {id(parameter) for parameter in parameters_of(call.optimizer)}
        for load in self._loads:
            alive = [parameter for ref in load.parameters if (parameter := ref()) is not None]
            load.trained = load.trained or any(id(parameter) in stepped for parameter in alive)

    def run_ended(self, end: RunEnd) -> None:
        for load in self._loads:
            state = load.state
            beside = [other for other in self._states if other.file == state.file and other is not state]
            if load.trained or any(other.loaded for other in beside) or MEANT & set(words_of(state.key)):
                continue
            path, counted = self._files[state.file]
            if load.shrunken is not None:
                self.emit(ShrunkenLoaded, load.place, load.model, path, state.key, *load.shrunken)
                return
            same = [other for other in beside if other.shapes == state.shapes and other.initial is False]
            counts = counted and all(other.initial for other in beside)
            if same or counts:
                other = same[0].key if same else ""
                self.emit(UntrainedLoaded, load.place, load.model, path, state.key, len(state.shapes), other, counted)
                return


def _tensors(state: Mapping[str, object]) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}


def _counted(value: object) -> str:
    """How far the training was that wrote a file: 'step 940'; empty where it does not say, or at its start."""
    for counter in contents_of(value).counters:
        if counter.name.lower() in COUNTED and counter.value > 0:
            return f"{counter.name} {counter.value}"
    steps = max((saved.steps for saved in saved_optimizers(value)), default=0)
    return f"an optimizer after {steps} steps" if steps else ""
