"""One operation, probed in this process."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tests.op_claims.cases import Case
from trueloop.cli.subject_file import named_object
from trueloop.op_claims.catalogue import OP_CLAIMS
from trueloop.op_claims.op_inputs import derived_samples, parsed_samples
from trueloop.op_claims.op_subject import OpSubject, call_of, reference_arguments
from trueloop.op_claims.prove_op import prove_op
from trueloop.results.proof import Proofs

CPU = torch.device("cpu")


def subject_of(case: Case) -> OpSubject:
    named = isinstance(case.against, str) and bool(case.against)
    reference: Any = named_object(case.against, "--against", ModuleType("none")) if named else case.against or None
    if case.inputs and case.inputs != ("",):
        samples, source = parsed_samples(case.inputs, CPU), "--inputs"
    else:
        samples, source = derived_samples(call_of(case.op), reference, reference_arguments(case.op), CPU), "tried"
    assert samples, f"no inputs for {case.name}"
    named_against = case.against if named else getattr(case.against, "__name__", "")
    gradient: Any = (lambda x, *_: x * 1) if case.gradient_of == "identity" else None
    return OpSubject(case.op, case.name, tuple(samples), source, reference, named_against, gradient, case.gradient_of)


def probed(case: Case, *claims: str) -> Proofs:
    return prove_op(subject_of(case), case.name, [OP_CLAIMS.claim(name) for name in OP_CLAIMS.chosen(claims)])
