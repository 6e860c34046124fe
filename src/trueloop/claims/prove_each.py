"""Test claims about an operation or an optimizer one by one. An error in one test is reported and stops no other."""

import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from trueloop.results.claim_base import ClaimBase
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove_each"]

C = TypeVar("C", bound=ClaimBase)


def prove_each(
    named: str,
    claims: Iterable[C],
    attempt: Callable[[C], Proof],
    has_reference: bool,
    report: Callable[[Proof], None] = lambda _: None,
) -> Proofs:
    """Claims that need a reference are left out if there is none."""
    proofs: list[Proof] = []
    failures: list[str] = []
    left_out: list[str] = []
    for claim in claims:
        if claim.needs_reference and not has_reference:
            left_out.append(claim.name)
            continue
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's code, repeated for each of hundreds of calls
                proof = attempt(claim)
        except Exception:  # noqa: BLE001 - reported at the end, and by the exit code
            failures.append(f"the test of {claim.name} raised:\n{traceback.format_exc()}")
            proof = claim.unproved("trueloop itself failed here; the traceback is printed at the end")
        proofs.append(replace(proof, seconds=time.perf_counter() - began, when=time.time()))
        report(proofs[-1])
    return Proofs(named, tuple(proofs), tuple(failures), left_out=tuple(left_out), left_out_needs="a reference")
