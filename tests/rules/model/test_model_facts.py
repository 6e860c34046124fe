"""The model rules on constructed events: each threshold from both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trueloop.event import (
    BatchIndependenceTested,
    CausalityTested,
    Event,
    HiddenPart,
    IdenticalUnits,
    LooseTensor,
    ModelExamined,
    ParameterAccount,
    ParametersAccounted,
    Place,
    RunEnded,
    Stepped,
)
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.model.future_leakage import FutureLeakage
from trueloop.rules.model.layers_in_a_plain_list import LayersInAPlainList
from trueloop.rules.model.samples_mixed_in_batch import SamplesMixedInBatch
from trueloop.rules.model.symmetric_initialization import SymmetricInitialization
from trueloop.rules.model.tensor_not_a_buffer import TensorNotABuffer
from trueloop.rules.model.unused_parameters import UnusedParameters
from trueloop.rules.rule import Rule

LINE = Place("train.py", 7)
LAYER = Place("model.py", 3)
END = RunEnded(20, None, "finished", 1, 20, 0)


def said(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def samples(change: float, repeat: float = 0.0) -> BatchIndependenceTested:
    return BatchIndependenceTested(1, LINE, 0, "Net", 16, change, repeat, "gate (Linear)", LAYER)


def future(change: float, repeat: float = 0.0) -> CausalityTested:
    return CausalityTested(1, LINE, 0, "Net", 6, 12, change, repeat, "attention (Attention)", LAYER)


@pytest.mark.parametrize(
    ("change", "repeat", "findings"), [(0.002, 0.0, 1), (0.0009, 0.0, 0), (0.5, 1e-5, 0), (0.5, 1e-7, 1)]
)
def test_a_change_counts_if_it_is_more_than_rounding_and_the_model_repeats_itself(
    change: float, repeat: float, findings: int
) -> None:
    assert len(said(SamplesMixedInBatch, samples(change, repeat))) == findings
    assert len(said(FutureLeakage, future(change, repeat))) == findings


def test_a_mixture_is_told_at_its_own_line_with_its_layer() -> None:
    (finding,) = said(SamplesMixedInBatch, samples(0.25))
    assert finding.place == LAYER
    assert "25%" in finding.message
    assert "gate (Linear)" in finding.message


def test_a_leak_along_time_is_not_told_as_a_mixture_as_well() -> None:
    checker = Checker([SamplesMixedInBatch, FutureLeakage])
    checker.check(samples(0.5))
    checker.check(future(0.5))
    assert [finding.name for finding in checker.findings()] == ["future-leakage"]


PART = HiddenPart("Net", "layers", "list", "module", 3, 216, used=True, trainable=True, held=False, place=LAYER)
TENSOR = LooseTensor("Net", "scale", (4,), used=True, rebuilt=False, trainable=False, place=LAYER)


def examined(*, hidden: tuple[HiddenPart, ...] = (), loose: tuple[LooseTensor, ...] = ()) -> ModelExamined:
    return ModelExamined(2, LINE, 0, "Net", hidden, loose)


def test_hidden_layers_are_told_unless_they_are_unused_frozen_or_held() -> None:
    assert [finding.place for finding in said(LayersInAPlainList, examined(hidden=(PART,)))] == [LAYER]
    for excuse in (replace(PART, used=False), replace(PART, trainable=False), replace(PART, held=True)):
        assert not said(LayersInAPlainList, examined(hidden=(excuse,)))


def test_loose_tensors_are_told_unless_they_are_unused_or_rebuilt() -> None:
    assert "register_buffer" in said(TensorNotABuffer, examined(loose=(TENSOR,)))[0].fix
    assert "nn.Parameter" in said(TensorNotABuffer, examined(loose=(replace(TENSOR, trainable=True),)))[0].fix
    for excuse in (replace(TENSOR, used=False), replace(TENSOR, rebuilt=True)):
        assert not said(TensorNotABuffer, examined(loose=(excuse,)))


ACCOUNT = ParameterAccount("fc.weight", 48, True, True, False, ran=False, ran_with_graph=False, defined=LAYER, cuts=())


def accounted(steps: int, *accounts: ParameterAccount, in_order: int = 4) -> ParametersAccounted:
    return ParametersAccounted(steps, LINE, 0, "Net", steps, accounts, in_order, 0, (), Place("train.py", 2), ())


@pytest.mark.parametrize(("steps", "at_once", "at_the_end"), [(10, 1, 1), (9, 0, 1), (5, 0, 1), (4, 0, 0)])
def test_a_parameter_without_a_gradient_is_told_after_ten_steps_or_at_the_end_of_five(
    steps: int, at_once: int, at_the_end: int
) -> None:
    event = accounted(steps, ACCOUNT)
    assert len(said(UnusedParameters, event)) == at_once
    assert len(said(UnusedParameters, event, END)) == at_the_end


def test_only_what_ran_in_vain_or_not_at_all_counts_as_never_trained() -> None:
    assert "never used" in said(UnusedParameters, accounted(10, ACCOUNT))[0].message
    in_vain = replace(ACCOUNT, ran=True, ran_with_graph=True)
    assert "no loss uses" in said(UnusedParameters, accounted(10, in_vain))[0].message
    without_graph = replace(ACCOUNT, ran=True)
    cut = replace(in_vain, cuts=(LINE,))
    of_a_library = replace(ACCOUNT, defined=None)
    for excuse in (without_graph, cut, of_a_library):
        assert not said(UnusedParameters, accounted(10, excuse))
    assert not said(UnusedParameters, accounted(10, ACCOUNT, in_order=0))


def stepped(index: int) -> Stepped:
    return Stepped(index, LINE, 0, "SGD", index, "new", True, 1, (LINE,), 1, True, False, False, (0.1,), False)


def test_units_are_unjudged_in_a_run_of_two_steps_and_judged_in_one_of_three() -> None:
    checker = Checker([SymmetricInitialization])
    checker.check(stepped(0))
    checker.check(stepped(1))
    assert [code for code, _ in checker.not_applicable()] == ["MDL104"]
    checker.check(stepped(2))
    assert checker.not_applicable() == []


def test_equal_units_and_stuck_units_are_told_apart() -> None:
    equal = IdenticalUnits(2, LINE, 0, "Net", "fc.weight", 16, 0.1, 0.3, 3, LAYER)
    assert "equal gradients" in said(SymmetricInitialization, equal)[0].message
    assert "no gradient" in said(SymmetricInitialization, replace(equal, gradient_norm=0.0))[0].message
