"""Training that resumes from a file with two states of one architecture (weights and their average, online and target
network): is the second one, in the next file, made from the file or from weights that the model had before the load?

States are recognized by their names and by some of their numbers, so it does not matter how they were restored.
"""

from typing import Final, NamedTuple

import torch

from trueloop.event import Place, SecondStateAfterResume
from trueloop.measure.weight_samples import WeightSample, weight_sample
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, StateLoad, StateSave
from trueloop.taps.checkpoint_contents import Key, path_of, weight_states

__all__ = ["SecondStatesObserver"]

FILES: Final = 4  # that are remembered
STATES: Final = 6  # of a file
FEWEST: Final = 64  # numbers that differ between the initial and the loaded weights
MOST_LOADS: Final = 8
NEAR: Final = 0.8  # distance of the two states in the file, relative to the weights


class _File(NamedTuple):
    path: str
    states: dict[Key, WeightSample]


class _Load(NamedTuple):
    file: _File
    key: Key
    model: str
    before: WeightSample
    step: int
    place: Place | None


class SecondStatesObserver(Observer):
    emits = (SecondStateAfterResume,)

    def prepare(self) -> None:
        self._files: list[_File] = []
        self._loads: list[_Load] = []
        self._left = MOST_LOADS

    def file_read(self, read: FileRead) -> None:
        states = [(key, weight_sample(state)) for key, state in list(weight_states(read.value))[:STATES]]
        if self._left and len(states) > 1:
            file = _File(path_of(read.file), {key: sample for key, sample in states if sample})
            self._files = [*self._files[-FILES + 1 :], file]

    def state_loading(self, load: StateLoad) -> None:
        if not self._files or not self._left:
            return
        loaded = weight_sample(load.state)
        origins = [(file, key) for file in reversed(self._files) for key, state in file.states.items()
                   if loaded and _is_equal(state, loaded)]  # fmt: skip
        if not origins or sum(file is origins[0][0] for file, _ in origins) > 1:
            return  # both states are equal: which one it is does not matter yet
        file, key = origins[0]
        before = weight_sample(dict(load.module.named_parameters()))
        self._left -= 1
        self._loads.append(_Load(file, key, type(load.module).__name__, before, self.bus.step, load.place))

    def state_saving(self, save: StateSave) -> None:
        waiting = [load for load in self._loads if load.step < self.bus.step]
        if not waiting:
            return
        written = {key: weight_sample(state) for key, state in list(weight_states(save.value))[:STATES]}
        for load in waiting:
            if load.key not in written:
                continue
            self._loads.remove(load)
            if _is_equal(written[load.key], load.file.states[load.key]):
                continue  # it was not trained since
            for second in written.keys() & load.file.states.keys() - {load.key}:
                self._compare(load, second, written, save.place)

    def _compare(self, load: _Load, second: Key, written: dict[Key, WeightSample], place: Place | None) -> None:
        loaded = load.file.states[load.key]
        states = (load.before, loaded, load.file.states[second], written[second], written[load.key])
        names = [name for name in loaded if all(name in state for state in states)]
        names = [name for name in names if len({state[name].shape for state in states}) == 1]
        if 2 * len(names) < len(loaded):
            return
        before, origin, old, new, trained = (torch.cat([state[name] for name in names]) for state in states)
        way, moved = before - origin, new - origin
        if int((way != 0).sum()) < FEWEST or torch.equal(new, before) or not bool(moved.any()):
            return
        if float((old - origin).norm()) > NEAR * float(origin.norm()):
            return  # moments of an optimizer, another model
        read, share, own = (float((state - origin) @ way) / float(way @ way) for state in (old, new, trained))
        apart = float((moved - share * way).norm() / moved.norm())
        self.emit(SecondStateAfterResume, load.place, load.model, load.file.path, load.key, second, len(names),
                  read, share, own, apart, self.bus.step - load.step, place)  # fmt: skip


def _is_equal(one: WeightSample, other: WeightSample) -> bool:
    same = one.keys() == other.keys() and all(one[name].shape == other[name].shape for name in one)
    return same and all(torch.equal(one[name], other[name]) for name in one)
