"""Several ranks: what each of them did, so that one can compare.

A `RankFact` is told by one rank and judged beside those of the others: it travels with the rank's verdict to the rank
that tells for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = [
    "BatchDigested",
    "Collective",
    "CollectivesCalled",
    "GradientsShared",
    "ParametersSampled",
    "PrefixSaved",
    "RankFact",
    "RankStood",
    "SampledParameter",
    "SamplerPass",
    "StateWritten",
    "TrainedAroundWrapper",
]


@dataclass(frozen=True, slots=True)
class RankFact(Event):
    """What only the ranks together can be judged by."""

    rank: int


@dataclass(frozen=True, slots=True)
class BatchDigested(RankFact):
    """What went into a model that was about to be trained. `place` is the call of the model."""

    model: int
    index: int
    """The how-manieth call of this model with a graph, in train mode."""
    digest: str
    loader_place: Place | None
    """The line that began the pass over the loader which yielded last; None if none did."""


@dataclass(frozen=True, slots=True)
class GradientsShared(RankFact):
    """How the ranks of a run keep their copies of a model equal; told when the run ends. `place` is where that is
    written."""

    by: Literal["", "DistributedDataParallel", "all_reduce"]
    """Empty: no exchange of gradients was seen."""
    members: tuple[int, ...]
    """The ranks that exchange them."""
    sharded: bool
    """Some parameter is only a part of the whole: DTensor, FSDP."""
    averaged: bool
    """The weights themselves were exchanged after training had begun: local SGD."""
    swapped: bool
    """Ranks sent one another different things (all_to_all): experts or tables that live on one rank each."""
    broadcasts: int
    """Calls of broadcast or of scatter after the first step, weights left out: data may be handed out on purpose."""


@dataclass(frozen=True, slots=True)
class SampledParameter:
    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...]
    """A few of its elements, at places that depend on the shape only."""
    exchanged: bool = True
    """Its gradient was seen to be exchanged, by a wrapper or by hand."""

    def distance(self, other: SampledParameter) -> float:
        """How far apart two ranks' elements lie, relative to their size; 0 where they cannot be compared."""
        if self.shape != other.shape or not all(map(isfinite, (*self.values, *other.values))):
            return 0.0
        size = max(map(abs, (*self.values, *other.values)), default=0.0)
        return (
            max((abs(a - b) for a, b in zip(self.values, other.values, strict=True)), default=0.0) / size
            if size
            else 0.0
        )


@dataclass(frozen=True, slots=True)
class ParametersSampled(RankFact):
    """Some elements of the weights that an optimizer is about to move. `place` is its step."""

    optimizer: int
    name: str
    index: int
    """Steps that it has taken before."""
    parameters: tuple[SampledParameter, ...]


@dataclass(frozen=True, slots=True)
class StateWritten(RankFact):
    """torch.save wrote into a file."""

    path: str
    """Absolute, with links followed."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One call that all members of a group have to make together."""

    group: str
    members: tuple[int, ...]
    number: int
    """Counted by this rank in this group, what DistributedDataParallel does included; from 1."""
    direct: int
    """Counted over calls of functions of torch.distributed only; 0 for what DistributedDataParallel does."""
    name: str
    size: int | None
    """Numbers in the tensor, where all ranks must give as many; None where they need not."""
    dtype: str
    state: Literal["inside", "left", "failed"]
    seconds: float
    """From entering to leaving, or until now."""
    places: tuple[Place, ...]
    """The user's lines, the calling one first."""


@dataclass(frozen=True, slots=True)
class CollectivesCalled(RankFact):
    """The last collectives of a rank, oldest first, and how it ended."""

    calls: tuple[Collective, ...]
    ended: Literal["finished", "cut", "exception", "interrupted", "exit", "hung", "died", "running"]
    exception: str


@dataclass(frozen=True, slots=True)
class RankStood(RankFact):
    """A rank has not moved for as long as the user is ready to wait. `place` is its last known line."""

    doing: Literal["loading", "stopped", "unreachable", "silent"]
    """loading: it waits for one batch of a loader; stopped: its process is, by SIGSTOP, and says nothing. Of one on
    another machine: unreachable: that machine is; silent: it can be reached, but the rank does not answer."""
    seconds: float
    since: str
    """The time of day when it moved last, or was heard of last."""
    fetching: str
    """loading: what the batch comes from: 'Images, by worker process 4711 (asleep)'. On another machine: 'node 1
    (10.0.0.2): reason'."""


@dataclass(frozen=True, slots=True)
class SamplerPass(Event):
    """A pass over a loader whose DistributedSampler shuffles. `place` begins the pass."""

    loader: int
    dataset: int
    """Which dataset, counted in the order of first use."""
    epoch: int
    seed: int
    replicas: int
    trained: int
    """Optimizer steps that were taken on batches of the pass before this one, at the same place."""
    attribute: str = "sampler"
    """Where the loader keeps the sampler."""


@dataclass(frozen=True, slots=True)
class PrefixSaved(Event):
    """torch.save wrote a state whose names all begin with what a wrapper puts before them. `place` is where the state
    was taken."""

    wrapper: str
    prefix: str
    names: int
    example: str
    save_place: Place | None
    loaded_back: bool
    """A state with such names was also put into a wrapper in this run."""


@dataclass(frozen=True, slots=True)
class TrainedAroundWrapper(Event):
    """An optimizer moved a wrapped model by gradients that its DistributedDataParallel did not exchange."""

    model: str
    how: Literal["called", "replaced", "thawed"]
    """called: the inner module was called itself, `place` is where; replaced, thawed: parameters came in, or began to
    need a gradient, after wrapping, and `place` is the wrapping."""
    parameters: tuple[str, ...]
    """Those that are not exchanged; all, if the inner module was called."""
    steps: int
    """Steps so far that were taken so."""
    world_size: int
