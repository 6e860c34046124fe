"""The rules about seeds, scales and labels on constructed events: each threshold from both sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import (
    BatchRewritten,
    DatasetRedrawn,
    EpochStarted,
    EvaluationPass,
    Event,
    FirstLayerInput,
    LabelsCompared,
    LoadersOutOfSync,
    Place,
    SeedChecked,
    Stepped,
)
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.data.dataset_modified_in_place import DatasetModifiedInPlace
from trueloop.rules.data.inputs_not_normalized import InputsNotNormalized
from trueloop.rules.data.labels_misaligned_with_inputs import LabelsMisalignedWithInputs
from trueloop.rules.data.metric_averaged_over_batches import MetricAveragedOverBatches
from trueloop.rules.data.no_seed_set import NoSeedSet
from trueloop.rules.data.workers_share_a_seed import WorkersShareASeed
from trueloop.rules.rule import Rule

HERE = Place("gone.py", 7, "train")
THERE = Place("gone.py", 9, "Noisy.__init__")
STEP = Stepped(
    step=0,
    place=HERE,
    optimizer=0,
    name="SGD",
    index=0,
    gradients="new",
    cleared=True,
    backwards=1,
    backward_places=(HERE,),
    most_at_one_place=1,
    averaged=False,
    clipped=False,
    closure=False,
    learning_rates=(0.1,),
    scale_free=False,
)
PASS = EpochStarted(step=0, place=HERE, loader=0, batches=4, passes=1)
REDRAWN = DatasetRedrawn(
    step=0,
    place=HERE,
    loader=0,
    dataset="Noisy",
    workers=2,
    persistent=False,
    samples=3,
    refused="",
    rewritten="",
    values=(),
    rewritten_share=0.0,
    rewritten_place=None,
    identical_across="workers",
    cause="generator",
    cause_name="Noisy.rng",
    cause_place=THERE,
)
PIXELS = FirstLayerInput(
    step=1,
    place=HERE,
    model=0,
    name="Net",
    layer="conv (Conv2d)",
    shape=(16, 3, 8, 8),
    image=True,
    smallest=0.0,
    largest=254.0,
    integer_share=1.0,
    typical=120.0,
    narrowest=None,
    widest=None,
    normalized_next=False,
)
TABLE = replace(
    PIXELS, image=False, shape=(32, 3), largest=70_000.0, integer_share=0.3, narrowest=(2, 0.8), widest=(1, 16_000.0)
)
LABELS = LabelsCompared(step=9, place=HERE, loader=0, samples=240, repeated=100, agreed=10, expected=0.1, classes=10)
SCORED = EvaluationPass(step=4, place=HERE, sizes=(8, 8, 8, 2), loss_place=HERE, mean_of_means=0.5, mean_of_samples=0.4)
SEED = SeedChecked(step=1, place=HERE, seeded=False, seeded_late=False, drawn=True, model="Net")


def findings_of(rule: type[Rule], events: Iterable[Event]) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def not_applicable(rule: type[Rule], events: Iterable[Event]) -> list[str]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    return [because for _, because in checker.not_applicable()]


# -- workers --


def test_two_workers_with_equal_draws_are_reported_at_the_generator() -> None:
    [finding] = findings_of(WorkersShareASeed, [REDRAWN, PASS, STEP])
    assert finding.place == THERE
    assert "Noisy.rng" in finding.message


def test_a_loader_that_only_measures_is_left_alone() -> None:
    other = replace(PASS, loader=1)
    assert not findings_of(WorkersShareASeed, [REDRAWN, PASS, other, STEP, STEP])


@pytest.mark.parametrize(
    ("alike", "workers", "persistent", "passes", "spoken"),
    [
        ("workers", 2, True, 1, True),
        ("workers", 1, False, 1, False),
        ("workers", 1, False, 2, True),
        ("workers", 1, True, 3, False),
        ("epochs", 2, False, 1, False),
        ("epochs", 2, False, 2, True),
        ("epochs", 2, True, 3, False),
        ("samples", 0, False, 1, True),
        ("", 2, False, 3, False),
    ],
)
def test_it_reports_once_the_draws_have_repeated(
    alike: str, workers: int, persistent: bool, passes: int, spoken: bool
) -> None:
    redrawn = replace(REDRAWN, workers=workers, persistent=persistent, identical_across=alike)  # type: ignore[arg-type]
    events = [redrawn, *[event for _ in range(passes) for event in (PASS, STEP, STEP)]]
    assert bool(findings_of(WorkersShareASeed, events)) == spoken


@pytest.mark.parametrize("rule", [WorkersShareASeed, DatasetModifiedInPlace])
def test_a_dataset_that_cannot_be_tested_is_not_applicable(rule: type[Rule]) -> None:
    refused = replace(REDRAWN, identical_across="", cause="", refused="it took longer than 2 s", samples=0)
    [because] = not_applicable(rule, [refused, PASS, STEP])
    assert "took longer" in because


# -- samples --


def test_a_modified_sample_is_reported_with_its_values() -> None:
    [finding] = findings_of(
        DatasetModifiedInPlace, [replace(REDRAWN, rewritten="Images.x", values=(0.99, 0.0039), rewritten_place=THERE)]
    )
    assert finding.place == THERE
    assert "was 0.99 at one draw and 0.0039 at the next" in finding.message
    assert not findings_of(DatasetModifiedInPlace, [REDRAWN])


def test_a_batch_modified_by_the_loop_is_reported_at_the_writing_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "for i, (x, y) in enumerate(loader):\n    z = x - 1\n    z *= 3\n    x[:, 0] *= 2\n    model(x)\n",
        encoding="utf-8",
    )
    event = BatchRewritten(3, Place(str(script), 1), 0, "Batches", "x", 1.0, 2.0)
    [finding] = findings_of(DatasetModifiedInPlace, [event])
    assert finding.place is not None
    assert finding.place.line == 4


# -- scales --


@pytest.mark.parametrize(
    ("change", "spoken"),
    [
        ({}, True),
        ({"largest": 51.0}, True),
        ({"largest": 50.0}, False),
        ({"largest": 256.0}, False),
        ({"smallest": -1.0}, False),
        ({"integer_share": 0.99}, True),
        ({"integer_share": 0.5}, False),
        ({"integer_share": 0.5, "largest": 255.0}, True),
        ({"typical": 16.0}, False),
        ({"image": False}, False),
        ({"normalized_next": True}, False),
    ],
)
def test_raw_pixels(change: dict[str, object], spoken: bool) -> None:
    assert bool(findings_of(InputsNotNormalized, [replace(PIXELS, **change)])) == spoken  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("narrow", "wide", "spoken"),
    [
        (0.8, 16_000.0, True),
        (1.0, 1000.0, True),
        (1.0, 999.0, False),
        (0.05, 99.0, False),
        (0.05, 100.0, True),
        (500.0, 16_000.0, False),
    ],
)
def test_columns_apart(narrow: float, wide: float, spoken: bool) -> None:
    assert bool(findings_of(InputsNotNormalized, [replace(TABLE, narrowest=(2, narrow), widest=(1, wide))])) == spoken
    assert not findings_of(
        InputsNotNormalized, [replace(TABLE, narrowest=(2, narrow), widest=(1, wide), normalized_next=True)]
    )


# -- labels --


@pytest.mark.parametrize(
    ("repeated", "agreed", "expected", "spoken"),
    [
        (100, 10, 0.1, True),
        (100, 25, 0.1, True),
        (100, 40, 0.1, False),
        (20, 2, 0.1, True),
        (19, 2, 0.1, False),
        (20, 10, 0.5, False),  # two classes: too few to rule out noisy labels
        (100, 50, 0.5, True),
        (100, 68, 0.5, False),  # one label in five is wrong
    ],
)
def test_labels_of_equal_inputs(repeated: int, agreed: int, expected: float, spoken: bool) -> None:
    event = replace(LABELS, repeated=repeated, agreed=agreed, expected=expected)
    assert bool(findings_of(LabelsMisalignedWithInputs, [event])) == spoken


def test_one_class_is_no_contradiction() -> None:
    assert not findings_of(LabelsMisalignedWithInputs, [replace(LABELS, classes=1, agreed=100, expected=1.0)])


def test_few_repeats_are_not_applicable() -> None:
    [because] = not_applicable(LabelsMisalignedWithInputs, [replace(LABELS, repeated=3, agreed=3)])
    assert because.startswith("only 3 inputs")


def test_separate_loaders_are_reported_at_the_loss() -> None:
    [finding] = findings_of(LabelsMisalignedWithInputs, [LoadersOutOfSync(2, HERE, 0, 1, 64, 2, THERE)])
    assert finding.place == HERE


# -- means --

LOOP = """\
def validate():
    total = count = 0
    for x, y in valid:
        loss = criterion(model(x), y)
        {gather}
        count += 1
    return {result}
"""


@pytest.mark.parametrize(
    ("gather", "result", "spoken"),
    [
        ("total += loss.item()", "total / len(valid)", True),
        ("total = total + float(loss)", "total / count", True),
        ("total += criterion(model(x), y).item()", "100 * total / len(valid)", True),
        ("losses.append(loss)", "torch.stack(losses).mean()", True),
        ("losses.append(loss.item())", "sum(losses) / len(losses)", True),
        ("total += loss.item() * len(x)", "total / len(valid)", False),
        ("total += loss.item()", "total / len(valid.dataset)", False),
        ("total += loss.item()", "total", False),
        ("total += (out.argmax(1) == y).sum().item()", "total / len(valid)", False),
        ("meter.append(y)", "meter.mean()", False),
    ],
)
def test_means_of_means_are_read_in_the_source(tmp_path: Path, gather: str, result: str, spoken: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(gather=gather, result=result), encoding="utf-8")
    call, gathered = Place(str(script), 4, "validate"), Place(str(script), 5, "validate")
    findings = findings_of(
        MetricAveragedOverBatches, [replace(SCORED, place=call, loss_place=gathered if "criterion" in gather else call)]
    )
    assert [finding.place.line for finding in findings if finding.place] == ([7] if spoken else [])


@pytest.mark.parametrize(
    ("sizes", "spoken"), [((8, 8, 2), True), ((8, 8, 8), False), ((2, 8, 8), False), ((8, 6, 2), False), ((8, 2), True)]
)
def test_only_a_smaller_last_batch_counts(tmp_path: Path, sizes: tuple[int, ...], spoken: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(gather="total += loss.item()", result="total / len(valid)"), encoding="utf-8")
    call = Place(str(script), 4, "validate")
    assert (
        bool(findings_of(MetricAveragedOverBatches, [replace(SCORED, sizes=sizes, place=call, loss_place=call)]))
        == spoken
    )


# -- seeds --


@pytest.mark.parametrize(
    ("seeded", "late", "drawn", "spoken"),
    [(False, False, True, True), (False, False, False, False), (True, False, True, False), (True, True, True, True)],
)
def test_seedless(seeded: bool, late: bool, drawn: bool, spoken: bool) -> None:
    assert bool(findings_of(NoSeedSet, [replace(SEED, seeded=seeded, seeded_late=late, drawn=drawn)])) == spoken


def test_the_seed_is_offered_after_the_imports(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        '"""Doc."""\nimport os\nimport torch\nfrom torch import nn\n\nnet = Net()\nimport sys\n', encoding="utf-8"
    )
    [finding] = findings_of(NoSeedSet, [replace(SEED, place=Place(str(script), 6))])
    assert "from torch import nn\n \n+torch.manual_seed(0)\n" in finding.diff
    assert finding.place is not None
    assert finding.place.line == 6


def test_no_diff_where_torch_has_an_alias(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch as t\nnet = Net()\n", encoding="utf-8")
    [finding] = findings_of(NoSeedSet, [replace(SEED, place=Place(str(script), 2))])
    assert not finding.diff
