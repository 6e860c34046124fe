"""gradients-reach-every-layer: after a training step every weight has a gradient that is finite and not all zero.

A detached result, a branch that the forward never takes, dead units: the weights behind them keep their initial values
while the rest of the model trains. A zero gradient in the first step alone is not a fault: behind a zero-initialized
layer (residual branches, LoRA) the first gradient comes with the second step. So several steps are measured.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.training_step import apply_update, backward, micro_batches_at
from trueloop.data.source import tensors_in
from trueloop.engine.accounts import Accounts
from trueloop.engine.layers import remove_after
from trueloop.engine.parts import Parts
from trueloop.engine.torch_settings import torch_settings
from trueloop.event import GradientsMeasured, ModelSeen, ParameterAccount, ParametersAccounted, Place
from trueloop.measure.parameters import is_idle_expert
from trueloop.measure.tensors import dense
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import NormBase

__all__ = ["GradientsReachEveryLayer"]

STEPS: Final = 5  # measured before a weight counts as one without a gradient; each zero-initialized layer costs one
MOST_STEPS: Final = 25  # including those that a scaler skips: it halves 65,536 at most sixteen times
EVENTS: Final = 3  # of a script in which a layer must have a zero gradient; the first may be zero-initialized
SHOWN: Final = 64  # layers whose norms the evidence holds

CUT = Cause("its output is detached from the graph", "look for detach(), .data, .item(), numpy(), no_grad() behind it")
UNUSED = Cause("the forward does not use it", "call it in forward, or remove it; to freeze it: `requires_grad_(False)`")
DEAD = Cause("all its units are dead, or multiplied by zero", "is the output of the next layer all zero?")
NOT_FINITE = Cause("a value overflows, or a gradient is undefined", "the claim first-nonfinite names the first")


@final
class GradientsReachEveryLayer(Claim):
    name = "gradients-reach-every-layer"
    healthy = f"every trainable parameter has a gradient, finite and not all zero, within {STEPS} steps"
    causes: ClassVar[tuple[Cause, ...]] = (CUT, UNUSED, DEAD, NOT_FINITE)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        measured = _Measurement(subject.parts(compile="off", statistics_every=0))
        measured.run()
        trainable, steps, nonfinite = len(measured.trainable), measured.steps, measured.nonfinite
        if not trainable:
            return self.unproved("no parameter of the model has requires_grad=True")
        facts: dict[str, object] = {"trainable": trainable, "steps": steps, **_norm_facts(measured.norms)}
        missing, zero = measured.missing(), measured.zero()
        if not (nonfinite or missing or zero):
            return self.holds(_summary(trainable, steps, measured.norms), facts)
        facts |= {"not_finite": nonfinite, "without_gradient": _names(missing), "all_zero": _names(zero)}
        said = _sentence(trainable, steps, nonfinite, _names(missing), _names(zero))
        place = _place([*missing, *zero]) or _place([measured.account(name) for name in nonfinite])
        return self.fails(said, facts, self._likely(nonfinite, missing, zero), place)

    def try_script(self, subject: ScriptSubject) -> Proof:
        events = {event.model: event for event in subject.checked.of(ParametersAccounted)}  # the latest of each model
        trainable = sum(event.complete + len(event.accounts) for event in events.values())
        if not trainable:
            return self.unproved("no model was trained for long enough in this run, or it is compiled")
        accounts = (account for event in events.values() for account in event.accounts)
        missing = [account for account in accounts if account.held and not account.has_gradient]
        measured = subject.checked.of(GradientsMeasured)
        zero = _always_zero(measured)
        steps = max(event.steps for event in events.values())
        facts: dict[str, object] = {"trainable": trainable, "steps": steps}
        if not (missing or zero):
            last = [event for event in measured if event.layers][-1:]
            norms = {layer.name: layer.norm for event in last for layer in event.layers}
            return self.holds(_summary(trainable, steps, norms), facts | _norm_facts(norms))
        facts |= {"without_gradient": _names(missing), "all_zero": zero}
        place = _place(missing) or next((model.defined for model in subject.checked.of(ModelSeen)), None)
        said = _sentence(trainable, steps, (), _names(missing), zero)
        return self.fails(said, facts, self._likely((), missing, zero), place)

    def _likely(
        self, nonfinite: Sequence[str], missing: Sequence[ParameterAccount], zero: Sequence[object]
    ) -> tuple[Cause, ...]:
        cut, unused = any(each.ran_with_graph for each in missing), any(not each.ran for each in missing)
        seen = {NOT_FINITE: bool(nonfinite), CUT: cut, UNUSED: unused, DEAD: bool(zero)}
        return self.likely_first(*(cause for cause, applies in seen.items() if applies))


# -- in words --


def _names(accounts: Sequence[ParameterAccount]) -> list[str]:
    return [account.name for account in accounts]


def _steps(steps: int) -> str:
    return f"{steps} {'step' if steps == 1 else 'steps'}"


def _sentence(trainable: int, steps: int, nonfinite: Sequence[str], missing: Sequence[str], zero: Sequence[str]) -> str:
    faults = {"have a NaN or Inf gradient": nonfinite, "have no gradient": missing, "have an all-zero gradient": zero}
    parts = [
        f"{len(names)} of {trainable} trainable parameters {fault} ({', '.join(names[:3])}{' ...' * (len(names) > 3)})"
        for fault, names in faults.items()
        if names
    ]
    return f"after {_steps(steps)} {'; '.join(parts)}"


def _summary(trainable: int, steps: int, norms: dict[str, float]) -> str:
    said = f"all {trainable} trainable parameters have a gradient after {_steps(steps)}"
    nonzero = {name: norm for name, norm in norms.items() if norm > 0}
    if len(nonzero) < 2:
        return said
    most, least = max(nonzero, key=nonzero.__getitem__), min(nonzero, key=nonzero.__getitem__)
    ratio = f"{nonzero[most] / nonzero[least]:.3g}"
    return f"{said}; the largest gradient norm ({most}: {nonzero[most]:.2g}) is {ratio} times the smallest ({least})"


def _norm_facts(norms: dict[str, float]) -> dict[str, object]:
    nonzero = [norm for norm in norms.values() if norm > 0]
    if not nonzero:
        return {}
    return {"largest_over_smallest": max(nonzero) / min(nonzero), "norms": dict(list(norms.items())[:SHOWN])}


def _place(accounts: Sequence[ParameterAccount]) -> Place | None:
    """The first line that detaches one; else the first that creates one."""
    cuts = (cut for account in accounts for cut in account.cuts)
    return next(cuts, None) or next((account.defined for account in accounts if account.defined is not None), None)


def _always_zero(events: Sequence[GradientsMeasured]) -> list[str]:
    """Weights of a script whose gradient was zero in every measurement."""
    norms: dict[tuple[int, str, str], list[float]] = {}
    for event in events:
        for layer in event.layers:
            norms.setdefault((event.optimizer, event.model, layer.name), []).append(layer.norm)
    return [name for (_, _, name), each in norms.items() if len(each) >= EVENTS and not any(each)]


# -- measuring --


@final
class _Measurement:
    """The gradients of the first steps of a run, between backward and update."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.accounts = Accounts(parts.model, parts.optimizer, compiled=False)
        self.trainable = {name: each for name, each in parts.model.named_parameters() if each.requires_grad}
        self.steps = 0
        self.nonfinite: list[str] = []  # parameters with a NaN or Inf gradient
        self.norms: dict[str, float] = {}  # by layer, at the last step
        self._had: set[str] = set()
        self._nonzero: set[str] = set()  # parameters with a nonzero gradient at some step
        self._order: list[str] = []  # layers without children, in the order of their first call

    def run(self) -> None:
        """Until every parameter has had its gradient, or for enough steps."""
        parts = self.parts
        parts.into_training_mode()
        with torch_settings(parts.precision, parts.recipe):
            for step in range(MOST_STEPS):
                with self._hooked():
                    loss = backward(parts, micro_batches_at(parts, step))
                if not self._overflowed(loss):
                    self._measure()
                if self.nonfinite or self.steps >= STEPS or set(self.trainable) <= self._nonzero:
                    return
                apply_update(parts, parts.schedule(step))

    def _overflowed(self, loss: Tensor) -> bool:
        """The scaler is still searching its scale."""
        gradients = [parameter.grad for parameter in self.trainable.values() if parameter.grad is not None]
        finite = all(bool(torch.isfinite(dense(each)).all()) for each in gradients)
        return self.parts.precision.is_overflow(loss) and not finite

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        def hook(name: str) -> Callable[..., None]:
            def record(module: nn.Module, _: Any, output: Any) -> None:
                if not any(tensor.numel() for tensor in tensors_in(output)):
                    return  # an expert without tokens has not run
                self.accounts.saw(module, output)
                if not name:
                    self.accounts.saw_output(output)
                elif next(module.children(), None) is None and name not in self._order:
                    self._order.append(name)

            return record

        modules = self.parts.model.named_modules()
        with remove_after(module.register_forward_hook(hook(name)) for name, module in modules):
            yield

    @torch.no_grad()
    def _measure(self) -> None:
        self.steps += 1
        self.accounts.look()
        squares: dict[str, float] = {}
        for name, parameter in self.trainable.items():
            if parameter.grad is None:
                continue
            self._had.add(name)
            norm = float(dense(parameter.grad).double().norm())
            if not math.isfinite(norm):
                self.nonfinite.append(name)
            elif norm > 0:
                self._nonzero.add(name)
            layer = name.rpartition(".")[0] or name
            squares[layer] = squares.get(layer, 0.0) + norm * norm
        self.norms = {layer: math.sqrt(square) for layer, square in squares.items()}

    # -- parameters without a gradient --

    def missing(self) -> list[ParameterAccount]:
        """Never a gradient; an expert that got no tokens does not count."""
        return self._used(name for name in self.trainable if name not in self._had)

    def zero(self) -> list[ParameterAccount]:
        """Only zero gradients; a bias that the following norm cancels does not count."""
        names = (name for name in self.trainable if name in self._had - self._nonzero and name not in self.nonfinite)
        return [each for each in self._used(names) if not self._is_cancelled(each.name)]

    def account(self, name: str) -> ParameterAccount:
        held = any(self.trainable[name] is parameter for parameter in self.parts.parameters)
        return self.accounts.account(name, self.trainable[name], held)

    def _used(self, names: Iterator[str]) -> list[ParameterAccount]:
        model = self.parts.model
        accounts = map(self.account, names)
        return [each for each in accounts if each.ran or not is_idle_expert(model, each.name, self._nonzero)]

    def _is_cancelled(self, name: str) -> bool:
        layer, _, attribute = name.rpartition(".")
        if attribute != "bias" or layer not in self._order[:-1]:
            return False
        return isinstance(self.parts.model.get_submodule(self._order[self._order.index(layer) + 1]), NormBase)
