"""The gradient rules on constructed events: each threshold from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from trueloop.event import (
    Backward,
    Clipped,
    Event,
    GradientsMeasured,
    GraphsAlive,
    LayerGradient,
    ModelSeen,
    Place,
    RunEnded,
    Stepped,
)
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.gradient.accumulation_not_averaged import AccumulationNotAveraged
from trueloop.rules.gradient.backward_through_earlier_steps import BackwardThroughEarlierSteps
from trueloop.rules.gradient.clipped_after_step import ClippedAfterStep
from trueloop.rules.gradient.exploding_gradients import ExplodingGradients
from trueloop.rules.gradient.graph_never_freed import GraphNeverFreed
from trueloop.rules.gradient.step_without_gradient import StepWithoutGradient
from trueloop.rules.gradient.vanishing_gradients import VanishingGradients
from trueloop.rules.rule import Rule

HERE = Place("gone.py", 7, "train")
THERE = Place("gone.py", 9, "train")
STEP = Stepped(
    step=0,
    place=THERE,
    optimizer=0,
    name="SGD",
    index=0,
    gradients="new",
    cleared=True,
    backwards=4,
    backward_places=(HERE,),
    most_at_one_place=4,
    averaged=False,
    clipped=False,
    closure=False,
    learning_rates=(0.1,),
    scale_free=False,
)
BACKWARD = Backward(
    step=0,
    place=HERE,
    call=0,
    loss=1.0,
    root="MeanBackward0",
    mean=True,
    divided=False,
    scaled_by_amp=False,
    inside_step=False,
    retained=True,
    nodes=10,
    spanned_steps=0,
    reached=2,
    optimized=2,
    broadcast=None,
    broadcast_place=None,
    loss_text="loss",
)
MEASURED = GradientsMeasured(
    step=0,
    place=THERE,
    optimizer=0,
    index=0,
    model="Net",
    layers=(),
    total=1.0,
    clipped=False,
    learning_rate=0.1,
)
ALIVE = GraphsAlive(step=8, place=HERE, alive=8, made=9, oldest=0, training=True)
CLIPPED = Clipped(step=1, place=HERE, function="clip_grad_norm_", limit=1.0, stale=True, optimizer=0, step_place=THERE)
END = RunEnded(step=99, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)


def findings_of(rule: type[Rule], events: Iterable[Event]) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def written(folder: Path, text: str) -> str:
    """A script of the user's, for what a rule reads in it."""
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return str(script)


# -- steps without gradients --


@pytest.mark.parametrize(
    ("found", "speaks"),
    [
        (["none", "none"], True),
        (["none"], False),
        (["none", "new", "none", "none"], False),
        (["same", "new", "same"], True),
        (["same"], False),
    ],
)
def test_an_optimizer_with_gradients_at_other_times_is_idle(
    found: list[Literal["new", "same", "none"]], speaks: bool
) -> None:
    events = [event for gradients in found for event in (BACKWARD, replace(STEP, gradients=gradients))]
    assert bool(findings_of(StepWithoutGradient, [*events, END])) is speaks


def test_without_a_backward_in_between_it_is_reported_despite_earlier_gradients() -> None:
    assert findings_of(StepWithoutGradient, [BACKWARD, STEP, *[replace(STEP, gradients="none")] * 2, END])


# -- accumulation --

WINDOW = """\
for i, x in enumerate(loader):
    loss = model(x)
    loss.backward()
    if (i + 1) % every == 0:
        optimizer.step()
"""


def windows(path: str, count: int, **changes: object) -> list[Stepped]:
    here, there = Place(path, 3), Place(path, 5)
    step = replace(STEP, place=there, backward_places=(here,))
    return [replace(step, index=index, **changes) for index in range(count)]  # type: ignore[arg-type]


def test_two_windows_are_enough_and_the_diff_divides_by_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, WINDOW)
    assert not findings_of(AccumulationNotAveraged, windows(path, 1))
    (finding,) = findings_of(AccumulationNotAveraged, windows(path, 2))
    assert (finding.severity, finding.place) == (Severity.WARNING, Place(path, 3))
    assert "+    (loss / every).backward()" in finding.diff


@pytest.mark.parametrize(
    "changes",
    [{"averaged": True}, {"closure": True}, {"most_at_one_place": 1}, {"backward_places": (HERE, THERE)}],
    ids=lambda c: next(iter(c)),
)
def test_averaged_losses_and_no_window_are_not_reported(tmp_path: Path, changes: dict[str, object]) -> None:
    assert not findings_of(AccumulationNotAveraged, windows(written(tmp_path, WINDOW), 6, **changes))


def test_one_averaged_window_excuses_the_loop(tmp_path: Path) -> None:
    path = written(tmp_path, WINDOW)
    assert not findings_of(AccumulationNotAveraged, [*windows(path, 1, averaged=True), *windows(path, 6)])


def test_windows_of_changing_length_are_episodes(tmp_path: Path) -> None:
    path = written(tmp_path, WINDOW)
    lengths = [windows(path, 1, most_at_one_place=length)[0] for length in (3, 7, 5, 9)]
    assert not findings_of(AccumulationNotAveraged, lengths)


@pytest.mark.parametrize(("clipped", "severity"), [(False, Severity.ADVICE), (True, Severity.WARNING)])
def test_adam_makes_it_an_advice_unless_clipped(tmp_path: Path, clipped: bool, severity: Severity) -> None:
    path = written(tmp_path, WINDOW)
    (finding,) = findings_of(AccumulationNotAveraged, windows(path, 3, scale_free=True, clipped=clipped, name="AdamW"))
    assert finding.severity is severity


def test_without_a_window_in_the_source_nothing_is_reported(tmp_path: Path) -> None:
    unconditional = WINDOW.replace(
        "    if (i + 1) % every == 0:\n        optimizer", "    if True: pass\n    optimizer"
    )
    assert not findings_of(AccumulationNotAveraged, windows(written(tmp_path, unconditional), 4))


# -- clipping --


def late(steps: Iterable[int], **changes: object) -> list[Clipped]:
    return [replace(CLIPPED, step=step, **changes) for step in steps]  # type: ignore[arg-type]


def test_a_clip_after_two_steps_is_too_late() -> None:
    assert not findings_of(ClippedAfterStep, late([1]))
    assert not findings_of(ClippedAfterStep, late([1, 1, 1])), "parameter by parameter, after one step"
    assert len(findings_of(ClippedAfterStep, late([1, 2]))) == 1


@pytest.mark.parametrize("limit", [float("inf"), 1e6])
def test_a_limit_that_nothing_reaches_reads_the_norm(limit: float) -> None:
    assert not findings_of(ClippedAfterStep, late(range(5), limit=limit))
    assert findings_of(ClippedAfterStep, late(range(5), limit=9e5))


def test_a_clip_that_is_useful_at_times_is_left_alone() -> None:
    assert not findings_of(ClippedAfterStep, [*late([0], stale=False), *late(range(1, 9))])


def test_the_diff_moves_the_clip_before_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path,
        "for x in xs:\n    f(x).backward()\n    opt.step()\n    opt.zero_grad()\n    clip_grad_norm_(ps, 1.0)\n",
    )
    (finding,) = findings_of(ClippedAfterStep, late([1, 2], place=Place(path, 5), step_place=Place(path, 3)))
    body = [line for line in finding.diff.splitlines() if line[0] in "+-" and line[1] not in "+-"]
    assert body == ["+    clip_grad_norm_(ps, 1.0)", "-    clip_grad_norm_(ps, 1.0)"]
    (apart,) = findings_of(ClippedAfterStep, late([1, 2], place=Place(path, 5), step_place=Place(path, 99)))
    assert apart.diff == ""


# -- vanishing --


def measured(units: list[float], index: int = 0, **changes: object) -> GradientsMeasured:
    layers = tuple(LayerGradient(f"layers.{i}", unit * 4, 16, i, 1.0) for i, unit in enumerate(units))
    return replace(MEASURED, layers=layers, index=index, **changes)  # type: ignore[arg-type]


def falling(total: float, layers: int) -> list[float]:
    """From 1e-3 * 10^-total, by equal steps, to 1e-3."""
    return [1e-3 * 10 ** (-total + total * i / (layers - 1)) for i in range(layers)]


def vanishing(units: list[float], times: int = 4) -> list[Finding]:
    return findings_of(VanishingGradients, [measured(units, index) for index in range(times)])


def test_a_fall_of_five_orders_over_five_layers() -> None:
    assert vanishing(falling(5.1, 6))
    assert not vanishing(falling(4.9, 6))
    assert vanishing(falling(5.1, 5))
    assert not vanishing(falling(5.1, 4))


def test_it_must_be_seen_four_times_in_a_row() -> None:
    assert not vanishing(falling(6, 8), times=3)
    broken = [
        measured(falling(6, 8), 0),
        measured(falling(1, 8), 1),
        *(measured(falling(6, 8), i) for i in (2, 25, 50)),
    ]
    assert not findings_of(VanishingGradients, broken)


def test_a_gate_falls_at_one_place() -> None:
    assert not vanishing([1e-9, 1.1e-9, 1.2e-9, 1.3e-9, 1e-3, 1.1e-3])


def test_ups_and_downs_are_no_fall() -> None:
    assert not vanishing([1e-9, 1e-5, 1e-8, 1e-4, 1e-7, 1e-3, 1e-6, 1e-2])


def test_zeros_count_only_behind_what_has_almost_left_single_precision() -> None:
    assert not vanishing([0.0, *falling(6, 8)])
    assert vanishing([0.0, 0.0, *falling(17, 12)])
    assert not vanishing([*falling(6, 8), 0.0])


def test_where_the_model_is_written_is_where_it_is_shown() -> None:
    seen = ModelSeen(
        0,
        HERE,
        model=0,
        name="Net",
        parameters=9,
        dropouts=0,
        batch_norms=0,
        compiled=False,
        defined=Place("net.py", 3),
    )
    (finding,) = findings_of(VanishingGradients, [seen, *(measured(falling(6, 8), i) for i in range(4))])
    assert finding.place == Place("net.py", 3)


def test_adam_moves_what_is_above_its_eps() -> None:
    for top, speaks in ((1e-3, True), (1e-1, False)):
        units = [unit * top / 1e-3 for unit in falling(6, 8)]
        events = [replace(STEP, scale_free=True), *(measured(units, i) for i in range(4))]
        assert bool(findings_of(VanishingGradients, events)) is speaks


# -- exploding --


def lengths(*totals: float, **changes: object) -> list[Finding]:
    return findings_of(ExplodingGradients, [measured([], i, total=total, **changes) for i, total in enumerate(totals)])


def test_three_measurements_a_thousand_times_the_usual() -> None:
    assert lengths(1, 1, 1, 1, 1000, 1000, 1000)
    assert not lengths(1, 1, 1, 1, 1000, 999, 1000)
    assert not lengths(1, 1, 1, 1, 1000, 1000)
    assert not lengths(1, 1, 1, 1000, 1000, 1000)


def test_a_single_outlier_and_a_calm_after_a_storm() -> None:
    assert not lengths(1, 1, 1, 1, 9999, 1, 1, 9999, 1)
    assert not lengths(5000, 900, 100, 1, 1, 1, 1, 1, 1)
    assert not lengths(1, 1, 1e-6, 1e-6, 1e-6, 1e-6, 1, 1, 1), "back to the length of the first steps"


def test_growth_through_the_whole_run() -> None:
    steady = [3.0**i for i in range(12)]
    assert lengths(*steady)
    assert not lengths(*steady[:8], *[steady[7]] * 20), "settled"


def test_clipped_and_non_finite_norms_are_not_checked() -> None:
    assert not lengths(1, 1, 1, 1, 1e4, 1e4, 1e4, clipped=True)
    assert not lengths(1, 1, 1, 1, float("inf"), float("nan"), float("inf"))


# -- graphs that are never freed --

KEEPING = """\
for x in loader:
    loss = model(x)
    loss.backward()
    optimizer.step()
    history.append(loss)
"""


def growing(path: str, *counts: int, made: int = 0) -> list[GraphsAlive]:
    place = Place(path, 3, "<module>")
    return [replace(ALIVE, place=place, step=count, alive=count, made=made or count + 1) for count in counts]


def test_24_graphs_and_a_line_that_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, KEEPING)
    assert not findings_of(GraphNeverFreed, growing(path, 8, 16))
    assert not findings_of(GraphNeverFreed, growing(path, 30)), "one burst"
    (finding,) = findings_of(GraphNeverFreed, growing(path, 8, 16, 24))
    assert finding.place is not None
    assert finding.place.line == 5
    assert "+    history.append(loss.detach())" in finding.diff


def test_without_such_a_line_sixty_four_and_almost_all(tmp_path: Path) -> None:
    path = written(tmp_path, KEEPING.replace("append(loss)", "append(loss.item())"))
    assert not findings_of(GraphNeverFreed, growing(path, 8, 16, 24, 32))
    assert findings_of(GraphNeverFreed, growing(path, 8, 16, 24, 32, 64))
    assert not findings_of(GraphNeverFreed, growing(path, 8, 16, 24, 32, 64, made=100))


@pytest.mark.parametrize(
    ("kept", "is_kept"),
    [
        ("total += loss", True),
        ("total = total + loss * 2", True),
        ("history[i] = loss", True),
        ("self.losses.append((i, loss))", True),
        ("history.append({'loss': loss.mean()})", True),
        ("total += loss.item()", False),
        ("total += float(loss)", False),
        ("history.append(loss.detach().cpu())", False),
        ("history.append(to_number(loss))", False),
        ("loss = loss + penalty", False),
    ],
)
def test_which_lines_keep_a_graph(tmp_path: Path, kept: str, is_kept: bool) -> None:
    path = written(tmp_path, KEEPING.replace("history.append(loss)", kept))
    assert bool(findings_of(GraphNeverFreed, growing(path, 8, 16, 24))) is is_kept


# -- graphs that span steps --


def chain(*spans: int, nodes: Iterable[int] = ()) -> list[Event]:
    sizes = list(nodes) or [10 + 4 * span for span in spans]
    return [
        replace(BACKWARD, step=i, spanned_steps=span, nodes=size)
        for i, (span, size) in enumerate(zip(spans, sizes, strict=True))
    ]


def test_a_chain_is_reported_at_the_end_of_a_short_run() -> None:
    assert findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 2, 3, 4, 5), END])
    assert not findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 2, 3, 4), END])
    assert not findings_of(BackwardThroughEarlierSteps, chain(0, 1, 2, 3, 4, 5)), "the run may still detach"


def test_a_long_one_is_reported_at_once() -> None:
    assert findings_of(BackwardThroughEarlierSteps, chain(0, 1, 2, 8, 16, 32, 64))
    assert not findings_of(BackwardThroughEarlierSteps, chain(0, 1, 2, 8, 16, 32, 63))


def test_windows_start_over() -> None:
    assert not findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 2, 3, 0, 1, 2, 3), END])
    assert not findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 1, 1, 1, 1, 1, 1), END])
    assert not findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 2, 3, 4, 5, 6, 7, 0), END])


def test_a_part_that_is_old_but_does_not_grow_is_a_view_taken_once() -> None:
    assert not findings_of(BackwardThroughEarlierSteps, [*chain(0, 1, 2, 3, 4, 5, 6, 7, nodes=[12] * 8), END])
