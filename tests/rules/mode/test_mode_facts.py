"""The thresholds of the mode rules, on both sides, on constructed events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from trueloop.event import DropoutWhileEvaluating, Event, Forward, Place, RunEnded, Stepped, SteppedWhileEvaluating
from trueloop.rules.checker import Checker
from trueloop.rules.mode.dropout_always_on import DropoutAlwaysOn
from trueloop.rules.mode.evaluated_in_train_mode import RARE, EvaluatedInTrainMode
from trueloop.rules.mode.evaluation_without_no_grad import EvaluationWithoutNoGrad
from trueloop.rules.mode.trained_in_eval_mode import STEPS, TrainedInEvalMode
from trueloop.rules.rule import Rule
from trueloop.usercode.names import says_monte_carlo

TRAIN, VALID = Place("/gone.py", 10, "train"), Place("/gone.py", 20, "valid")
END = RunEnded(9, None, "finished", 0, 0, 0)


def trained(backwards: int, **changes: object) -> Forward:
    """A forward in train mode that a backward went through."""
    facts = Forward(
        step=backwards,
        place=TRAIN,
        call=0,
        model=0,
        name="Net",
        training=True,
        grad=True,
        fate="trained",
        active_dropouts=1,
        active_batch_norms=0,
        idle_dropouts=0,
        idle_batch_norms=0,
        batch=8,
        scored=True,
        same_input=False,
        recalibration=False,
        eval_place=None,
        backwards=backwards,
        passes=0,
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def measured(backwards: int, **changes: object) -> Forward:
    """A scored forward in train mode without a graph."""
    graphless = replace(trained(backwards), place=VALID, fate="graphless", grad=False)
    return replace(graphless, **changes)  # type: ignore[arg-type]


def found(rule: type[Rule], events: Iterable[Event]) -> list[int]:
    """The lines that the rule speaks of."""
    checker = Checker([rule])
    for event in (*events, END):
        checker.check(event)
    assert not checker.failures, checker.failures
    return [finding.place.line for finding in checker.findings() if finding.place is not None]


def test_a_pass_of_two_scored_calls_is_an_evaluation_and_one_is_not() -> None:
    assert found(EvaluatedInTrainMode, [trained(0), measured(1), measured(1)]) == [20]
    assert found(EvaluatedInTrainMode, [trained(0), measured(1)]) == []


def test_a_backward_between_two_calls_makes_them_two_passes() -> None:
    assert found(EvaluatedInTrainMode, [trained(0), measured(1), measured(2), trained(2)]) == []


def test_a_model_that_is_never_trained_is_not_checked() -> None:
    assert found(EvaluatedInTrainMode, [measured(0), measured(0)]) == []
    assert found(EvaluatedInTrainMode, [measured(0), measured(0), trained(0)]) == [20]


def test_nothing_active_is_nothing_wrong() -> None:
    idle = {"active_dropouts": 0}
    assert found(EvaluatedInTrainMode, [trained(0, **idle), measured(1, **idle), measured(1, **idle)]) == []


def test_calls_without_a_score_need_a_loader_of_their_own() -> None:
    unscored = [measured(1, scored=False, passes=2) for _ in range(3)]
    before = trained(0, passes=1)
    assert found(EvaluatedInTrainMode, [before, *unscored, trained(1, passes=3)]) == [20]
    assert found(EvaluatedInTrainMode, [before, *unscored, trained(1, passes=2)]) == []
    assert found(EvaluatedInTrainMode, [trained(0, passes=2), *unscored, trained(1, passes=3)]) == []


def test_decisions_on_one_sample_are_actions() -> None:
    assert found(EvaluatedInTrainMode, [trained(0), *[measured(1, batch=1) for _ in range(5)], trained(1)]) == []


@pytest.mark.parametrize(("apart", "lines"), [(RARE, [20]), (RARE - 1, [])])
def test_a_single_scored_call_must_come_back_rarely(apart: int, lines: list[int]) -> None:
    events: list[Event] = []
    for backwards in range(apart * 2 + 1):
        if backwards and backwards % apart == 0:
            events.append(measured(backwards))
        events.append(trained(backwards))
    assert found(EvaluatedInTrainMode, events) == lines


def test_a_single_scored_call_after_every_step_counts_if_it_is_the_last_thing() -> None:
    events = [event for i in range(4) for event in (trained(i), measured(i + 1))]
    assert found(EvaluatedInTrainMode, events) == [20]
    assert found(EvaluatedInTrainMode, [*events, trained(9)]) == []


def test_a_repeated_input_is_monte_carlo() -> None:
    draws = [measured(1), measured(1, same_input=True), measured(1), measured(1, same_input=True)]
    assert found(EvaluatedInTrainMode, [trained(0), *draws, trained(1)]) == []


def test_recalibration_and_unknown_fates_are_left_alone() -> None:
    assert found(EvaluatedInTrainMode, [trained(0), *[measured(1, recalibration=True)] * 3]) == []
    assert found(EvaluatedInTrainMode, [trained(0), *[measured(1, fate="unknown")] * 3]) == []


def dropped(backwards: int, **changes: object) -> Forward:
    return measured(backwards, **{"fate": "dropped", "grad": True, "training": False, **changes})


def test_two_graphs_in_a_row_that_nobody_uses_are_a_waste() -> None:
    assert found(EvaluationWithoutNoGrad, [trained(0), dropped(1), dropped(1)]) == [20]
    assert found(EvaluationWithoutNoGrad, [trained(0), dropped(1)]) == []
    assert found(EvaluationWithoutNoGrad, [trained(0), dropped(1), dropped(2), dropped(3)]) == []


def test_in_train_mode_they_must_be_scored_and_not_a_training_line() -> None:
    assert found(EvaluationWithoutNoGrad, [trained(0), *[dropped(1, training=True)] * 2]) == [20]
    assert found(EvaluationWithoutNoGrad, [trained(0), *[dropped(1, training=True, scored=False)] * 2]) == []
    assert found(EvaluationWithoutNoGrad, [trained(0), *[dropped(1, training=True, place=TRAIN)] * 2]) == []


def stepped(**changes: object) -> SteppedWhileEvaluating:
    event = SteppedWhileEvaluating(
        step=3,
        place=TRAIN,
        model=0,
        name="Net",
        optimizer=0,
        forwards=1,
        idle_dropouts=1,
        idle_batch_norms=0,
        eval_place=VALID,
        trained_before=True,
        all_parameters=True,
    )
    return replace(event, **changes)  # type: ignore[arg-type]


def test_one_step_in_eval_mode_may_be_a_probe() -> None:
    assert found(TrainedInEvalMode, [stepped()] * (STEPS - 1)) == []
    assert found(TrainedInEvalMode, [stepped()] * STEPS) == [10]


def test_without_training_before_it_takes_a_line_that_calls_eval() -> None:
    assert found(TrainedInEvalMode, [stepped(trained_before=False)] * STEPS) == []  # /gone.py has no such line


def test_dropout_on_purpose_is_not_reported() -> None:
    event = DropoutWhileEvaluating(0, TRAIN, "dropout", 0.5, "Net", on_purpose=False)
    assert found(DropoutAlwaysOn, [event]) == [10]
    assert found(DropoutAlwaysOn, [replace(event, on_purpose=True)]) == []


@pytest.mark.parametrize(
    "name", ["MCDropout", "mc_predict", "Net.forward_mc", "MonteCarlo", "predict_with_uncertainty", "BayesianNet"]
)
def test_names_that_say_chance_is_meant(name: str) -> None:
    assert says_monte_carlo(name)


@pytest.mark.parametrize("name", ["Net", "mcp_client", "forward", "compute_macro", "Demonstrate"])
def test_names_that_do_not(name: str) -> None:
    assert not says_monte_carlo(name)


def test_a_healthy_run_is_checked_and_an_empty_one_is_not_applicable() -> None:
    checker = Checker([TrainedInEvalMode])
    assert [code for code, _ in checker.not_applicable()] == ["MOD102"]
    checker.check(
        Stepped(
            step=0,
            place=TRAIN,
            optimizer=0,
            name="SGD",
            index=0,
            gradients="new",
            cleared=True,
            backwards=1,
            backward_places=(),
            most_at_one_place=1,
            averaged=True,
            clipped=False,
            closure=False,
            learning_rates=(0.1,),
            scale_free=False,
        )
    )
    assert checker.not_applicable() == []
