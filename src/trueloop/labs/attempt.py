"""A reader's solution of an exercise, and the checks that it passes or not."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from trueloop.errors import Misuse
from trueloop.results.lab import Check
from trueloop.results.proof import Proofs

__all__ = ["Attempt", "ClaimFailed", "check_attempt"]

OP_CLAIMS: Final = (
    "forward-equals-reference", "result-independent-of-layout", "empty-and-single-inputs", "gradient-equals-reference",
    "gradient-equals-differences", "inputs-untouched", "incoming-gradient-untouched",
)  # fmt: skip
UNARY: Final = ("f32[4,8]", "f32[2,3,8]", "f32[17]")
OPTIMIZER_CLAIMS: Final = (
    "same-trajectory", "state-survives-checkpoint", "param-groups-apart", "parameters-without-gradient-stay",
    "learning-rate-is-read-each-step", "optimizers-are-independent", "step-writes-weights-only",
)  # fmt: skip


class ClaimFailed(Exception):
    """A test of trueloop raised by itself."""


class _Ended(Exception):
    """A check without which the others mean nothing was not passed."""


@dataclass
class Attempt:
    module: ModuleType
    checks: list[Check] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """The object of this name in the reader's file; without it nothing else is checked."""
        found = getattr(self.module, name, None)
        if found is None:
            self.require(f"the file has `{name}`", False, f"the task asks for `{name}`: keep the skeleton's name")
        return found

    def expect(self, what: str, holds: bool, hint: str, measured: str = "") -> None:
        """One check. `hint`: the direction, not the solution."""
        self.checks.append(Check(what, bool(holds), "" if holds else hint, measured))

    def require(self, what: str, holds: bool, hint: str, measured: str = "") -> None:
        """As `expect`; if it does not hold, nothing else is checked."""
        if not holds:
            self.expect(what, holds, hint, measured)
            raise _Ended

    def operation(
        self, name: str, reference: Callable[..., Any], against: str, *, inputs: Sequence[str] = UNARY,
        gradient_of: Callable[..., Any] | None = None, gradient_name: str = "", claims: Sequence[str] = OP_CLAIMS,
        hints: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """The claims of `trueloop probe FILE:NAME --against REFERENCE`. `hints`: claim -> hint, besides the claim's
        own likely causes."""
        from trueloop.op_claims.catalogue import OP_CLAIMS as CATALOGUE
        from trueloop.op_claims.op_inputs import parsed_samples
        from trueloop.op_claims.op_subject import OpSubject, call_of, kind_of
        from trueloop.op_claims.prove_op import prove_op

        op = self.get(name)
        try:
            kind_of(op, name)
        except Misuse as error:
            self.require(f"`{name}` is an operation", False, str(error).partition(".")[0])
        samples = parsed_samples(inputs, torch.device("cpu"))
        samples[0].copied().call(call_of(op))  # what it raises is reported as the reader's error
        subject = OpSubject(op, name, tuple(samples), "of the lab", reference, against, gradient_of, gradient_name)
        proved = prove_op(subject, name, [CATALOGUE.claim(claim) for claim in claims])
        self._claims(name, proved, CATALOGUE.sentences(), hints or {})

    def optimizer(
        self, name: str, reference: Callable[..., Any], against: str, *, options: Mapping[str, Any] | None = None,
        reference_options: Mapping[str, Any] | None = None, claims: Sequence[str] = OPTIMIZER_CLAIMS,
        hints: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """The claims of `trueloop probe FILE:NAME --against OPTIMIZER`."""
        from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS as CATALOGUE
        from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject
        from trueloop.optimizer_claims.prove_optimizer import prove_optimizer

        made = self.get(name)
        is_one = isinstance(made, type) and issubclass(made, torch.optim.Optimizer)
        self.require(f"`{name}` is an optimizer", is_one, "keep the base class torch.optim.Optimizer")
        subject = OptimizerSubject(made, name, options or {}, reference, against, reference_options or {})
        try:
            subject.needs_closure  # noqa: B018 - builds it and takes a step
        except NotTaken as error:
            self.require(f"`{name}` takes a step", False, _hint_of(error.__cause__), str(error))
        proved = prove_optimizer(subject, name, [CATALOGUE.claim(claim) for claim in claims])
        self._claims(name, proved, CATALOGUE.sentences(), hints or {})

    def _claims(self, name: str, proved: Proofs, sentences: Mapping[str, str], hints: Mapping[str, str]) -> None:
        if proved.failures:
            raise ClaimFailed("\n".join(proved.failures))
        for proof in proved.proofs:
            cause = f"{proof.causes[0].what}? {proof.causes[0].check}" if proof.causes else proof.measured
            hint = hints.get(proof.claim) or cause
            what = f"{name}, {sentences[proof.claim].removesuffix('.')}"
            self.expect(what, proof.result == "holds", hint, proof.measured)


def check_attempt(check: Callable[[Attempt], None], module: ModuleType) -> tuple[Check, ...]:
    """An error of the reader's code is a check that is not passed."""
    attempt = Attempt(module)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            check(attempt)
    except _Ended:
        pass
    except ClaimFailed:
        raise  # not the reader's mistake
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the reader's code raises is the answer
        said = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        attempt.expect("the code runs", False, _hint_of(error), f"{_place(error, module)}raises {said}")
    return tuple(attempt.checks)


def _hint_of(error: BaseException | None) -> str:
    if isinstance(error, NotImplementedError):
        return "this part is not written yet: replace the line that raises NotImplementedError"
    return "read the line and the message; print shapes and types just before it"


def _place(error: BaseException, module: ModuleType) -> str:
    """'line 12 ': of the reader's file."""
    file = Path(getattr(module, "__file__", None) or "").absolute()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == file]
    return f"line {lines[-1]} " if lines else ""
