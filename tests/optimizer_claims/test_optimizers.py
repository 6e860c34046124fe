"""Claims about optimizers: 62 with one silent bug each and 27 healthy ones, by an author who had not seen the claims;
and those of torch."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject
from trueloop.optimizer_claims.prove_optimizer import prove_optimizer
from trueloop.results.proof import Proofs

Written = tuple[type[torch.optim.Optimizer], dict[str, Any], str, dict[str, Any], str]

FAULTY: list[Written] = importlib.import_module("tests.optimizer_claims.optimizers.faulty").CASES
HEALTHY: list[Written] = importlib.import_module("tests.optimizer_claims.optimizers.healthy").CASES

FOUND_BY = {
    name: claim
    for claim, names in {
        "step-writes-weights-only": "AliasedMomentumSGD GradWritingSGD ReplacingSGD GraphGrowingSGD",
        "same-trajectory": (
            "AdamHalfCorrected AdamEpsInside LeanAdamW WrongNesterovSGD ForgetfulAMSGrad DampedStartSGD "
            "LateMeanRMSprop CompoundingAdagrad OverCorrectedAdamax AbsAdadelta NormClippedAdafactor "
        ),
        "param-groups-apart": (
            "AdamGroupStep FirstGroupSGD LionGroupZeroLr DefaultsDecayAdamW LateGroupAdagrad "
            "StrayingSAM MatrixOnlyMuon GroupClippedSGD "
        ),
        "weight-decay-shrinks": "AdamWCoupled AdamDecoupled UnscaledDecayAdamW DoubleDecayAdamW",
        "zero-gradients-are-finite": "AdagradNoEps ZeroSkippingSGD",
        "state-survives-checkpoint": (
            "SelfVelocitySGD NumberedStateSGD AttributeStepAdam Float32StateSGD MasterSGD DroppingAdam "
            "SmallCheckpointSGD OwnLrAfterLoadSGD "
        ),
        "parameters-without-gradient-stay": "MisalignedRMSprop BreakSGD NoneAsZeroSGD FrozenDecayAdamW",
        "learning-rate-is-read-each-step": "FrozenLrSGD FoldedLrRMSprop DeafLookahead",
        "closure-is-used": "ClosureIgnoringSGD NoGradClosureAdam TwiceClosureSGD SilentRMSprop",
        "nonsense-is-refused": "TrustingLion",
        "sparse-gradients-are-right": "SparseRowsSGD",
        "maximize-is-used": "NeverMaximizingSGD",
        "optimizers-are-independent": ("ClassStateSGD SharedDefaultsSGD UninitializedSGD NoisySGD RngEatingSGD "),
        "grad-scaler-skips": "ScalerBlindSGD",
        "layout-does-not-matter": "FlatteningSGD",
        "nan-is-not-hidden": "NanHidingSGD",
    }.items()
    for name in names.split()
}

NOT_FOUND = {
    "SwappedLion": "there is no Lion to compare it with",
    "WrongKahanSGD": "its bfloat16 error is not above that of the reference, which does not compensate",
    "DataSignum": "writing through p.data is how many published optimizers do it",
}

TORCH: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}), ("RMSprop", {"centered": True, "momentum": 0.5}), ("Adagrad", {}), ("Adadelta", {}), ("Adamax", {}),
    ("NAdam", {}), ("RAdam", {}), ("ASGD", {}), ("Rprop", {}), ("Adafactor", {}), ("LBFGS", {}), ("Muon", {}),
]  # fmt: skip


def proofs_of(written: Written, *claims: str, reference: bool = True) -> Proofs:
    made, options, against, others, _ = written
    found = getattr(torch.optim, against.rpartition(".")[2]) if against and reference else None
    subject = OptimizerSubject(made, made.__name__, options, found, against if found else "", others if found else {})
    return prove_optimizer(subject, made.__name__, [OPTIMIZER_CLAIMS.claim(n) for n in OPTIMIZER_CLAIMS.chosen(claims)])


def name_of(written: Written) -> str:
    return written[0].__name__


@pytest.mark.parametrize("written", [each for each in FAULTY if name_of(each) not in NOT_FOUND], ids=name_of)
def test_a_bug_is_found(written: Written) -> None:
    result = proofs_of(written, FOUND_BY[name_of(written)])
    assert not result.failures, result.failures
    (proof,) = result.proofs
    assert proof.result == "fails", proof.measured
    assert proof.causes


class Climbing(torch.optim.SGD):
    """Steps against the direction."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for each in group["params"]:
                each.grad = None if each.grad is None else -each.grad
        return super().step(closure)


class Collecting(torch.optim.SGD):
    """Keeps every gradient."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, lr)
        self.seen: list[torch.Tensor] = []

    def step(self, closure: Any = None) -> Any:
        given = [each.grad for group in self.param_groups for each in group["params"]]
        self.seen += [grad.clone() for grad in given if grad is not None]
        return super().step(closure)


OURS: dict[str, type[torch.optim.Optimizer]] = {"loss-falls": Climbing, "memory-stays": Collecting}


@pytest.mark.parametrize("claim", OURS)
def test_a_bug_of_ours_is_found(claim: str) -> None:
    (proof,) = proofs_of((OURS[claim], {}, "", {}, ""), claim).proofs
    assert proof.result == "fails", proof.measured


def test_every_claim_finds_a_bug() -> None:
    assert {*FOUND_BY.values(), *OURS} == set(OPTIMIZER_CLAIMS.names())


def assert_healthy(result: Proofs) -> None:
    assert not result.failures, result.failures
    assert not [f"{proof.claim}: {proof.measured}" for proof in result.of("fails")]
    assert len(result.of("holds")) > 8


@pytest.mark.long
@pytest.mark.parametrize("reference", [True, False], ids=["beside its reference", "alone"])
@pytest.mark.parametrize("written", HEALTHY, ids=name_of)
def test_no_claim_fails_on_a_healthy_optimizer(written: Written, reference: bool) -> None:
    assert_healthy(proofs_of(written, reference=reference))


def torch_case(name: str, options: dict[str, Any]) -> Written:
    return getattr(torch.optim, name), options, f"torch.optim.{name}", options, ""


@pytest.mark.parametrize(("name", "options"), TORCH[:2], ids=lambda each: each if isinstance(each, str) else "")
def test_no_claim_fails_on_optimizers_everybody_uses(name: str, options: dict[str, Any]) -> None:
    assert_healthy(proofs_of(torch_case(name, options)))


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), TORCH[2:], ids=lambda each: each if isinstance(each, str) else "")
def test_no_claim_fails_on_the_other_optimizers_of_torch(name: str, options: dict[str, Any]) -> None:
    if not hasattr(torch.optim, name):
        pytest.skip(f"this torch has no {name}")
    assert_healthy(proofs_of(torch_case(name, options)))


class PlainStep(torch.optim.Optimizer):
    """`step(self)`, as in many tutorials."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.sub_(weight.grad, alpha=group["lr"])


def test_a_step_that_takes_no_closure_is_tested_too() -> None:
    subject = OptimizerSubject(PlainStep, "PlainStep", {}, torch.optim.SGD, "torch.optim.SGD")
    names = ("same-trajectory", "optimizers-are-independent", "step-writes-weights-only")
    proofs = prove_optimizer(subject, "PlainStep", [OPTIMIZER_CLAIMS.claim(name) for name in names])
    assert proofs.failures == ()
    assert [proof.result for proof in proofs.proofs] == ["holds"] * 3
