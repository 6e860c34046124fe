"""Facts of single ranks, to be compared with those of the others.

One rank emits a `RankFact`; it is sent with the rank's verdict to the rank that reports for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["BatchDigested", "Collective", "CollectivesCalled", "GradientsNotExchanged", "GradientsShared"]
__all__ += ["ParametersSampled", "PrefixSaved", "RankFact", "RankStalled", "SampledParameter", "SamplerPass"]
__all__ += ["StateWritten"]


@dataclass(frozen=True, slots=True)
class RankFact(Event):
    """A fact that means something only beside those of the other ranks."""

    rank: int


@dataclass(frozen=True, slots=True)
class BatchDigested(RankFact):
    """The input of a model that is about to be trained. `place`: the call of the model."""

    model: int
    index: int  # which call of this model with a graph, in train mode
    digest: str
    loader_place: Place | None  # where the pass over the loader that yielded last began; None: no loader


@dataclass(frozen=True, slots=True)
class GradientsShared(RankFact):
    """How the ranks keep their copies of a model equal; emitted at the end of the run. `place`: the line for it."""

    by: Literal["", "DistributedDataParallel", "all_reduce"]  # empty: no exchange of gradients was seen
    members: tuple[int, ...]  # the ranks that exchange them
    sharded: bool  # some parameter is a shard: DTensor, FSDP
    averaged: bool  # the weights themselves were exchanged after training had begun: local SGD
    swapped: bool  # all_to_all: experts or tables that live on one rank each
    broadcasts: int  # broadcast or scatter calls after the first step, without weights: data may be distributed


@dataclass(frozen=True, slots=True)
class SampledParameter:
    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...]  # a few elements, at positions that depend on the shape only
    exchanged: bool = True  # its gradient was seen being exchanged, by a wrapper or manually

    def distance(self, other: SampledParameter) -> float:
        """Largest difference of two ranks' elements, relative to their scale; 0 where they cannot be compared."""
        values = (*self.values, *other.values)
        scale = max(map(abs, values), default=0.0)
        if self.shape != other.shape or not all(map(isfinite, values)) or not scale:
            return 0.0
        return max(abs(a - b) for a, b in zip(self.values, other.values, strict=True)) / scale


@dataclass(frozen=True, slots=True)
class ParametersSampled(RankFact):
    """Some elements of the weights that an optimizer is about to update. `place`: its step."""

    optimizer: int
    name: str
    index: int  # its steps before
    parameters: tuple[SampledParameter, ...]


@dataclass(frozen=True, slots=True)
class StateWritten(RankFact):
    """`torch.save` wrote to a file."""

    path: str  # absolute, symbolic links resolved


@dataclass(frozen=True, slots=True)
class Collective:
    """One call that all members of a group must make together."""

    group: str
    members: tuple[int, ...]
    number: int  # counted by this rank in this group from 1, calls of DistributedDataParallel included
    direct: int  # counted over direct calls of torch.distributed only; 0: a call of DistributedDataParallel
    name: str
    size: int | None  # elements in the tensor, where all ranks must give as many; None: they need not
    dtype: str
    state: Literal["inside", "left", "failed"]
    seconds: float  # from entering to leaving, or until now
    places: tuple[Place, ...]  # the user's lines, the calling one first


@dataclass(frozen=True, slots=True)
class CollectivesCalled(RankFact):
    """The last collectives of a rank, oldest first, and how the rank ended."""

    calls: tuple[Collective, ...]
    ended: Literal["finished", "cut", "exception", "interrupted", "exit", "hung", "died", "running"]
    exception: str


@dataclass(frozen=True, slots=True)
class RankStalled(RankFact):
    """A rank has made no progress for longer than the user's timeout. `place`: its last known line."""

    doing: Literal["loading", "stopped", "unreachable", "silent"]
    """loading: it waits for a batch of a loader; stopped: its process got SIGSTOP. On another machine, unreachable: the
    machine cannot be reached; silent: it can, but the rank does not answer."""
    seconds: float
    since: str  # time of day of its last progress, or last message
    fetching: str
    """loading: what the batch comes from: 'Images, by worker process 4711 (asleep)'. On another machine: 'node 1
    (10.0.0.2): reason'."""


@dataclass(frozen=True, slots=True)
class SamplerPass(Event):
    """A pass over a loader with a shuffling DistributedSampler. `place`: where the pass begins."""

    loader: int
    dataset: int  # numbered in the order of first use
    epoch: int
    seed: int
    replicas: int
    trained: int  # optimizer steps on batches of the pass before this one, at the same place
    attribute: str = "sampler"  # where the loader keeps the sampler


@dataclass(frozen=True, slots=True)
class PrefixSaved(Event):
    """`torch.save` wrote a state whose names all have a wrapper's prefix. `place`: where the state was taken."""

    wrapper: str
    prefix: str
    names: int
    example: str
    save_place: Place | None
    loaded_back: bool  # a state with such names was also loaded into a wrapper in this run


@dataclass(frozen=True, slots=True)
class GradientsNotExchanged(Event):
    """An optimizer updated a wrapped model with gradients that its DistributedDataParallel did not exchange."""

    model: str
    how: Literal["called", "replaced", "thawed"]
    """called: the inner module was called directly, at `place`; replaced, thawed: parameters were added or got
    requires_grad=True after wrapping, and `place` is the wrapping."""
    parameters: tuple[str, ...]  # those not exchanged; all, if the inner module was called
    steps: int  # such steps so far
    world_size: int
