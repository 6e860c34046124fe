"""Try the claims one by one; a proof that breaks is ours to mend, and does not keep the others from being tried."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.engine.preflight import check_before_training
from trueloop.errors import TrueloopError
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove"]


def prove(
    subject: RecipeSubject | ScriptSubject,
    named: str,
    claims: Iterable[Claim],
    tell: Callable[[Proof], None] | None = None,
) -> Proofs:
    """`tell` hears of each as soon as it is known: some take a while."""
    tell = tell or (lambda _: None)
    if isinstance(subject, ScriptSubject) and subject.checked.exit_code:
        return _of_a_failed_script(subject, named, claims, tell)
    if isinstance(subject, RecipeSubject):
        check_before_training(subject.parts())  # what `train` refuses is refused here too, in the same words
    proofs: list[Proof] = []
    failures: list[str] = []
    for claim in claims:
        began = time.perf_counter()
        try:
            proof = claim.of_recipe(subject) if isinstance(subject, RecipeSubject) else claim.of_script(subject)
        except TrueloopError:
            raise  # a recipe that cannot be trained, data that are not there: nothing can be claimed of it
        except Exception:  # noqa: BLE001 - kept, told at the end, and the exit code says it
            failures.append(f"the proof of {claim.name} broke:\n{traceback.format_exc()}")
            proof = claim.unproved("trueloop itself failed here; the traceback is at the end")
        proofs.append(replace(proof, seconds=time.perf_counter() - began, when=time.time()))
        tell(proofs[-1])
    return Proofs(named, tuple(proofs), tuple(failures))


def _of_a_failed_script(
    subject: ScriptSubject, named: str, claims: Iterable[Claim], tell: Callable[[Proof], None]
) -> Proofs:
    """Nothing can be said of a training that crashes by itself."""
    code = subject.checked.exit_code
    last = next(reversed(subject.checked.said.split("\n  File")[-1].strip().splitlines()), "")
    said = (
        f"the script itself failed with exit code {code} ({subject.checked.report['script'].get('exception') or last})"
    )
    proofs = tuple(replace(claim.unproved(said), when=time.time()) for claim in claims)
    for proof in proofs:
        tell(proof)
    return Proofs(named, proofs, script_code=code)
