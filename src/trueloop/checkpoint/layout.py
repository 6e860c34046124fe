"""How the processes of a run write and read its checkpoints: one writes everything, or each writes its shards
(`sharded_contents.py`). Either layout can be read by either kind of run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, final

from torch import nn
from torch.optim import Optimizer

from trueloop.checkpoint.contents import Contents, read_contents, take_snapshot
from trueloop.checkpoint.saver import Savable
from trueloop.checkpoint.sharded import OPTIMIZER
from trueloop.checkpoint.store import Store
from trueloop.parallel.strategy import Single, Strategy

__all__ = ["CheckpointReader", "FullLayout", "Layout", "Models", "Values"]

Values = Mapping[str, Any]
Models = Mapping[str, nn.Module]


class CheckpointReader(ABC):
    """A verified checkpoint. With several processes, all must call the same methods in the same order."""

    about: Values
    training: Values  # Counters, random states and the like

    @property
    @abstractmethod
    def models(self) -> tuple[str, ...]:
        """'model', 'ema'."""

    @abstractmethod
    def fill_model(self, name: str, model: nn.Module) -> None:
        """Load the weights saved under that name. Raises BadCheckpoint."""

    @abstractmethod
    def fill_optimizer(self, optimizer: Optimizer) -> None: ...


class Layout(ABC):
    """One way to write and read checkpoints. All processes must call every method together."""

    @abstractmethod
    def snapshot(self, about: Values, models: Models, optimizer: Optimizer, training: Values) -> Savable | None:
        """A snapshot for a Saver; None: another process writes."""

    @abstractmethod
    def read(self, store: Store, name: str) -> CheckpointReader:
        """Verifies every file before using any. Raises BadCheckpoint."""

    @property
    def any_failed(self) -> Callable[[bool], bool] | None:
        """If all processes save together: whether saving failed on any of them."""
        return None


@final
class FullLayout(Layout):
    """The first process writes everything; each process reads everything and keeps its part."""

    def __init__(self, strategy: Strategy | None = None) -> None:
        self.strategy = strategy or Single()

    def snapshot(self, about: Values, models: Models, optimizer: Optimizer, training: Values) -> Contents | None:
        weights = {name: self.strategy.model_state(model) for name, model in models.items()}
        state = self.strategy.optimizer_state(optimizer)
        return take_snapshot(about, weights, {**training, OPTIMIZER: state}) if self.strategy.peers.first else None

    def read(self, store: Store, name: str) -> FullReader:
        return FullReader(read_contents(store, name), self.strategy)


@final
class FullReader(CheckpointReader):
    """Reads from full tensors in memory."""

    def __init__(self, contents: Contents, strategy: Strategy) -> None:
        self.contents, self.strategy = contents, strategy
        self.about, self.training = contents.about, contents.training

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.contents.weights)

    def fill_model(self, name: str, model: nn.Module) -> None:
        self.strategy.load_model(model, self.contents.state_of(name))

    def fill_optimizer(self, optimizer: Optimizer) -> None:
        self.strategy.load_optimizer(optimizer, self.training[OPTIMIZER])
