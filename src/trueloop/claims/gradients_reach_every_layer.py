"""gradients-reach-every-layer: after a training step every weight has a gradient that is a number and not all zero.

A result that is detached, a branch that the forward never takes, units that are all switched off: the weights behind
them stay as they were drawn, while the rest of the model learns around them. A gradient that is zero in the first step
alone is no fault: behind a last layer that starts at zero (residual branches, LoRA) the first one comes with the second
step. So some steps are looked at before it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.steps import backward, micros_at, update
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.data.source import tensors_in
from trueloop.engine.accounts import Accounts
from trueloop.engine.parts import Parts
from trueloop.engine.torch_settings import torch_settings
from trueloop.event import GradientsMeasured, ModelSeen, ParameterAccount, ParametersAccounted, Place
from trueloop.measure.parameters import is_idle_expert
from trueloop.measure.tensors import dense
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import NormBase

__all__ = ["GradientsReachEveryLayer"]

LOOKS: Final = 5
"""Steps that are looked at before a weight counts as one without a gradient: each last layer that starts at zero costs
one."""
LONGEST: Final = 25
"""Steps with those that a scaler refuses while it looks for its scale: it halves 65,536 at most sixteen times."""
TOLD: Final = 3
"""Events in which a script's layer must have had a gradient of zero, each time: the first may be one of a branch that
starts at zero."""
SHOWN: Final = 64
"""Layers whose norms the evidence holds."""

CUT: Final = Cause(
    "what it gives is taken out of the graph",
    "look for detach(), .data, .item(), numpy() or no_grad() between it and the loss",
)
UNUSED: Final = Cause(
    "the forward does not use it", "call it in forward, or leave it out; if it is meant to rest: requires_grad_(False)"
)
DEAD: Final = Cause(
    "all its units are switched off, or multiplied by zero", "look at the output of the layer after it: is it all zero?"
)
WRONG: Final = Cause("a number overflows, or a slope has no value", "the claim first-nonfinite names the first one")


@final
class GradientsReachEveryLayer(Claim):
    name = "gradients-reach-every-layer"
    healthy = f"every parameter that requires a gradient has one, finite and not all zero, within {LOOKS} steps"
    causes: ClassVar[tuple[Cause, ...]] = (CUT, UNUSED, DEAD, WRONG)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        looks = _Looks(subject.parts(compile="off", statistics_every=0))
        looks.take()
        if not looks.trainable:
            return self.unproved("no parameter of the model requires a gradient")
        facts: dict[str, object] = {"trainable": len(looks.trainable), "steps": looks.steps, **_norms(looks.norms)}
        missing, zero = looks.missing(), looks.zero()
        if not (looks.wrong or missing or zero):
            return self.holds(_all_well(len(looks.trainable), looks.steps, looks.norms), facts)
        facts |= {
            "not_finite": looks.wrong,
            "without_gradient": [each.name for each in missing],
            "all_zero": [each.name for each in zero],
        }
        said = _sentence(len(looks.trainable), looks.steps, looks.wrong, missing, zero)
        causes = self._ordered(looks.wrong, missing, zero)
        return self.fails(said, facts, causes, _place([*missing, *zero]) or looks.place_of(looks.wrong))

    def of_script(self, subject: ScriptSubject) -> Proof:
        told = {event.model: event for event in subject.checked.of(ParametersAccounted)}  # the latest of each model
        trainable = sum(event.complete + len(event.accounts) for event in told.values())
        if not trainable:
            return self.unproved(
                "no model was trained for long enough in this run, or it is compiled and cannot be looked into"
            )
        missing = [
            account
            for event in told.values()
            for account in event.accounts
            if account.held and not account.has_gradient
        ]
        zero = _always_zero(subject.checked.of(GradientsMeasured))
        steps = max(event.steps for event in told.values())
        facts: dict[str, object] = {"trainable": trainable, "steps": steps}
        if not (missing or zero):
            last = [event for event in subject.checked.of(GradientsMeasured) if event.layers][-1:]
            norms = {layer.name: layer.norm for event in last for layer in event.layers}
            return self.holds(_all_well(trainable, steps, norms), facts | _norms(norms))
        facts |= {"without_gradient": [each.name for each in missing], "all_zero": zero}
        dead = [_dead(name) for name in zero]
        place = _place(missing) or next((model.defined for model in subject.checked.of(ModelSeen)), None)
        return self.fails(
            _sentence(trainable, steps, (), missing, dead), facts, self._ordered((), missing, dead), place
        )

    def _ordered(
        self, wrong: Sequence[str], missing: Sequence[ParameterAccount], zero: Sequence[ParameterAccount]
    ) -> tuple[Cause, ...]:
        """What was seen, before what is only likely."""
        seen = [
            *([WRONG] if wrong else []),
            *([CUT] if any(each.ran_with_graph for each in missing) else []),
            *([UNUSED] if any(not each.ran for each in missing) else []),
            *([DEAD] if zero else []),
        ]
        return (*seen, *(cause for cause in self.causes if cause not in seen))


# -- what was seen, in words --


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"


def _sentence(
    trainable: int,
    steps: int,
    wrong: Sequence[str],
    missing: Sequence[ParameterAccount],
    zero: Sequence[ParameterAccount],
) -> str:
    parts = [
        f"{len(names)} of {trainable} trainable parameters {what} ({_listed(names)})"
        for names, what in (
            (list(wrong), "have a gradient that is no number"),
            ([each.name for each in missing], "have no gradient"),
            ([each.name for each in zero], "have one that is all zero"),
        )
        if names
    ]
    return f"after {steps} {'step' if steps == 1 else 'steps'} {'; '.join(parts)}"


def _all_well(trainable: int, steps: int, norms: dict[str, float]) -> str:
    said = f"all {trainable} trainable parameters have a gradient after {steps} {'step' if steps == 1 else 'steps'}"
    lengths = {name: norm for name, norm in norms.items() if norm > 0}
    if len(lengths) < 2:
        return said
    most, least = max(lengths, key=lengths.__getitem__), min(lengths, key=lengths.__getitem__)
    return f"{said}; the longest ({most}: {lengths[most]:.2g}) is {lengths[most] / lengths[least]:.3g} times the shortest ({least})"


def _norms(norms: dict[str, float]) -> dict[str, object]:
    lengths = [norm for norm in norms.values() if norm > 0]
    if not lengths:
        return {}
    return {"largest_over_smallest": max(lengths) / min(lengths), "norms": dict(list(norms.items())[:SHOWN])}


def _place(accounts: Sequence[ParameterAccount]) -> Place | None:
    """The first line that cuts one off; else the first that makes one."""
    cuts = (cut for account in accounts for cut in account.cuts)
    return next(cuts, None) or next((account.defined for account in accounts if account.defined is not None), None)


def _dead(name: str) -> ParameterAccount:
    return ParameterAccount(
        name, 0, trainable=True, held=True, has_gradient=True, ran=True, ran_with_graph=True, defined=None, cuts=()
    )


def _always_zero(events: Sequence[GradientsMeasured]) -> list[str]:
    """Weights of a script whose gradient was zero each time it was measured, the optimizer's later steps included."""
    seen: dict[tuple[int, str, str], list[float]] = {}
    for event in events:
        for layer in event.layers:
            seen.setdefault((event.optimizer, event.model, layer.name), []).append(layer.norm)
    return [name for (_, _, name), norms in seen.items() if len(norms) >= TOLD and not any(norms)]


# -- the looks --


@final
class _Looks:
    """At the gradients of the first steps of a run, between the backward and the update."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.accounts = Accounts(parts.model, parts.optimizer, compiled=False)
        self.trainable = {
            name: parameter for name, parameter in parts.model.named_parameters() if parameter.requires_grad
        }
        self.steps = 0
        self.wrong: list[str] = []
        """Parameters whose gradient is no number."""
        self.norms: dict[str, float] = {}
        """By layer, in the last look."""
        self._had: set[str] = set()
        self._moved: set[str] = set()
        """Those whose gradient was not all zero, at some look."""
        self._order: list[str] = []
        """Layers without parts, in the order in which they first ran."""

    def take(self) -> None:
        """Until every parameter has had its gradient, or it has been looked for often enough."""
        parts = self.parts
        parts.into_training_mode()
        with torch_settings(parts.precision, parts.recipe):
            for step in range(LONGEST):
                with self._watched():
                    loss = backward(parts, micros_at(parts, step))
                if not self._overflowed(loss):
                    self._look()
                if self.wrong or self.steps >= LOOKS or set(self.trainable) <= self._moved:
                    return
                update(parts, parts.schedule(step))

    def _overflowed(self, loss: Tensor) -> bool:
        """Is it the scaler, finding its scale?"""
        gradients = [parameter.grad for parameter in self.trainable.values() if parameter.grad is not None]
        return self.parts.precision.is_overflow(loss) and not all(
            bool(torch.isfinite(dense(each)).all()) for each in gradients
        )

    @contextmanager
    def _watched(self) -> Iterator[None]:
        def look(name: str, module: nn.Module, output: Any) -> None:
            if not any(tensor.numel() for tensor in tensors_in(output)):
                return  # an expert that was asked nothing has not run
            self.accounts.saw(module, output)
            if not name:
                self.accounts.saw_output(output)
            elif next(module.children(), None) is None and name not in self._order:
                self._order.append(name)

        def hook(name: str) -> Callable[..., None]:
            return lambda module, _, output: look(name, module, output)

        handles = [module.register_forward_hook(hook(name)) for name, module in self.parts.model.named_modules()]
        yield
        for handle in handles:
            handle.remove()

    @torch.no_grad()
    def _look(self) -> None:
        self.steps += 1
        self.accounts.look()
        squares: dict[str, float] = {}
        for name, parameter in self.trainable.items():
            if parameter.grad is None:
                continue
            self._had.add(name)
            length = float(dense(parameter.grad).double().norm())
            if not math.isfinite(length):
                self.wrong.append(name)
            elif length > 0:
                self._moved.add(name)
            layer = name.rpartition(".")[0] or name
            squares[layer] = squares.get(layer, 0.0) + length * length
        self.norms = {layer: math.sqrt(square) for layer, square in squares.items()}

    # -- what has not been reached --

    def missing(self) -> list[ParameterAccount]:
        """Never a gradient; an expert whose turn has not come is left out."""
        accounts = (self._account(name) for name in self.trainable if name not in self._had)
        return [each for each in accounts if each.ran or not is_idle_expert(self.parts.model, each.name, self._moved)]

    def zero(self) -> list[ParameterAccount]:
        """A gradient, but never another than zero; a bias that the norm after it takes away again is left out."""
        accounts = (
            self._account(name) for name in self.trainable if name in self._had - self._moved and name not in self.wrong
        )
        idle = (each for each in accounts if each.ran or not is_idle_expert(self.parts.model, each.name, self._moved))
        return [each for each in idle if not self._is_taken_away(each.name)]

    def place_of(self, names: Sequence[str]) -> Place | None:
        return _place([self._account(name) for name in names])

    def _account(self, name: str) -> ParameterAccount:
        held = {id(parameter) for parameter in self.parts.parameters}
        return self.accounts.account(name, self.trainable[name], id(self.trainable[name]) in held)

    def _is_taken_away(self, name: str) -> bool:
        layer, _, attribute = name.rpartition(".")
        if attribute != "bias" or layer not in self._order[:-1]:
            return False
        following = self.parts.model.get_submodule(self._order[self._order.index(layer) + 1])
        return isinstance(following, NormBase)
