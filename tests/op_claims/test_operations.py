"""Each claim about operations: planted faults that it finds, and healthy operations on which none may fail."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

from tests.op_claims.cases import CASES, Case
from tests.op_claims.ops import faulty_forwards, faulty_gradients, faulty_memory, faulty_registrations, healthy
from tests.op_claims.probing import probed
from trueloop.op_claims.catalogue import OP_CLAIMS

FILES = (faulty_forwards, faulty_gradients, faulty_memory, faulty_registrations, healthy)
FAULTY = [case for case in CASES if case.fails in OP_CLAIMS.names()]
HEALTHY = [case for case in CASES if not case.fails]
QUICK = ("softmax", "layer_norm", "cross_entropy", "matmul", "conv2d", "embedding", "sort", "dot_product_attention")
ONLY_ON_A_GPU = {"streams-agree"}


def _object(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _themselves(quick: bool) -> list[Case]:
    return [
        Case(_object(path), path, path, (inputs,), "", "")
        for path, inputs in healthy.THEMSELVES.items()
        if path.endswith(QUICK) is quick
    ]


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_a_planted_fault_is_found(case: Case) -> None:
    result = probed(case, case.fails)
    assert not result.failures, result.failures
    (proof,) = result.proofs
    assert proof.result == "fails", proof.measured
    assert proof.causes


def _assert_healthy(case: Case) -> None:
    result = probed(case)
    assert not result.failures, result.failures
    assert not [f"{proof.claim}: {proof.measured}" for proof in result.of("fails")]
    assert result.of("holds")


@pytest.mark.parametrize("case", [*HEALTHY, *_themselves(quick=True)], ids=lambda case: case.name)
def test_no_claim_fails_on_a_healthy_operation(case: Case) -> None:
    _assert_healthy(case)


@pytest.mark.long
@pytest.mark.parametrize("case", _themselves(quick=False), ids=lambda case: case.name)
def test_no_claim_fails_on_functions_of_torch(case: Case) -> None:
    _assert_healthy(case)


def test_every_claim_has_a_planted_fault() -> None:
    assert len(FAULTY) >= 40
    assert len(HEALTHY) + len(healthy.THEMSELVES) >= 25
    assert set(OP_CLAIMS.names()) - {case.fails for case in FAULTY} <= ONLY_ON_A_GPU


def test_the_smallest_input_is_named_with_its_values() -> None:
    case = next(case for case in FAULTY if case.name == "InvertedSign")
    (proof,) = probed(case, "gradient-equals-reference").proofs
    assert proof.evidence["smallest input"] == "f32[1,1]"
    assert proof.evidence["values"] == "[[1.0]]"
    assert proof.measured.startswith("the gradient is ")
    assert proof.place is not None
    assert proof.place.path.endswith("faulty_gradients.py")


def test_claims_that_need_a_reference_are_left_out_without_one() -> None:
    case = next(case for case in HEALTHY if case.name == "without_a_reference")
    result = probed(case)
    assert "forward-equals-reference" in result.left_out
    assert "need `--against REFERENCE`" in result.closing()
    assert torch.get_default_dtype() is torch.float32
