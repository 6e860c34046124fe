"""Test claims about an operation one by one."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from trueloop.claims.prove_each import prove_each
from trueloop.op_claims.op_claim import OpClaim
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove_op"]


@contextmanager
def _errors_not_logged() -> Iterator[None]:
    """torch logs each error of a fake."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def prove_op(
    subject: OpSubject, named: str, claims: Iterable[OpClaim], report: Callable[[Proof], None] = lambda _: None
) -> Proofs:
    def attempt(claim: OpClaim) -> Proof:
        try:
            with _errors_not_logged():
                return claim.try_op(subject)
        except NotTaken as error:
            return claim.unproved(f"the operation raises {error}")

    return prove_each(named, claims, attempt, subject.reference is not None, report)
