"""Published optimizers, where they are installed: what fails is known, read in their source, and true."""

from __future__ import annotations

from typing import Any

import pytest

from tests.optimizer_claims.test_optimizers import proofs_of

UNCHECKED = {"nonsense-is-refused"}  # a negative weight_decay is accepted

PUBLIC: list[tuple[str, str, dict[str, Any], set[str]]] = [
    ("transformers.optimization", "Adafactor", {}, UNCHECKED | {"closure-is-used"}),  # the closure runs under no_grad
    ("torchao.optim", "AdamW8bit", {}, UNCHECKED),
    ("lion_pytorch", "Lion", {}, UNCHECKED),
    ("schedulefree", "AdamWScheduleFree", {}, UNCHECKED | {"step-writes-weights-only"}),  # gradients, in place
    ("prodigyopt", "Prodigy", {}, UNCHECKED),
    ("dadaptation", "DAdaptAdam", {}, UNCHECKED),
    ("adabelief_pytorch", "AdaBelief", {"print_change_log": False}, UNCHECKED),
    ("adan_pytorch", "Adan", {}, UNCHECKED),
    ("torch_optimizer", "Yogi", {}, set()),
    ("torch_optimizer", "DiffGrad", {}, set()),
    ("pytorch_optimizer", "AdaBelief", {}, set()),
    ("pytorch_optimizer", "Tiger", {}, set()),
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # their own
@pytest.mark.parametrize(
    ("module", "name", "options", "known"), PUBLIC, ids=[f"{each[0]}.{each[1]}" for each in PUBLIC]
)
def test_no_claim_fails_without_a_reason(module: str, name: str, options: dict[str, Any], known: set[str]) -> None:
    optimizer = getattr(pytest.importorskip(module), name)
    result = proofs_of((optimizer, options, "", {}, ""))
    assert not result.failures, result.failures
    assert not {proof.claim: proof.measured for proof in result.of("fails") if proof.claim not in known}
    assert len(result.of("holds")) > 8
