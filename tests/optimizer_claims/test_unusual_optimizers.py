"""Healthy optimizers with habits of published ones: a rate of their own, options that the constructor uses up, no step
without gradients, a switch between training and evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject
from trueloop.optimizer_claims.prove_optimizer import prove_optimizer
from trueloop.results.proof import Proof


def proof_of(optimizer: type[torch.optim.Optimizer], claim: str) -> Proof:
    subject = OptimizerSubject(optimizer, optimizer.__name__)
    result = prove_optimizer(subject, optimizer.__name__, [OPTIMIZER_CLAIMS.claim(claim)])
    assert not result.failures, result.failures
    (proof,) = result.proofs
    return proof


class FindsItsRate(torch.optim.Optimizer):
    """lr=None: it writes a rate of its own into the groups, as Adafactor does."""

    def __init__(self, params: Any, lr: float | None = None, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["lr"] = 0.01
            for weight in group["params"]:
                if weight.grad is not None:
                    direction = weight.grad + group["weight_decay"] * weight
                    weight.sub_(direction.sign(), alpha=group["lr"])


@pytest.mark.parametrize(
    "claim",
    ["loss-falls", "state-survives-checkpoint", "weight-decay-shrinks", "optimizers-are-independent",
     "param-groups-apart"],
)  # fmt: skip
def test_an_optimizer_that_finds_its_rate(claim: str) -> None:
    assert proof_of(FindsItsRate, claim).result == "holds"


def test_a_rate_of_its_own_is_not_a_rate_that_schedulers_set() -> None:
    assert proof_of(FindsItsRate, "learning-rate-is-read-each-step").result == "unproved"


class GuessesTheDistance(torch.optim.Optimizer):
    """The constructor turns d0 into d, which the steps read, as in Prodigy; and zero gradients mean no step."""

    def __init__(self, params: Any, lr: float = 0.1, d0: float = 0.1, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "d0": d0, "d": d0, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            with_gradient = [weight for weight in group["params"] if weight.grad is not None]
            if any(weight.grad.any() for weight in with_gradient):
                for weight in with_gradient:
                    weight.mul_(1 - group["lr"] * group["d"] * group["weight_decay"])
                    weight.sub_(weight.grad, alpha=group["lr"] * group["d"])


def test_an_option_that_the_constructor_uses_up() -> None:
    assert proof_of(GuessesTheDistance, "param-groups-apart").result == "holds"


class ReadsTheFirstGroup(GuessesTheDistance):
    """Broken: options of the first group count for all, though the constructor uses up another one."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["lr"] = self.param_groups[0]["lr"]
        super().step(closure)


def test_a_broken_twin_is_still_found() -> None:
    assert proof_of(ReadsTheFirstGroup, "param-groups-apart").result == "fails"


def test_weight_decay_that_acts_only_beside_gradients() -> None:
    proof = proof_of(GuessesTheDistance, "weight-decay-shrinks")
    assert proof.result == "unproved"
    assert "takes no step" in proof.measured


class IgnoresDecay(GuessesTheDistance):
    """Broken: the argument has no effect at all."""

    def __init__(self, params: Any, lr: float = 0.1, d0: float = 0.1, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr, d0, 0.0)
        self.weight_decay = weight_decay


def test_weight_decay_without_any_effect_is_still_found() -> None:
    assert proof_of(IgnoresDecay, "weight-decay-shrinks").result == "fails"


class RefusesStepsInEvaluation(torch.optim.SGD):
    """It takes steps after `train()` only, as schedule-free optimizers do."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, lr)
        self.training = False

    def train(self) -> None:
        self.training = True

    def step(self, closure: Any = None) -> Any:
        if not self.training:
            raise RuntimeError("call train() first")
        return super().step(closure)


@pytest.mark.parametrize("claim", ["closure-is-used", "state-survives-checkpoint"])
def test_an_optimizer_with_a_switch_is_put_into_training(claim: str) -> None:
    assert proof_of(RefusesStepsInEvaluation, claim).result == "holds"
