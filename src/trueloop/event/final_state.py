"""What the models of a run look like when it ends."""

from dataclasses import dataclass

from trueloop.event.base import Event

__all__ = ["BatchNormSettings", "ModelsIdentical", "ZeroWeights"]


@dataclass(frozen=True, slots=True)
class ModelsIdentical(Event):
    """Several models of one class were trained and have bit-identical weights. `place`: a call of the last one."""

    name: str
    count: int  # models that are equal
    trained: int  # models of that class that were trained
    parameters: int


@dataclass(frozen=True, slots=True)
class ZeroWeights(Event):
    """Trainable weights that are zero from the first step to the end. `place`: a call of the model."""

    model: str
    names: tuple[str, ...]
    frozen: bool  # a frozen table instead (pretrained vectors), most of whose rows are zero
    share: float  # of rows that are zero
    steps: int


@dataclass(frozen=True, slots=True)
class BatchNormSettings(Event):
    """Batch norm layers whose running statistics cannot follow within the run. `place`: a call of the model."""

    model: str
    layers: int
    momentum: float
    updates: int  # training calls
    left: float  # share of the initial statistics in the running ones
    shift: float  # running mean against that of the batches, in standard deviations
    ratio: float  # running variance over that of the batches
