"""Small jobs for the engine's tests: blobs to tell apart, tokens to guess, a hook that keeps what it hears, runs in one
line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.checkpoint.store import Memory, Store
from trueloop.data.dataset import Dataset
from trueloop.data.source import Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.assemble import assemble
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.engine.programs.choose import choose_program
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State
from trueloop.engine.train import train
from trueloop.event import Event, NotFinite
from trueloop.hook import Ending, Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe

CLASSES, WIDTH = 3, 6


class Kept(Hook):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.events: list[Event] = []

    def logged(self, row: Row) -> None:
        self.rows.append(row)

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)

    def event_emitted(self, event: Event) -> None:
        self.events.append(event)

    def values(self, name: str = "loss", kind: str = "train") -> list[float]:
        return [row.values[name] for row in self.rows if row.kind == kind]

    def steps(self, kind: str) -> list[int]:
        return [row.step for row in self.rows if row.kind == kind]

    def not_finite(self) -> list[NotFinite]:
        return [event for event in self.events if isinstance(event, NotFinite)]


@dataclass
class Ran:
    """A run that is over."""

    loop: Loop
    kept: Kept
    ending: Ending
    store: Store

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.loop.parts.model.state_dict().items()}

    @property
    def losses(self) -> list[float]:
        return self.kept.values()


def blobs(samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points around one centre per class, and the classes."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (samples,), generator=draws)
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    return centres[labels] + 0.7 * torch.randn(samples, WIDTH, generator=draws), labels


@dataclass(frozen=True)
class Read:
    """A recipe's `data`: blobs, with whatever else a test wants of the splits."""

    samples: int = 50
    valid: int = 20
    as_dataset: bool = False
    change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, request: DataRequest) -> Splits:
        inputs, labels = blobs(self.samples)
        if self.change is not None:
            inputs, labels = self.change(inputs, labels)
        train: Source = Tensors(inputs, labels)
        if self.as_dataset:
            train = Dataset(list(zip(inputs, labels, strict=True)), labels=labels)
        return Splits(train, Tensors(*blobs(self.valid, seed=1)) if self.valid else None, **self.more)


@dataclass(frozen=True)
class Of:
    """A recipe's `data` that gives these very splits."""

    splits: Splits

    def __call__(self, request: DataRequest) -> Splits:
        return self.splits


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES))


def with_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


SMALL = Recipe(
    name="small", model=plain, data=Read(), epochs=3, batch=16, lr=1e-2, optimizer="adamw", log_every=1, device="cpu",
    statistics_every=0, trackers=(),
)  # fmt: skip


def begin(
    recipe: Recipe, store: Store | None = None, program: Callable[[Parts, State], Program] = choose_program
) -> tuple[Loop, Kept, Store]:
    kept, store = Kept(), store if store is not None else Memory()
    return Loop(assemble(replace(recipe, hooks=(*recipe.hooks, kept)), store=store), program), kept, store


def with_parts(loop: Loop, **changes: Any) -> Loop:
    """The same run, with some of its parts replaced."""
    return Loop(replace(loop.parts, **changes))


def ran(
    recipe: Recipe = SMALL,
    store: Store | None = None,
    go_on: bool = False,
    before: Callable[[Loop], None] | None = None,
    program: Callable[[Parts, State], Program] = choose_program,
) -> Ran:
    """`before`: what a test does to the loop before it trains."""
    loop, kept, store = begin(recipe, store, program)
    if go_on:
        assert loop.recovery.go_back(), "there is no checkpoint to go on from"
    if before is not None:
        before(loop)
    return Ran(loop, kept, train(loop), store)


def same_bits(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def furthest(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The largest difference of two state-dicts."""
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


# -- tokens, of which only some count --

PADDING = 0
VOCABULARY = 7
LENGTH = 40


class Guess(nn.Module):
    """The next token from this one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Embedding(VOCABULARY, 8)
        self.outer = nn.Linear(8, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.outer(self.inner(tokens))
        return scores


def sentences(*lengths: int) -> Tensors:
    """Rows of tokens with so many targets that count, and padding after them."""
    draws = torch.Generator().manual_seed(3)
    tokens = torch.randint(1, VOCABULARY, (len(lengths), LENGTH), generator=draws)
    targets = torch.randint(1, VOCABULARY, (len(lengths), LENGTH), generator=draws)
    for row, length in enumerate(lengths):
        targets[row, length:] = PADDING
    return Tensors(tokens, targets)


def reading(*lengths: int) -> Recipe:
    """A recipe that reads such sentences."""
    splits = Splits(sentences(*lengths), facts=Facts(vocabulary=VOCABULARY, ignore=PADDING))
    return replace(SMALL, model=Guess, data=Of(splits), task="language", optimizer="sgd", lr=0.5)
