"""An optimizer that claims are tested on: how it is built, its reference, and a training with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import Place
from trueloop.optimizer_claims.problem import QUADRATIC, Problem

__all__ = ["LR", "NotTaken", "OptimizerSubject", "Training", "apart", "arguments_of", "moved", "snapshot"]

LR: Final = 0.01  # where neither the user nor the optimizer gives one

Build = Callable[..., Optimizer]
Edit = Callable[[int, Sequence[nn.Parameter]], None]
"""Changes the gradients of a step before the optimizer sees them."""
Groups = Callable[[list[nn.Parameter]], list[Any]]
"""The parameters -> what the optimizer is built with."""


class NotTaken(Exception):
    """The optimizer raises an error: it does not take this. The message says which."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}")


@dataclass(frozen=True)
class OptimizerSubject:
    """`options`: arguments besides the parameters, for the optimizer; the reference gets the ones it knows."""

    make: Build
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: Build | None = None
    against: str = ""
    reference_options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, parameters: Iterable[Any], **changes: Any) -> Optimizer:
        """Raises NotTaken for arguments that it does not take."""
        try:
            return self.make(parameters, **{**self.options, **changes})
        except (Exception, SystemExit) as error:
            raise NotTaken(error) from error

    def build_reference(self, parameters: Iterable[Any], **changes: Any) -> Optimizer:
        """With the same values of the arguments that both have."""
        assert self.reference is not None
        shared = {name: value for name, value in self.defaults.items() if name in arguments_of(self.reference)}
        try:
            return self.reference(parameters, **{**shared, **self.reference_options, **changes})
        except (Exception, SystemExit) as error:
            raise NotTaken(error) from error

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Its arguments, as it was built: those of its param groups and of its signature."""
        optimizer = self.build(self.fitting(QUADRATIC).parameters())
        groups = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
        signature = arguments_of(self.make)
        given = {name: value for name, value in signature.items() if value is not inspect.Parameter.empty}
        return {**given, **self.options, **groups}

    def has(self, name: str) -> bool:
        """Can this argument be given?"""
        parameters = inspect.signature(self.make).parameters.values()
        takes_any = any(each.kind == each.VAR_KEYWORD for each in parameters)
        return name in self.defaults and (takes_any or name in arguments_of(self.make))

    @property
    def lr(self) -> float | None:
        """Its learning rate; None if it has no such argument, or finds the rate itself (Adafactor's lr=None)."""
        value = self.defaults["lr"] if self.has("lr") else None
        return None if value is None else float(value)

    @cached_property
    def _manner(self) -> tuple[bool, bool]:
        """Does it take matrices only, and does it need a closure: the first of these with which it takes a step."""
        errors: list[NotTaken] = []
        for matrices in (False, True):
            for closure in (False, True):
                problem = QUADRATIC.as_matrices() if matrices else QUADRATIC
                try:
                    Training(self.build, problem, closure=closure).step()
                except NotTaken as error:
                    errors.append(error)
                else:
                    return matrices, closure
        raise errors[0]

    @property
    def needs_closure(self) -> bool:
        """Does `step()` fail without one, and succeed with one?"""
        return self._manner[1]

    def fitting(self, problem: Problem) -> Problem:
        """With parameters that it takes."""
        return problem.as_matrices() if self._manner[0] else problem

    def steps(self, steps: int) -> int:
        """Fewer where each computes many gradients."""
        return max(4, steps // 10) if self.needs_closure else steps

    def training(
        self, problem: Problem, dtype: torch.dtype = torch.float64, *, groups: Groups | None = None,
        edit: Edit | None = None, **changes: Any,
    ) -> Training:  # fmt: skip
        """`changes`: of its arguments."""
        fitting, closure = self.fitting(problem), self.needs_closure
        return Training(lambda given: self.build(given, **changes), fitting, dtype, closure, groups, edit)

    def reference_training(
        self, problem: Problem, dtype: torch.dtype = torch.float64, *, edit: Edit | None = None, **changes: Any
    ) -> Training:
        fitting, closure = self.fitting(problem), self.needs_closure
        return Training(lambda given: self.build_reference(given, **changes), fitting, dtype, closure, None, edit)

    @property
    def place(self) -> Place | None:
        """Where it is defined."""
        try:
            file, line = inspect.getsourcefile(self.make), inspect.getsourcelines(self.make)[1]
        except (TypeError, OSError):
            return None
        return Place(file, line, self.name) if file else None


def arguments_of(build: Build) -> dict[str, Any]:
    """Argument -> its default, without the parameters."""
    parameters = list(inspect.signature(build).parameters.values())
    return {
        each.name: each.default for each in parameters[1:] if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }


class Training:
    """An ordinary loop: zero_grad, loss, backward, step."""

    def __init__(
        self,
        build: Callable[[list[Any]], Optimizer],
        problem: Problem,
        dtype: torch.dtype = torch.float64,
        closure: bool = False,
        groups: Groups | None = None,
        edit: Edit | None = None,
    ) -> None:
        self.problem, self.closure, self.edit, self.taken = problem, closure, edit, 0
        self.parameters = problem.parameters(dtype)
        self.optimizer = build(self.parameters if groups is None else groups(self.parameters))
        if callable(into_training := getattr(self.optimizer, "train", None)):
            into_training()  # A schedule-free one refuses steps before

    def gradients(self) -> Tensor:
        """Compute them; the loss."""
        self.optimizer.zero_grad()
        loss = self.problem.loss(self.parameters)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.edit is not None:
            self.edit(self.taken, self.parameters)
        return loss

    def step(self) -> float:
        """Raises NotTaken if the optimizer does."""
        try:
            loss = float(self.gradients().detach())
            self.seed()
            if self.closure:  # with gradients there already, as some expect it
                self.optimizer.step(self.gradients)  # type: ignore[arg-type]  # torch's stub
            else:
                self.optimizer.step()
        except (Exception, SystemExit) as error:
            raise NotTaken(error) from error
        self.taken += 1
        return loss

    def seed(self) -> None:
        """An optimizer that draws random numbers draws the same ones in this step of every training."""
        torch.manual_seed(1000 + self.taken)

    def run(self, steps: int) -> Training:
        for _ in range(steps):
            self.step()
        return self

    def path(self, steps: int) -> list[list[Tensor]]:
        """The weights at the beginning and after each step."""
        values = [snapshot(self.parameters)]
        for _ in range(steps):
            self.step()
            values.append(snapshot(self.parameters))
        return values


def snapshot(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def moved(start: Sequence[Tensor], now: Sequence[Tensor]) -> float:
    """How far the weights are from where they began."""
    pairs = zip(start, now, strict=True)
    return float(torch.stack([(one.detach().double() - two.detach().double()).norm() for one, two in pairs]).norm())


def apart(one: Sequence[Tensor], other: Sequence[Tensor], start: Sequence[Tensor]) -> float:
    """The distance of two trainings, relative to how far the second one went. NaN in one of them: infinite."""
    distance, way = moved(one, other), moved(start, other)
    return float("inf") if distance != distance else distance / max(way, 1e-300) if distance else 0.0
