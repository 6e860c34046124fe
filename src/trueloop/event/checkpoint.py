"""State dicts and files: taken, saved and loaded."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["Contents", "FileLoaded", "FileWritten", "Resumed", "SavedCounter", "ScheduleAtResume", "StateMatched"]
__all__ += ["EvaluatedWeights", "ShrunkenLoaded", "StateReused", "StatesKept", "UntrainedLoaded", "WeightsRestored"]


@dataclass(frozen=True, slots=True)
class StateReused(Event):
    """Weights that were kept by a line that copies nothing were used after the weights they share memory with had
    changed. `place`: that line."""

    use: Literal["load", "save", "copy"]
    use_place: Place | None
    taken_step: int
    shared: int
    tensors: int
    kept_by: Literal["state_dict", "detach", "numpy"] = "state_dict"


@dataclass(frozen=True, slots=True)
class StatesKept(Event):
    """Several results of one `state_dict()` line are alive at a time, and share the memory of one model."""

    states: int  # of different steps; the weights had changed after each but the last
    first_step: int


@dataclass(frozen=True, slots=True)
class SavedCounter:
    """An integer that a file stores under a name: an epoch, a step."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a saved or loaded value holds, as far as its shape shows."""

    modules: tuple[tuple[str, str], ...] = ()  # complete modules: (key, class); key "": the value itself is the module
    weights: int = 0  # tensors in model state dicts
    optimizers: int = 0  # optimizer state dicts with state for some parameter
    schedules: int = 0  # state dicts of schedules that have been stepped
    scalers: int = 0
    random: bool = False  # the state of torch's random generator
    counters: tuple[SavedCounter, ...] = ()


@dataclass(frozen=True, slots=True)
class FileWritten(Event):
    """`torch.save` wrote something."""

    file: str  # absolute path; empty: written to memory
    contents: Contents
    direct: bool  # the user's own line calls torch.save, with no library in between


@dataclass(frozen=True, slots=True)
class FileLoaded(Event):
    """`torch.load` read something."""

    file: str  # absolute path; empty: read from memory
    unsafe: bool  # weights_only=False or a custom unpickler: the file may execute code
    direct: bool  # the user's own line calls torch.load, with no library in between
    written_by_run: bool  # this run wrote the file itself
    unsafe_classes: tuple[str, ...]  # classes in it that need an unsafe load; empty: a safe load gives the same
    fully_read: bool  # every value was examined


@dataclass(frozen=True, slots=True)
class ScheduleAtResume:
    """A schedule of the optimizer that takes the first step after a load."""

    schedule: int
    name: str
    last_epoch: int
    user_defined: bool  # its class or its rate function is the user's: it may know the epoch in another way
    replaced: tuple[str, ...] = ()  # settings that it was built with and no longer has: 'total_iters=12 by 2'


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """An untrained model got all its weights from a file and took its first step. `place`: where it was loaded."""

    file: str  # absolute path; empty: loaded from memory
    model: str
    optimizer: int
    name: str  # class of the optimizer
    optimizer_place: Place | None  # where it was built
    fresh: bool  # the optimizer held no state before that step
    stateful: bool  # it holds state after the step: there was something to restore
    key: tuple[str, ...]  # where the file stores optimizer state for these parameters: ('optimizer',); empty: nowhere
    parameters_with_state: int  # parameters for which that state holds something
    steps_before: int  # steps that state had counted; 0 where it does not count
    same_settings: bool  # an optimizer with the same settings and kind of state wrote it
    rate_moved: bool  # a schedule had changed the learning rate it was saved with
    contents: Contents  # of the file
    schedules: tuple[ScheduleAtResume, ...]
    scaler_used: bool
    scaler_restored: bool
    random_restored: bool
    saved_rates: tuple[float, ...] = ()  # learning rates in the file


@dataclass(frozen=True, slots=True)
class StateMatched(Event):
    """What a `load_state_dict` brought to a model. `place`: that call."""

    model: str
    strict: bool
    tensors: int  # in the state
    parameters: int  # parameters and buffers of the model
    matched: int  # tensors of the state that the model has by that name
    their_key: str  # a key of the state without a match; empty: none
    own_key: str  # a key of the model without a match; empty: none
    prefix: str  # what to remove from the keys of the state so that more match; empty: nothing helps
    matched_without: int  # matches then
    matrices: int  # matched weights with two dimensions or more whose values were read
    constant: int  # of them: all elements equal
    nonfinite: int  # of them: with NaN or Inf
    from_file: bool  # the run has read a file with weights before
    own_weights: bool  # every tensor of the state is the model's own, although a file was read that nothing used
    own_state: bool = False  # every tensor of the state is the model's own, of a model that no optimizer trains
    source: str = ""
    """A trained model whose state was taken before, with a weight that fits into this untrained one; nothing of that
    state was used so far, and this load brings nothing of it. Empty: none."""
    source_key: str = ""  # its first key without a match


@dataclass(frozen=True, slots=True)
class UntrainedLoaded(Event):
    """All weights of a state were as an initialization draws them, and nothing has trained the model that loaded them.
    `place`: the load. At the end of the run."""

    model: str
    file: str  # absolute path; empty: read from memory
    key: str  # where the file stores them; empty: the file is this state
    tensors: int
    trained_key: str  # where it stores trained weights of the same names and shapes; empty: nowhere
    counted: str  # how far the training was that wrote the file: 'step 940'; empty: it does not say


@dataclass(frozen=True, slots=True)
class ShrunkenLoaded(Event):
    """The weights of all layers of a state are many times smaller than an initialization draws them, by about one
    factor, and nothing has trained the model that loaded them. `place`: the load. At the end of the run."""

    model: str
    file: str  # absolute path; empty: read from memory
    key: str  # where the file stores them; empty: the file is this state
    layers: int
    share: float  # root mean square of the weights, of that of drawn ones; of the layer with the largest


@dataclass(frozen=True, slots=True)
class EvaluatedWeights:
    """Weights that were evaluated, and the values that were printed then."""

    step: int
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class WeightsRestored(Event):
    """The weights of an earlier evaluation are the ones evaluated last, or those in a file whose name says best.
    `place`: the line that loaded or saved them. At the end of the run."""

    model: str
    chosen: int  # index in `evaluated`
    evaluated: tuple[EvaluatedWeights, ...]
    file: str = ""
