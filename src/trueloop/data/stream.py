"""Training batches that are made one after another: by an environment, a generator, a loader.

    class Rollouts(trueloop.Stream):
        def next(self, loop): ...           # the next batch; `loop.model` is the model as it is now
        def state_dict(self): ...           # what the next batch depends on, besides random numbers and the model
        def load_state_dict(self, state): ...

A batch cannot be made twice, so the checkpoint holds the stream's state. What `next` draws from torch's, NumPy's and
Python's random numbers is drawn from the training's random states, which the checkpoint holds too.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

from torch import Tensor

from trueloop.data.source import Batch, Source
from trueloop.errors import BadData, NotByIndex

__all__ = ["Stream", "as_batch"]


class Stream(Source):
    """Batches, one after another, without end."""

    by_index = False

    @abstractmethod
    def next(self, loop: Any) -> Any:
        """The next batch: (inputs, targets), or a dict. `loop`: the run's Loop (loop.model, loop.step ...)."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values; {} if a batch depends on random numbers and on the model only."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What `state_dict` returned: the next batch is the one that came next then."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Batches that count as an epoch; None: the recipe gives `steps`, and the run is one epoch."""
        return None

    @property
    def samples_per_batch(self) -> int | None:
        """None: the recipe's `batch` says it."""
        return None

    @property
    def per_process(self) -> bool:
        """With several processes: does each get batches of its own? False: all get the same, and each takes a share."""
        return True

    @property
    def name(self) -> str:
        """In messages."""
        return type(self).__name__

    @property
    def note(self) -> str:
        """How the stream is resumed, for the start of the run."""
        return f"data: batches from the stream {self.name}; its state is in every checkpoint"

    def close(self) -> None:
        """The run ends: release what the stream holds open."""

    def __bool__(self) -> bool:
        return True  # not by its length, which is not known

    def __len__(self) -> int:
        self.refuse()

    def fetch(self, numbers: Tensor) -> Batch:
        self.refuse()

    def refuse(self) -> NoReturn:
        """What needs samples by index cannot have them."""
        raise NotByIndex(
            f"{self.name} gives batches one after another and has no samples by index, which this needs. "
            "Return a map-style dataset instead, as in Splits(train=dataset)."
        )


def as_batch(given: Any, whose: str) -> Batch:
    """What a stream or a loader gave, as inputs and targets. `whose`: its name in messages."""
    if isinstance(given, Batch):
        return given
    if isinstance(given, Mapping):
        inputs = dict(given)
        return Batch(inputs, inputs.get("labels", inputs.get("label")))
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return Batch(*given)
    of = f" of {len(given)}" if isinstance(given, (tuple, list)) else ""
    raise BadData(
        f"{whose} gave a {type(given).__name__}{of}, not (inputs, targets) or a dict. Several inputs are one tuple: "
        "((tokens, lengths), targets)."
    )
