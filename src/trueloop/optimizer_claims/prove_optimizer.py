"""Test claims about an optimizer one by one."""

from collections.abc import Callable, Iterable

import torch

from trueloop.claims.prove_each import prove_each
from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove_optimizer"]


def prove_optimizer(
    subject: OptimizerSubject,
    named: str,
    claims: Iterable[OptimizerClaim],
    report: Callable[[Proof], None] = lambda _: None,
) -> Proofs:
    def attempt(claim: OptimizerClaim) -> Proof:
        try:
            with torch.random.fork_rng(devices=[]):
                return claim.try_optimizer(subject)
        except NotTaken as error:
            return claim.unproved(f"the optimizer raises {error}")

    return prove_each(named, claims, attempt, subject.reference is not None, report)
