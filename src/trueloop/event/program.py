"""The step program: what a sampled training step or evaluation call computed, operation by operation.

Values are numbered in the order in which they appear; an operation reads some of them and makes others. Nothing in it
depends on how the user spelled a loss or cut a batch, so rules ask it about roles and paths (`rules/program_view.py`).
"""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["ModelUse", "Operation", "Option", "StepProgram", "Value"]

Option = tuple[str, str]  # an argument that is no tensor: its name or position, and its value as text


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program, as it was when it appeared."""

    shape: tuple[int, ...]
    dtype: str
    origin: Literal["operation", "parameter", "buffer", "batch", "outside"]
    """operation: made by one; batch: from a loader; outside: a tensor from before the step."""
    name: str  # of a parameter or buffer
    grad: bool  # it has a graph
    memory: int  # values with one number share their storage
    smallest: float | None = None  # None: not measured
    largest: float | None = None
    mean: float | None = None
    constant: bool = False  # all elements are equal
    trainer: Literal["", "optimizer", "elsewhere", "nobody"] = ""
    """Of a parameter in training. optimizer: one holds it, or held it; elsewhere: its values were loaded or are written
    by other code; nobody: it has the values that it had in an
    earlier program."""
    initial: bool = False
    """Of a parameter that nobody trains: its values are those of a usual initialization, constant or uniform."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of a function of torch, from the user's code or from a layer."""

    name: str  # softmax, cross_entropy, __getitem__, add ...
    inputs: tuple[int, ...]  # values, in the order of the arguments
    outputs: tuple[int, ...]
    options: tuple[Option, ...]
    place: Place | None
    model: int  # the model in whose forward it ran; -1: none
    grad: bool  # gradients were being recorded
    number: float | None = None  # the Python number that it returned: item(), float()
    direct: bool = False  # the user's own line called it, not a layer or a library


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A call of a model inside the program."""

    model: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    place: Place | None
    training: bool
    grad: bool
    always_behind: bool = False  # its first call in the run had inputs with a graph: it came behind another model


@dataclass(frozen=True, slots=True)
class StepProgram(Event):
    """One sampled training step, up to and including its optimizer step, or one sampled part of an evaluation."""

    phase: Literal["training", "evaluation"]
    values: tuple[Value, ...]
    operations: tuple[Operation, ...]
    models: tuple[ModelUse, ...]
    losses: tuple[int, ...]  # values on which backward was called
    complete: bool  # no operation was left out
