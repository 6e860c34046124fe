"""Models that are evaluated and not trained themselves: averages and other copies of a trained one."""

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = ["CopyEvaluatedLast", "CopyMostlyInitial", "CopyNormsInitial", "SecondStateAfterResume"]
__all__ += ["TrainedModelOverwritten"]


@dataclass(frozen=True, slots=True)
class CopyNormsInitial(Event):
    """A copy's weights followed training, its batch norm statistics are the initial ones. `place`: its evaluation."""

    model: str
    layers: int  # batch norm layers with a running mean of 0 and a variance of 1
    calls: int  # evaluating calls so far


@dataclass(frozen=True, slots=True)
class CopyEvaluatedLast(Event):
    """A model that holds copies of trained weights (`WeightCopies`) was evaluated after the last step. `place`: the
    call. At the end of the run."""

    model: str


@dataclass(frozen=True, slots=True)
class CopyMostlyInitial(Event):
    """A model that nothing trains was evaluated after the last step, and its weights lie between the initial weights of
    a trained model and its final ones. `place`: the evaluation. At the end of the run."""

    model: str
    trained: str  # class of the trained model
    initial: float  # share of the initial weights
    apart: float  # distance from the way between the two, relative to the distance from the final weights
    moved: float  # distance of final and initial weights, relative to the final ones
    weights: int  # that were compared
    steps: int  # of the trained model's optimizer
    states: int  # different weights of that model that were evaluated after the last step


@dataclass(frozen=True, slots=True)
class TrainedModelOverwritten(Event):
    """A trained model loads the state of a second model, during the training of one optimizer, and nothing ever changes
    that second model. `place`: the first such load. At the end of the run."""

    model: str
    source: str  # class of the second model
    undone: tuple[int, ...]  # steps of the optimizer that each load has undone
    trained_steps: int  # watched steps in which the model was called with gradients
    source_steps: int  # in which the second one was called without


@dataclass(frozen=True, slots=True)
class SecondStateAfterResume(Event):
    """A file has two states with the same names, training resumes from one of them, and the next file has both again.
    `place`: where the trained state was loaded. The shares are of the way from the loaded weights to the weights that
    the model had before the load."""

    model: str
    file: str  # absolute path; empty: loaded from memory
    key: tuple[str, ...]  # of the trained state in the file
    second: tuple[str, ...]  # of the other one
    weights: int  # that were compared
    share_read: float  # of the other state, in the file that was read
    share_written: float  # in the next file
    share_trained: float  # of the trained state, in the next file
    apart: float  # distance of the written one from that way, relative to its distance from the loaded weights
    steps: int  # in between
    saved_at: Place | None
