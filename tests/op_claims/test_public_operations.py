"""Published operations, where they are installed: what fails is known and true."""

from __future__ import annotations

from typing import Any

import pytest

from tests.op_claims.cases import Case
from tests.op_claims.probing import probed

PUBLIC: list[tuple[str, str, str, str, set[str]]] = [
    ("transformers.activations", "MishActivation()", "torch.nn.functional.mish", "f32[4,8]", set()),
    ("transformers.activations", "NewGELUActivation()", "", "f32[4,8]", set()),
    ("transformers.activations", "QuickGELUActivation()", "", "f32[4,8]", set()),
    ("transformers.activations", "ReLUSquaredActivation()", "", "f32[4,8]", set()),
    # Its Functions have a `forward(cls, ctx, ...)`, which torch.compile does not take.
    ("entmax", "sparsemax", "", "f32[4,8], dim=-1", {"compiled-equals-eager"}),
    ("entmax", "entmax15", "", "f32[4,8], dim=-1", {"compiled-equals-eager"}),
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # their own
@pytest.mark.parametrize(("module", "name", "against", "inputs", "known"), PUBLIC, ids=[each[1] for each in PUBLIC])
def test_no_claim_fails_without_a_reason(module: str, name: str, against: str, inputs: str, known: set[str]) -> None:
    operation: Any = getattr(pytest.importorskip(module), name.removesuffix("()"))
    case = Case(operation() if name.endswith("()") else operation, name, against, (inputs,), "", "")
    result = probed(case)
    assert not result.failures, result.failures
    assert not {proof.claim: proof.measured for proof in result.of("fails") if proof.claim not in known}
    assert len(result.of("holds")) > 8
