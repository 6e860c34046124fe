"""Test claims about an operation one by one. An error inside one test is reported and does not stop the others."""

import logging
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from trueloop.op_claims.op_claim import OpClaim
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove_op"]


@contextmanager
def _silence() -> Iterator[None]:
    """Warnings of the operation would come hundreds of times, and torch logs each error of a fake."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(before)


def prove_op(
    subject: OpSubject, named: str, claims: Iterable[OpClaim], report: Callable[[Proof], None] = lambda _: None
) -> Proofs:
    """Claims that need a reference are left out if there is none."""
    proofs: list[Proof] = []
    failures: list[str] = []
    left_out: list[str] = []
    for claim in claims:
        if claim.needs_reference and subject.reference is None:
            left_out.append(claim.name)
            continue
        began = time.perf_counter()
        try:
            with _silence():
                proof = claim.try_op(subject)
        except NotTaken as error:
            proof = claim.unproved(f"the operation raises {error}")
        except Exception:  # noqa: BLE001 - reported at the end, and by the exit code
            failures.append(f"the test of {claim.name} raised:\n{traceback.format_exc()}")
            proof = claim.unproved("trueloop itself failed here; the traceback is printed at the end")
        proofs.append(replace(proof, seconds=time.perf_counter() - began, when=time.time()))
        report(proofs[-1])
    return Proofs(named, tuple(proofs), tuple(failures), left_out=tuple(left_out), left_out_needs="a reference")
