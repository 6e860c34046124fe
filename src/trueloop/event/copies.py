"""Models that are evaluated and not trained themselves: averages and other copies of a trained one."""

from dataclasses import dataclass

from trueloop.event.base import Event

__all__ = ["CopyEvaluatedLast", "CopyNormsInitial", "TrainedModelOverwritten"]


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
class TrainedModelOverwritten(Event):
    """A trained model loads the state of a second model, during the training of one optimizer, and nothing ever changes
    that second model. `place`: the first such load. At the end of the run."""

    model: str
    source: str  # class of the second model
    undone: tuple[int, ...]  # steps of the optimizer that each load has undone
    trained_steps: int  # watched steps in which the model was called with gradients
    source_steps: int  # in which the second one was called without
