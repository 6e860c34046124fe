"""Test claims one by one. An error inside one test is reported and does not stop the others."""

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject, last_line
from trueloop.engine.preflight import check_before_training
from trueloop.errors import NotByIndex, TrueloopError
from trueloop.results.proof import Proof, Proofs

__all__ = ["prove"]

Report = Callable[[Proof], None]


def prove(
    subject: RecipeSubject | ScriptSubject, named: str, claims: Iterable[Claim], report: Report | None = None
) -> Proofs:
    """`report` is called with each result at once: some claims take a while."""
    report = report or (lambda _: None)
    if isinstance(subject, ScriptSubject) and subject.checked.exit_code:
        return _failed_script(subject, named, claims, report)
    if isinstance(subject, RecipeSubject):
        check_before_training(subject.parts())  # the same errors as `trueloop train`
    proofs: list[Proof] = []
    failures: list[str] = []
    for claim in claims:
        began = time.perf_counter()
        try:
            proof = _try(claim, subject)
        except NotByIndex as error:
            proof = claim.unproved(str(error).rstrip("."))
        except TrueloopError:
            raise  # a recipe that cannot be trained, missing data: no claim can be tested
        except Exception:  # noqa: BLE001 - reported at the end, and by the exit code
            failures.append(f"the test of {claim.name} raised:\n{traceback.format_exc()}")
            proof = claim.unproved("trueloop itself failed here; the traceback is printed at the end")
        proofs.append(replace(proof, seconds=time.perf_counter() - began, when=time.time()))
        report(proofs[-1])
    return Proofs(named, tuple(proofs), tuple(failures))


def _try(claim: Claim, subject: RecipeSubject | ScriptSubject) -> Proof:
    if isinstance(subject, ScriptSubject):
        return claim.try_script(subject)
    if subject.recipe.step is not None and not claim.tests_own_step:
        return claim.unproved("the recipe has a step of its own, and this claim needs a loss that trueloop computes")
    return claim.try_recipe(subject)


def _failed_script(subject: ScriptSubject, named: str, claims: Iterable[Claim], report: Report) -> Proofs:
    checked = subject.checked
    error = checked.report["script"].get("exception") or last_line(checked.stderr.split("\n  File")[-1])
    reason = f"the script itself failed with exit code {checked.exit_code} ({error})"
    proofs = tuple(replace(claim.unproved(reason), when=time.time()) for claim in claims)
    for proof in proofs:
        report(proof)
    return Proofs(named, proofs, script_code=checked.exit_code)
