"""Rules on how weights and losses move, on constructed events: each threshold from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import (
    Backward,
    EpochStarted,
    Event,
    LossAgainstChance,
    LossComputed,
    LossCurve,
    Place,
    PlateauStepped,
    RunEnded,
    Stepped,
    WeightMove,
    WeightsMoved,
)
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.gradient import incomplete_accumulation_window
from trueloop.rules.gradient.incomplete_accumulation_window import IncompleteAccumulationWindow
from trueloop.rules.loss import loss_at_chance as chance
from trueloop.rules.loss.loss_at_chance import LossAtChance
from trueloop.rules.optimizer import learning_rate_too_high as high
from trueloop.rules.optimizer import learning_rate_too_low as low
from trueloop.rules.optimizer.learning_rate_too_high import LearningRateTooHigh
from trueloop.rules.optimizer.learning_rate_too_low import LearningRateTooLow
from trueloop.rules.optimizer.plateau_wrong_mode_or_metric import COUNTED, ENOUGH, PlateauWrongModeOrMetric
from trueloop.rules.rule import Rule
from trueloop.rules.shared_thresholds import MAIN_LINE, NEAR_ZERO

LINE = Place("gone.py", 7)
END = RunEnded(step=400, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)
MOVE = WeightMove(name="fc.weight", size=512, rms=0.1, update=0.5, distance=5.0, gradient_times_weight=1.0)
LOSS = LossCurve(
    step=400, place=LINE, count=400, share=1.0, seen=100, first=(2.0, 30.0, 40.0, 30.0, 20.0), peak=30.0, end=2.0, swing=1.0,  # noqa: E501
    below_zero=False, closures=False, optimizers=1, bootstrapped=0,
)  # fmt: skip
COMPUTED = LossComputed(
    step=0, place=LINE, function="cross_entropy", call=0, grad=True, reduction="mean", input_shape=(32, 4), target_shape=(32,),  # noqa: E501
    input_dtype="float32", target_dtype="int64", input_range=None, target_range=None, rows="scores", preceding=(), preceding_place=None,  # noqa: E501
    preceding_module="", target_integral=True, target_distinct=4, target_rows_sum_to_one=None, target_used_as_class=False, ignore_index=-100,  # noqa: E501
)  # fmt: skip


def judged(rule: type[Rule], events: Iterable[Event], end: RunEnded = END) -> list[Finding]:
    checker = Checker([rule])
    for event in (*events, end):
        checker.check(event)
    assert not checker.failures, checker.failures
    return checker.findings()


def moved(steps: int, rate: float = 0.1, **changes: object) -> WeightsMoved:
    return WeightsMoved(steps, LINE, 0, "SGD", steps, rate, (replace(MOVE, **changes),))  # type: ignore[arg-type]


def loss(**changes: object) -> LossCurve:
    return replace(LOSS, **changes)  # type: ignore[arg-type]


# -- learning-rate-too-high --


def too_high(looks: Sequence[WeightsMoved] = (moved(5),), followed: LossCurve = LOSS, batch: int = 32) -> bool:
    return bool(judged(LearningRateTooHigh, [replace(COMPUTED, input_shape=(batch, 4)), *looks, followed]))


def test_far_steps_and_a_loss_that_jumped_are_both_needed() -> None:
    assert too_high()
    assert not too_high(looks=[moved(5, distance=5 * high.FAR, update=0.01)])
    assert too_high(looks=[moved(5, distance=5.1 * high.FAR, update=0.01)])
    assert not too_high(followed=loss(end=high.FALLEN * 2.0 - 0.01))
    assert too_high(followed=loss(end=high.FALLEN * 2.0 + 0.01))
    assert not too_high(followed=loss(peak=high.JUMP * 2.0 - 0.1))


def test_far_steps_later_on_must_be_the_rule() -> None:
    slow = {"distance": 0.1}
    far, near = (
        [moved(s, update=0.2, **slow) for s in (17, 33, 65)],
        [moved(s, update=0.01, **slow) for s in (17, 33, 65, 129)],
    )
    assert too_high(looks=far)
    assert not too_high(looks=far[: high.LOOKS - 1])
    assert not too_high(looks=[*far, *near])


def test_a_loss_may_also_climb_or_swing() -> None:
    assert too_high(followed=loss(peak=0.0, end=2.0 * high.CLIMB))
    assert not too_high(followed=loss(peak=0.0, end=2.0 * high.CLIMB - 0.1))
    assert too_high(followed=loss(peak=0.0, swing=high.SWING))
    assert not too_high(followed=loss(peak=0.0, swing=high.SWING - 0.1))
    assert not too_high(followed=loss(peak=0.0, swing=high.SWING), batch=high.LARGE_BATCH - 1)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizers": 2},
        {"share": MAIN_LINE - 0.1},
        {"bootstrapped": 201},
        {"below_zero": True},
        {"closures": True},
        {"seen": high.LOSSES - 1},
    ],
)
def test_losses_that_are_not_meant_to_fall(change: dict[str, object]) -> None:
    assert not too_high(followed=loss(**change))


def test_weights_that_began_at_zero_and_tiny_batches_say_nothing() -> None:
    assert not too_high(looks=[moved(5, rms=NEAR_ZERO / 2)])
    assert not too_high(batch=high.BATCH - 1)
    assert not judged(LearningRateTooHigh, [moved(5), LOSS])  # no loss of PyTorch's


# -- learning-rate-too-low --

STILL = loss(first=(2.0, 2.0, 2.0), peak=2.0, end=2.0)


def too_low(looks: Sequence[WeightsMoved], followed: LossCurve = STILL, end: RunEnded = END) -> bool:
    return bool(judged(LearningRateTooLow, [*looks, followed], end))


def test_weights_that_stand_still_in_a_hundred_steps() -> None:
    assert too_low([moved(low.STEPS, distance=low.STILL / 2)])
    assert not too_low([moved(low.STEPS, distance=low.STILL)])
    assert not too_low([moved(low.STEPS - 1, distance=0.0)])
    assert not too_low([moved(low.STEPS, distance=0.0, rms=NEAR_ZERO / 2)])
    assert not too_low([moved(low.STEPS, distance=0.0)], end=replace(END, reason="cut"))


def test_one_weight_that_moves_is_enough_to_be_silent() -> None:
    look = moved(low.STEPS, distance=0.0)
    assert too_low([look])
    assert not too_low([replace(look, moves=(*look.moves, replace(MOVE, name="head", distance=0.1)))])


def test_a_warm_up_that_still_rises() -> None:
    def rates(last: float) -> list[WeightsMoved]:
        return [moved(steps, rate, distance=0.0) for steps, rate in ((5, 1e-9), (50, 1e-9), (100, last))]

    assert too_low(rates(low.RISING * 1e-9))
    assert not too_low(rates(low.RISING * 1.1e-9))


def test_the_loss_must_depend_on_the_weights_and_not_have_fallen() -> None:
    assert not too_low([moved(100, distance=0.0, gradient_times_weight=low.DEPENDS * 2.0 - 0.01)])
    assert too_low([moved(100, distance=0.0, gradient_times_weight=low.DEPENDS * 2.0 + 0.01)])
    assert not too_low([moved(100, distance=0.0)], loss(first=(2.0,), end=low.FALLEN * 2.0 - 0.01))
    assert not too_low([moved(100, distance=0.0)], replace(STILL, optimizers=2))
    assert not too_low([moved(100, distance=0.0)], replace(STILL, closures=True))


# -- loss-at-chance --

COMPARED = LossAgainstChance(
    step=400, place=LINE, function="cross_entropy", calls=400, sampled_calls=chance.LOOKS, targets=chance.TARGETS * 4, classes=4, one_sided=0,  # noqa: E501
    first=1.5, third=1.39, last=1.39, third_chance=1.386, chance=1.386,
)  # fmt: skip
PASS = EpochStarted(0, LINE, 0, 100, 1)


def at_chance(
    steps: int = chance.STEPS, passes: int = chance.PASSES, followed: LossCurve = STILL, **changes: object
) -> bool:
    compared = replace(COMPARED, **changes)  # type: ignore[arg-type]
    return bool(
        judged(LossAtChance, [*[PASS] * passes, compared, replace(followed, step=steps)], replace(END, step=steps))
    )


def test_the_run_must_be_long() -> None:
    assert at_chance()
    assert not at_chance(steps=chance.STEPS - 1)
    assert not at_chance(passes=chance.PASSES - 1)
    assert at_chance(steps=chance.STEPS_WITHOUT_LOADER, passes=0)
    assert not at_chance(steps=chance.STEPS_WITHOUT_LOADER - 1, passes=0)


def test_a_loss_below_chance_or_on_its_way_is_no_chance() -> None:
    assert at_chance(third=1.386, last=chance.BETTER * 1.386 + 0.001)
    assert not at_chance(third=1.386, last=chance.BETTER * 1.386 - 0.001)
    assert not at_chance(third=1.39 / chance.FALLS + 0.01)
    assert at_chance(third=2.0, third_chance=2.0)  # its targets were harder, that is all
    assert not at_chance(third=2.0, third_chance=1.386)


def test_the_frequencies_must_be_known() -> None:
    assert not at_chance(sampled_calls=chance.LOOKS - 1)
    assert not at_chance(targets=chance.TARGETS * 4 - 1)
    assert not at_chance(one_sided=chance.LOOKS // 2)
    assert not at_chance(classes=1)
    assert not at_chance(chance=chance.LEAST / 2)


@pytest.mark.parametrize("change", [{"optimizers": 2}, {"closures": True}, {"bootstrapped": 200}])
def test_players_and_closures_and_bootstrapping_are_let_be(change: dict[str, object]) -> None:
    assert not at_chance(followed=replace(STILL, **change))  # type: ignore[arg-type]


def test_of_several_losses_one_may_stay_where_it_is() -> None:
    other = replace(COMPARED, place=Place("gone.py", 8))
    assert not judged(LossAtChance, [*[PASS] * 5, COMPARED, other, STILL])


# -- incomplete-accumulation-window --

STEP = Stepped(
    step=0, place=Place("gone.py", 9), optimizer=0, name="SGD", index=0, gradients="new", cleared=True, backwards=4,
    backward_places=(LINE,), most_at_one_place=4, averaged=True, clipped=False, closure=False, learning_rates=(0.1,), scale_free=False,  # noqa: E501
)  # fmt: skip
BACKWARD = Backward(
    step=0, place=LINE, call=0, loss=1.0, root="MeanBackward0", mean=True, divided=True, scaled_by_amp=False, inside_step=False,  # noqa: E501
    retained=False, nodes=None, spanned_steps=None, reached=None, optimized=2, broadcast=None, broadcast_place=None, loss_text="loss",  # noqa: E501
)  # fmt: skip


def windows(script: str, batches: int = 5, **step: object) -> list[Event]:
    """`E` a pass begins, `b` a backward, `n` one of a loss that is no number, a figure: a step that used so many
    backwards."""
    events: list[Event] = []
    steps = 0
    for sign in script.replace(" ", ""):
        if sign == "E":
            events.append(EpochStarted(steps, LINE, 0, batches, 1))
        elif sign in "bn":
            events.append(replace(BACKWARD, step=steps, loss=1.0 if sign == "b" else float("nan")))
        else:
            used = int(sign)
            changed = {"step": steps, "index": steps, "backwards": used, "most_at_one_place": used, **step}
            events.append(replace(STEP, **changed))  # type: ignore[arg-type]
            steps += 1
    return events


def fates(script: str, batches: int = 5, reason: str = "finished", **step: object) -> list[object]:
    events = windows(script, batches, **step)
    steps = sum(isinstance(event, Stepped) for event in events)
    end = replace(END, step=steps, reason=reason)  # type: ignore[arg-type]
    return [finding.evidence["fate"] for finding in judged(IncompleteAccumulationWindow, events, end)]


def test_what_is_dropped_is_said_once_the_window_has_a_usual_length() -> None:
    assert incomplete_accumulation_window.HABIT == 2
    assert fates("E bbbb4 b E bbbb4 b E bbbb4", reason="cut") == ["dropped"]
    assert fates("E bbbb4 b", reason="finished") == []  # one window is no habit
    assert fates("E bbbb4 bbbb4 b", batches=9) == ["unused"]
    assert fates("E bbbb4 bbbb4 b", batches=10) == []  # the pass was left early
    assert fates("E bbbb4 bbbb4 b", batches=9, reason="interrupted") == []


def test_what_is_mixed_must_be_seen_twice() -> None:
    assert fates("E bbbb4 b E bbbb5 b E bbbb5", reason="cut") == ["mixed"]
    assert fates("E bbbb4 bbbb4 b E bbbb5 bbbb4", batches=9, reason="cut") == []


def test_windows_that_run_on_over_the_end_of_a_pass_are_as_long_as_any() -> None:
    assert fates("E bbbb4 b E bbb4 bb E bb4 bbb E b4 bbbb4 E bbbb4 b", reason="cut") == []


def test_a_pass_of_another_loader_in_the_middle_of_a_window() -> None:
    assert fates("E bbbb4 bb E bb4 bbbb4 bb E bb4 bbbb4", batches=16) == []


@pytest.mark.parametrize(
    "change", [{"closure": True}, {"gradients": "cleared"}, {"backward_places": (LINE, STEP.place)}]
)
def test_other_ways_to_step_are_not_judged(change: dict[str, object]) -> None:
    assert fates("E bbbb4 b E bbbb4 b E bbbb4", reason="cut", **change) == []  # type: ignore[arg-type]


def test_losses_that_are_no_numbers_and_several_optimizers_are_let_be() -> None:
    assert fates("E bbbb4 n E bbbb4 n E bbbb4", reason="cut") == []
    other = [
        replace(event, optimizer=1) if isinstance(event, Stepped) and not event.index else event
        for event in windows("E1bbbb4bEbbbb4")
    ]
    assert not judged(IncompleteAccumulationWindow, [*other, *windows("E bbbb4 b E bbbb4")])


def test_steps_that_nobody_saw_end_the_count() -> None:
    events = [
        event
        for event in windows("E bbbb4 bbbb4 b E bbbb4 b E bbbb4")
        if not (isinstance(event, Stepped) and event.index == 1)
    ]
    assert not judged(IncompleteAccumulationWindow, events[:-5], replace(END, reason="cut"))


# -- plateau-wrong-mode-or-metric --

FED = PlateauStepped(
    step=0,
    place=None,
    schedule=0,
    index=0,
    value=0.0,
    is_int=False,
    mode="min",
    patience=2,
    learning_rates=(0.1,),
    optimizer_steps=0,
    built=None,
)


def told(
    folder: Path,
    given: str,
    values: Sequence[float],
    mode: str = "min",
    *,
    whole: bool = False,
    before: str = "pass",
    anew: bool = True,
) -> list[Finding]:
    """The values, told in a loop that computes them anew in each turn, or does not."""
    script = folder / f"train{len(list(folder.iterdir()))}.py"  # what has been read of a file is kept
    name = given.split(".")[0] if anew else "other"
    script.write_text(
        f"{before}\nfor epoch in range(9):\n    {name} = measure()\n    scheduler.step({given})\n", encoding="utf-8"
    )
    place = Place(str(script), 4)
    return judged(
        PlateauWrongModeOrMetric,
        [
            replace(FED, place=place, index=i, value=value, mode=mode, is_int=whole, optimizer_steps=i + 1)
            for i, value in enumerate(values)
        ],
    )


UP, DOWN = (0.5, 0.6, 0.65, 0.7), (2.0, 1.5, 1.2, 1.1)


@pytest.mark.parametrize(
    ("given", "values", "mode", "speaks"),
    [
        ("val_acc", UP, "min", True),
        ("val_acc", UP[: ENOUGH - 1], "min", False),
        ("val_acc", UP, "max", False),
        ("val_acc", UP[::-1], "min", False),
        ("val_acc", [1000 * value for value in UP], "min", False),
        ("valAccuracy", UP, "min", True),
        ("metrics", UP, "min", False),
        ("val_loss", UP, "min", False),
        ("val_loss", DOWN, "max", True),
        ("val_loss", DOWN, "min", False),
        ("acc_loss", DOWN, "max", False),
        ("accelerated", UP, "min", False),
    ],
)
def test_the_name_and_the_way_must_disagree_with_the_mode(
    given: str, values: Sequence[float], mode: str, speaks: bool, tmp_path: Path
) -> None:
    assert bool(told(tmp_path, given, values, mode)) is speaks


def test_a_name_that_says_nothing_is_looked_up_where_it_is_assigned(tmp_path: Path) -> None:
    assert told(tmp_path, "metric", UP, before="metric = accuracy(model)")
    assert not told(tmp_path, "metric", UP, before="metric = evaluate(model, accuracy)")
    assert not told(tmp_path, "val_acc", UP, before="val_acc = 1 - hits / n")


def test_counters_by_their_name_or_by_their_length(tmp_path: Path) -> None:
    assert told(tmp_path, "epoch", [0, 1, 2, 3], whole=True)
    assert told(tmp_path, "epoch", [40, 80, 120, 160], "max", whole=True)
    assert not told(tmp_path, "epoch", [0, 1, 2, 3])  # measured numbers
    assert not told(tmp_path, "hits", [0, 1, 2, 3], "max", whole=True)
    assert told(tmp_path, "hits", range(COUNTED), "max", whole=True)
    assert not told(tmp_path, "hits", range(3, 3 + COUNTED), "max", whole=True)


def test_the_same_value_must_be_one_that_is_measured_or_never_assigned(tmp_path: Path) -> None:
    assert told(tmp_path, "val_loss", [0.6931471824645996] * 4)
    assert not told(tmp_path, "val_loss", [0.6931471824645996] * 3)
    assert not told(tmp_path, "val_acc", [0.75] * 6, "max")
    assert told(tmp_path, "val_acc", [0.75] * 6, "max", anew=False)
    assert not told(tmp_path, "val_acc", [96.0 + 1 / 3] * 6, "max")
    assert not told(tmp_path, "logs.loss", [float("inf")] * 6)
    assert not told(tmp_path, "logs.loss", [float("nan")] * 6)
