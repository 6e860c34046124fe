"""The rules about samples and their order on constructed events: each threshold from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from trueloop.event import BatchInspected, EpochStarted, Event, InputNotFinite, NotFinite, Place, RowsShared, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.data.nan_or_inf_in_inputs import NanOrInfInInputs
from trueloop.rules.data.not_shuffled import NotShuffled
from trueloop.rules.data.same_order_every_epoch import SameOrderEveryEpoch
from trueloop.rules.data.single_class_batches import SingleClassBatches
from trueloop.rules.data.train_validation_overlap import TrainValidationOverlap
from trueloop.rules.loss.nan_or_inf import NanOrInf
from trueloop.rules.rule import Rule

LOOP = Place("gone.py", 20, "train")
TRAIN, VALID = Place("gone.py", 5), Place("gone.py", 6)
BATCH = BatchInspected(
    step=0,
    place=LOOP,
    loader=0,
    dataset=0,
    built=TRAIN,
    optimizers_built=1,
    passes=1,
    index=0,
    size=16,
    samples=160,
    order="sequential",
    with_replacement=False,
    own_generator=False,
    fate="trained",
    stepped=0,
    models=(0,),
    rows=(),
    labels=(),
    neighbor_distance=(1.0, 1.0),
    windows=False,
    placeholder=None,
    scored=True,
    carries_state=False,
)
END = RunEnded(step=99, place=None, reason="finished", epochs=3, forwards=99, unwatched_steps=0)


def findings_of(rules: type[Rule] | list[type[Rule]], events: Iterable[Event]) -> list[Finding]:
    checker = Checker(rules if isinstance(rules, list) else [rules])
    for event in [*events, END]:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def not_applicable(rule: type[Rule], events: Iterable[Event]) -> list[tuple[str, str]]:
    checker = Checker([rule])
    for event in [*events, END]:
        checker.check(event)
    return checker.not_applicable()


# -- classes in blocks --


def labelled(labels: list[int], size: int = 16, **changes: object) -> Iterator[BatchInspected]:
    """Batches of training, one step each, with these classes in this order."""
    for index in range(len(labels) // size):
        part = tuple(labels[index * size : index * size + size])
        facts = {"step": index, "stepped": index, "index": index, "size": size, "labels": part, **changes}
        yield replace(BATCH, **facts)  # type: ignore[arg-type]


SORTED = [label for label in range(4) for _ in range(40)]
MIXED = [(7 * i * i + 3 * i) % 13 % 4 for i in range(160)]


def test_sorted_classes_are_reported_and_mixed_ones_are_not() -> None:
    (finding,) = findings_of(NotShuffled, labelled(SORTED))
    assert finding.place == TRAIN
    assert finding.evidence["blocks"] == 4
    assert not findings_of(NotShuffled, labelled(MIXED))


@pytest.mark.parametrize(
    ("changes", "speaks"),
    [
        ({}, True),
        ({"order": "stream"}, True),
        ({"order": "random"}, False),
        ({"order": "other"}, False),
        ({"stepped": None, "fate": "evaluated"}, False),
        ({"passes": 2}, False),
    ],
)
def test_only_training_in_a_fixed_order_is_checked(changes: dict[str, object], speaks: bool) -> None:
    assert bool(findings_of(NotShuffled, labelled(SORTED, 16, **changes))) is speaks


@pytest.mark.parametrize(("samples", "speaks"), [(48, False), (64, True)])
def test_few_samples_say_nothing(samples: int, speaks: bool) -> None:
    labels = [label for label in range(2) for _ in range(samples // 2)]
    assert bool(findings_of(NotShuffled, labelled(labels))) is speaks


@pytest.mark.parametrize(("blocks", "speaks"), [(2, True), (4, False)])
def test_classes_that_come_back_are_a_recording(blocks: int, speaks: bool) -> None:
    labels = [block % 2 for block in range(blocks) for _ in range(192 // blocks)]
    assert bool(findings_of(NotShuffled, labelled(labels))) is speaks


@pytest.mark.parametrize(("minority", "speaks"), [(1, True), (6, False)])
def test_the_mixture_may_differ_from_batch_to_batch(minority: int, speaks: bool) -> None:
    halves = [[0] * (16 - minority) + [1] * minority, [1] * (16 - minority) + [0] * minority]
    labels = [label for half in halves for _ in range(5) for label in half]
    assert bool(findings_of(NotShuffled, labelled(labels))) is speaks


def test_batches_of_one_step_are_taken_together() -> None:
    batches = [replace(batch, stepped=0) for batch in labelled(SORTED)]
    assert not findings_of(NotShuffled, batches)


# -- the same order in every epoch --


def passes(*orders: list[int], **changes: object) -> Iterator[BatchInspected]:
    """Passes of training; each batch is a number."""
    for number, order in enumerate(orders, 1):
        for index, rows in enumerate(order):
            yield replace(BATCH, passes=number, index=index, rows=(rows, -rows), **changes)  # type: ignore[arg-type]


EIGHT = list(range(1, 9))


@pytest.mark.parametrize(
    ("orders", "changes", "speaks"),
    [
        ([EIGHT] * 3, {}, True),
        ([EIGHT] * 2, {}, False),
        ([EIGHT[:7]] * 3, {}, False),
        ([EIGHT, EIGHT, EIGHT[::-1]], {}, False),
        ([[1] * 8] * 3, {}, False),
        ([EIGHT] * 3, {"fate": "evaluated"}, False),
        ([EIGHT] * 3, {"order": "other"}, False),
        ([EIGHT] * 3, {"order": "distributed"}, False),
        ([EIGHT] * 3, {"windows": True}, False),
        ([EIGHT] * 3, {"carries_state": True}, False),
        ([EIGHT] * 3, {"neighbor_distance": (1.0, 0.84)}, False),
        ([EIGHT] * 3, {"neighbor_distance": (1.0, 0.86)}, True),
        ([EIGHT] * 3, {"neighbor_distance": ()}, False),
        ([EIGHT[:4]] * 3, {"order": "random"}, True),
        ([EIGHT[:3]] * 3, {"order": "random"}, False),
        ([EIGHT] * 3, {"order": "random", "neighbor_distance": ()}, True),
    ],
)
def test_three_equal_epochs_of_unordered_samples(
    orders: list[list[int]], changes: dict[str, object], speaks: bool
) -> None:
    assert bool(findings_of(SameOrderEveryEpoch, passes(*orders, **changes))) is speaks


def test_a_new_optimizer_starts_a_new_comparison() -> None:
    events = [replace(batch, optimizers_built=number) for number in range(3) for batch in passes(EIGHT)]
    assert not findings_of(SameOrderEveryEpoch, events)


def test_a_loader_that_is_built_in_each_epoch_is_one_loader() -> None:
    events = [replace(batch, loader=number) for number in range(3) for batch in passes(EIGHT)]
    assert findings_of(SameOrderEveryEpoch, events)
    assert not findings_of(SameOrderEveryEpoch, [replace(batch, dataset=batch.loader) for batch in events])


def test_sorted_classes_explain_the_same_order() -> None:
    first = [replace(batch, rows=(batch.index,)) for batch in labelled(SORTED)]
    events = [replace(batch, passes=number) for number in (1, 2, 3) for batch in first]
    assert [
        finding.name for finding in findings_of([NotShuffled, SameOrderEveryEpoch, SingleClassBatches], events)
    ] == ["not-shuffled"]


def test_too_few_epochs_are_not_applicable() -> None:
    assert not_applicable(SameOrderEveryEpoch, passes(EIGHT)) == [("DAT103", "no loader was trained on for 3 epochs")]


# -- batches of one class --


@pytest.mark.parametrize(
    ("labels", "size", "speaks"),
    [
        ([0] * 16 + [1] * 16 + [0] * 16 + [1] * 16, 16, True),
        ([0] * 16 + [1] * 16 + [0] * 16, 16, False),
        ([0, 1] * 40 + [0] * 48 + [1] * 16, 16, False),
        ([0] * 64, 16, False),
        ([0] * 21 + [1] * 21, 7, False),
        ([0] * 32 + [1] * 32, 8, True),
        (([0] * 15 + [1]) + [0] * 160, 16, False),
    ],
)
def test_most_batches_know_one_class_and_chance_does_not_explain_it(labels: list[int], size: int, speaks: bool) -> None:
    assert bool(findings_of(SingleClassBatches, labelled(labels, size, order="other"))) is speaks


def test_batches_that_move_the_weights_together_count_as_one() -> None:
    batches = [
        replace(batch, stepped=batch.index // 2)
        for batch in labelled([0] * 16 + [1] * 16 + [0] * 16 + [1] * 16, order="other")
    ]
    assert not findings_of(SingleClassBatches, batches)


def test_two_models_with_a_class_each() -> None:
    batches = list(labelled([0] * 64 + [1] * 64, order="random"))
    assert findings_of(SingleClassBatches, batches)
    assert not findings_of(SingleClassBatches, [replace(batch, models=(batch.labels[0],)) for batch in batches])


def test_without_labels_it_is_not_applicable() -> None:
    assert not_applicable(SingleClassBatches, passes(EIGHT)) == [
        ("DAT109", "no class labels of a loader were used in a loss")
    ]


# -- overlap --


def training(rows: Iterable[int], **changes: object) -> Iterator[BatchInspected]:
    rows = list(rows)
    for index in range(0, len(rows), 16):
        part = tuple(rows[index : index + 16])
        facts = {
            "index": index // 16,
            "rows": part,
            "size": len(part),
            "samples": len(rows),
            "order": "random",
            **changes,
        }
        yield replace(BATCH, **facts)  # type: ignore[arg-type]


def validation(rows: Iterable[int], **changes: object) -> Iterator[BatchInspected]:
    facts = {
        "loader": 1,
        "dataset": 1,
        "built": VALID,
        "step": 50,
        "stepped": None,
        "fate": "evaluated",
        "order": "sequential",
    }
    return training(rows, **{**facts, **changes})


def test_overlap_is_reported_at_the_evaluation() -> None:
    (finding,) = findings_of(TrainValidationOverlap, [*training(range(320)), *validation(range(280, 400))])
    assert finding.place == VALID
    assert finding.evidence["trained_on"] == 40
    assert "40 of 120 evaluated samples" in finding.message


@pytest.mark.parametrize(("shared", "speaks"), [(0, False), (3, False), (4, True)])
def test_a_few_twins_are_no_leak(shared: int, speaks: bool) -> None:
    events = [*training(range(320)), *validation(range(320 - shared, 440 - shared))]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks


@pytest.mark.parametrize(("shared", "speaks"), [(9, False), (10, True)])
def test_so_is_less_than_one_row_in_fifty(shared: int, speaks: bool) -> None:
    events = [*training(range(1000)), *validation(range(1000 - shared, 1500 - shared))]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks


@pytest.mark.parametrize(("values", "speaks"), [(60, False), (100_000, True)])
def test_data_of_few_values_has_twins_everywhere(values: int, speaks: bool) -> None:
    rows = [(i * 7919) % values for i in range(400)]
    events = [*training(rows[:320]), *validation([*rows[320:], *rows[:40]])]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks


@pytest.mark.parametrize(("passes", "speaks"), [(1, True), (6, False)])
def test_rows_that_are_changed_in_each_pass_have_more_chances_to_meet_a_twin(passes: int, speaks: bool) -> None:
    changed = [
        batch
        for number in range(passes)
        for batch in training(range(1000 * number, 1000 * number + 256), passes=number + 1)
    ]
    assert bool(findings_of(TrainValidationOverlap, [*changed, *validation([*range(8), *range(9000, 9200)])])) is speaks


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizers_built": 2},  # the next fold has an optimizer of its own
        {"models": (1,)},
        {"step": 0},  # before any training
        {"fate": "unknown"},
        {"dataset": 0},  # the training set itself, measured
        {"loader": 0, "passes": 2},
    ],
)
def test_what_is_no_validation_of_what_was_trained(changes: dict[str, object]) -> None:
    assert not findings_of(TrainValidationOverlap, [*training(range(320)), *validation(range(280, 400), **changes)])


def test_a_later_pass_over_the_same_loader_counts() -> None:
    early = [*validation(range(280, 400), step=0), *training(range(320))]
    assert not findings_of(TrainValidationOverlap, early)
    assert findings_of(TrainValidationOverlap, [*early, EpochStarted(40, LOOP, 1, 8, 2)])


def test_the_training_set_may_be_measured() -> None:
    assert not findings_of(TrainValidationOverlap, [*training(range(320)), *validation(range(320))])


def test_accuracy_on_a_part_beside_a_validation_is_fine() -> None:
    part = [*training(range(320)), *validation(range(64))]
    assert findings_of(TrainValidationOverlap, part)
    assert not findings_of(TrainValidationOverlap, [*part, *validation(range(400, 500), loader=2, dataset=2)])


@pytest.mark.parametrize(("first", "scored", "speaks"), [(0, False, False), (0, True, True), (100, False, True)])
def test_features_of_all_the_data_are_fine_without_a_score(first: int, scored: bool, speaks: bool) -> None:
    events = [*training(range(320)), *validation(range(first, 400), scored=scored)]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks
    numbers = replace(SHARED, samples=320, other_samples=400 - first, shared=320 - first)
    assert bool(findings_of(TrainValidationOverlap, [*events, numbers])) is speaks


@pytest.mark.parametrize(("met", "speaks"), [(60, False), (20, True)])
def test_some_rows_stand_for_all_where_not_all_were_looked_at(met: int, speaks: bool) -> None:
    """A tenth of the training rows was looked at: 60 of 640 is what the whole set gives; 20 is a third of it."""
    looked = training(range(320), samples=3200)
    events = [*looked, *validation([*range(met), *range(10_000, 10_640 - met)], samples=3200)]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks


def test_rows_drawn_twice_by_the_sampler_are_no_twins() -> None:
    rows = [*range(160), *range(160)]
    assert findings_of(TrainValidationOverlap, [*training(rows, with_replacement=True), *validation(range(100, 260))])
    assert not findings_of(TrainValidationOverlap, [*training(rows), *validation(range(100, 260))])


SHARED = RowsShared(
    step=0, place=LOOP, loader=0, other=1, dataset="Noisy", samples=240, other_samples=100, shared=40, other_built=VALID
)


@pytest.mark.parametrize(("shared", "speaks"), [(1, False), (2, True), (40, True)])
def test_numbers_tell_what_augmented_samples_do_not(shared: int, speaks: bool) -> None:
    events = [*training(range(240)), *validation(range(1000, 1100)), replace(SHARED, shared=shared)]
    assert bool(findings_of(TrainValidationOverlap, events)) is speaks


def test_samples_that_never_repeat_are_not_applicable() -> None:
    events = [*training(range(320)), *training(range(1000, 1320), passes=2), *validation(range(2000, 2100))]
    assert "augmentation" in not_applicable(TrainValidationOverlap, events)[0][1]
    assert not not_applicable(
        TrainValidationOverlap, [*training(range(320)), *training(range(320), passes=2), *validation(range(2000, 2100))]
    )


def test_a_run_without_evaluation_is_not_applicable() -> None:
    assert not_applicable(TrainValidationOverlap, training(range(320))) == [
        ("DAT101", "no loader was used for evaluation")
    ]


# -- NaN and Inf --

SPOILT = NotFinite(
    step=3,
    place=LOOP,
    what="loss",
    layer="Linear",
    operation="",
    input_range=(-1.0, 1.0),
    value="nan",
    origin="input",
    learning_rates=(0.1,),
    sample=7,
    loader=0,
    batch=3,
)
HELD = InputNotFinite(
    step=3,
    place=LOOP,
    loader=0,
    passes=1,
    index=3,
    tensor="[0]",
    sample=7,
    bad_samples=1,
    size=16,
    value="nan",
    into="Linear",
    evaluating=False,
)


def test_one_finding_for_one_batch() -> None:
    (finding,) = findings_of([NanOrInfInInputs, NanOrInf], [HELD, SPOILT])
    assert finding.name == "nan-or-inf-in-inputs"
    assert finding.evidence["sample"] == 7
    assert finding.count == 2


def test_nan_from_the_model_belongs_to_another_rule() -> None:
    assert [
        finding.name for finding in findings_of([NanOrInfInInputs, NanOrInf], [replace(SPOILT, origin="layer")])
    ] == ["nan-or-inf"]


def test_a_step_that_was_left_out_is_a_warning() -> None:
    (finding,) = findings_of(NanOrInfInInputs, [replace(SPOILT, skipped=True)])
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("bad", "evaluating", "words"), [(1, False, "in sample 7 of 16"), (3, True, "in sample 7 and 2 more of 16")]
)
def test_the_sample_is_named(bad: int, evaluating: bool, words: str) -> None:
    (finding,) = findings_of(NanOrInfInInputs, [replace(HELD, bad_samples=bad, evaluating=evaluating)])
    assert words in finding.message
    assert "Batch 4 of epoch 1" in finding.message
