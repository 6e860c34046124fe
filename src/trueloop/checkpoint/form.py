"""How the processes of a run write and read its checkpoints: one writes all of it, or each writes what it holds
(`sharded_contents.py`).

Either is read by either: what was written in pieces is put together for one, and cut for many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import nn

from trueloop.checkpoint.contents import Contents, read_contents, taken
from trueloop.checkpoint.saver import Savable
from trueloop.checkpoint.sharded import OPTIMIZER
from trueloop.checkpoint.store import Folder, Store
from trueloop.parallel.strategy import Single, Strategy

__all__ = ["Form", "InOne", "Reading", "WholeReading", "form_of"]


class Reading(ABC):
    """A verified checkpoint, to take from. Where there are several processes, all take the same things in the same
    order."""

    about: Mapping[str, Any]
    training: Mapping[str, Any]
    """Counters, random states and the like."""

    @property
    @abstractmethod
    def models(self) -> tuple[str, ...]:
        """'model', 'ema'."""

    @abstractmethod
    def fill_model(self, name: str, model: nn.Module) -> None:
        """With the weights of that name. Raises BadCheckpoint."""

    @abstractmethod
    def fill_optimizer(self, optimizer: torch.optim.Optimizer) -> None: ...


class Form(ABC):
    """One way. All processes call everything here together."""

    @abstractmethod
    def taken(
        self,
        about: Mapping[str, Any],
        models: Mapping[str, nn.Module],
        optimizer: torch.optim.Optimizer,
        training: Mapping[str, Any],
    ) -> Savable | None:
        """A snapshot, for a Saver; None: another process writes."""

    @abstractmethod
    def read(self, store: Store, name: str) -> Reading:
        """Every file verified before any is used. Raises BadCheckpoint."""

    @property
    def any_failed(self) -> Callable[[bool], bool] | None:
        """Where all save together: has it failed on any of them?"""
        return None


@final
class InOne(Form):
    """The first process writes all of it; each reads all of it, and takes what it holds."""

    def __init__(self, strategy: Strategy | None = None) -> None:
        self.strategy = strategy or Single()

    def taken(
        self,
        about: Mapping[str, Any],
        models: Mapping[str, nn.Module],
        optimizer: torch.optim.Optimizer,
        training: Mapping[str, Any],
    ) -> Contents | None:
        weights = {name: self.strategy.model_state(model) for name, model in models.items()}
        state = self.strategy.optimizer_state(optimizer)
        return taken(about, weights, {**training, OPTIMIZER: state}) if self.strategy.peers.first else None

    def read(self, store: Store, name: str) -> WholeReading:
        return WholeReading(read_contents(store, name), self.strategy)


@final
class WholeReading(Reading):
    """Of one that was read whole."""

    def __init__(self, contents: Contents, strategy: Strategy) -> None:
        self.contents, self.strategy = contents, strategy
        self.about, self.training = contents.about, contents.training

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.contents.weights)

    def fill_model(self, name: str, model: nn.Module) -> None:
        self.strategy.load_model(model, self.contents.state_of(name))

    def fill_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.strategy.load_optimizer(optimizer, self.training[OPTIMIZER])


def form_of(strategy: Strategy, store: Store) -> Form:
    """In pieces where processes hold parts, and can all write into one folder. All processes call this together."""
    if not strategy.in_parts or not isinstance(store, Folder):
        return InOne(strategy)
    from trueloop.checkpoint.sharded_contents import InPieces  # torch takes its time to load this

    return InPieces(strategy.peers)
