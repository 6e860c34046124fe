"""A recipe's own metrics: what they return is the metric of the whole data set, however it is batched or shared out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from tests.engine.small import CLASSES, SMALL, Read, blobs, plain, ran
from tests.parallel.ranks import on_ranks
from trueloop.data.source import Batch, Facts
from trueloop.engine.evaluate import evaluate
from trueloop.engine.loop import Loop
from trueloop.engine.precision import Precision
from trueloop.engine.preflight import check_before_training
from trueloop.engine.task import build_task
from trueloop.errors import BadRecipe
from trueloop.parallel.peers import Alone
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import find_problems

HOST = torch.device("cpu")
UNEVEN = (1, 9, 2, 30, 1)


def hit(output: Tensor, targets: Tensor) -> Tensor:
    return output.argmax(1) == targets


def hit_rate(output: Tensor, targets: Tensor) -> float:
    return float(hit(output, targets).float().mean())


def hits_and_rows(output: Tensor, targets: Tensor) -> tuple[Tensor, int]:
    return hit(output, targets).sum(), len(targets)


def perplexity(output: Tensor, targets: Tensor) -> tuple[Tensor, int, Callable[[float], float]]:
    return F.cross_entropy(output, targets, reduction="sum"), len(targets), math.exp


def overlap(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection and union of each class."""
    answers, wanted = F.one_hot(output.argmax(1), 5).bool(), F.one_hot(targets, 5).bool()
    return (answers & wanted).sum(0), (answers | wanted).sum(0)


def cut(sizes: Sequence[int]) -> list[Batch]:
    inputs, labels = blobs(sum(sizes))
    pairs = zip(torch.split(inputs, list(sizes)), torch.split(labels, list(sizes)), strict=True)
    return [Batch(*pair) for pair in pairs]


def measured(metrics: dict[str, Any], sizes: Sequence[int] = UNEVEN) -> dict[str, float]:
    torch.manual_seed(0)
    task, precision = build_task(SMALL, Facts()), Precision("fp32", HOST)
    return evaluate(plain(), cut(sizes), task, HOST, precision, Alone(), metrics=metrics)


@pytest.mark.parametrize("metric", [hit, hit_rate, hits_and_rows])
def test_each_form_of_a_mean_is_the_mean_over_all_samples(metric: Any) -> None:
    found = measured({"own": metric})
    assert found["own"] == pytest.approx(found["accuracy"], rel=1e-6)


def test_the_quotient_is_taken_once_over_the_whole_data_set() -> None:
    found = measured({"perplexity": perplexity, "iou": overlap})
    whole = measured({"perplexity": perplexity, "iou": overlap}, [sum(UNEVEN)])
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-9)
    assert found == pytest.approx(whole, rel=1e-6)


def test_a_class_that_nobody_names_does_not_count() -> None:
    """`overlap` lists five classes, and the data have three."""
    torch.manual_seed(0)
    (batch,) = cut([sum(UNEVEN)])
    top, bottom = overlap(plain()(batch.inputs), batch.targets)
    assert len(bottom) > CLASSES
    assert measured({"iou": overlap})["iou"] == pytest.approx(float((top / bottom)[bottom > 0].mean()))
    assert math.isnan(measured({"none": lambda *_: (0, 0)})["none"])


def torchmetrics() -> Any:
    return pytest.importorskip("torchmetrics")


def objects() -> dict[str, Any]:
    kinds = torchmetrics().classification
    return {
        "tm_f1": kinds.MulticlassF1Score(CLASSES, average="macro"),
        "tm_auroc": lambda: kinds.MulticlassAUROC(CLASSES),
        "tm_iou": kinds.MulticlassJaccardIndex(CLASSES),
        "tm": torchmetrics().MetricCollection(
            {"precision": kinds.MulticlassPrecision(CLASSES), "recall": kinds.MulticlassRecall(CLASSES)}
        ),
    }


def test_torchmetrics_objects_and_factories_over_uneven_batches() -> None:
    found, whole = measured(objects()), measured(objects(), [sum(UNEVEN)])
    assert {"tm_f1", "tm_auroc", "tm_iou", "tm_precision", "tm_recall"} < set(found)
    assert found == pytest.approx(whole, rel=1e-6)
    torch.manual_seed(0)
    (batch,) = cut([sum(UNEVEN)])
    direct = torchmetrics().functional.auroc(plain()(batch.inputs), batch.targets, "multiclass", num_classes=CLASSES)
    assert found["tm_auroc"] == pytest.approx(float(direct), rel=1e-6)


def test_nothing_is_left_of_the_evaluation_before() -> None:
    metrics = objects()
    metrics["tm_f1"].update(torch.eye(CLASSES), torch.tensor([1, 2, 0]))  # the user's own use of it
    again = [measured(metrics) for _ in range(2)]
    assert again[0] == again[1] == pytest.approx(measured(objects()))
    assert metrics["tm_f1"].update_count == 1


RECIPE = replace(SMALL, data=Read(samples=49, valid=21), metrics={"iou": overlap, "perplexity": perplexity})


def test_metrics_stand_in_the_validation_rows_beside_those_of_the_task() -> None:
    over = ran(RECIPE)
    rows = [row for row in over.kept.rows if row.kind == "valid"]
    assert all({"loss", "accuracy", "iou", "perplexity"} == set(row.values) for row in rows)
    assert all(row.values["perplexity"] == pytest.approx(math.exp(row.values["loss"]), rel=1e-6) for row in rows)


def test_metrics_beside_a_loss_of_ones_own() -> None:
    over = ran(replace(RECIPE, loss=F.cross_entropy, metric="iou"))
    assert over.loop.state.best == max(over.kept.values("iou", "valid"))


@pytest.mark.parametrize(
    ("options", "better"),
    [
        ({"metric": "iou"}, max),
        ({"metric": "perplexity", "lower_is_better": ("perplexity",)}, min),
        ({"metric": "loss"}, min),
        ({}, max),
    ],
)
def test_the_best_checkpoint_follows_the_metric_in_its_direction(options: dict[str, Any], better: Any) -> None:
    over = ran(replace(RECIPE, **options))
    name = options.get("metric", "accuracy")
    assert over.loop.state.best == better(over.kept.values(name, "valid"))
    assert over.loop.parts.higher_is_better is (better is max)


def test_torchmetrics_says_itself_which_way_is_better() -> None:
    kinds = torchmetrics()
    metrics = {"up": kinds.classification.MulticlassF1Score(CLASSES), "down": kinds.text.Perplexity}
    for name, up in (("up", True), ("down", False)):
        loop = Loop.of(replace(SMALL, metrics=metrics, metric=name))
        assert loop.parts.higher_is_better is up


def rows_on_two_ranks(recipe: Recipe) -> tuple[dict[str, float], list[dict[str, float]]]:
    def work() -> dict[str, float]:
        over = ran(recipe)
        return dict(over.loop.validation.measure(over.loop.parts.model, over.loop.parts.splits.valid or _none()))

    return work(), on_ranks(lambda _: work())


def _none() -> Any:
    raise AssertionError


@pytest.mark.parametrize("valid", [21, 1], ids=["uneven shares", "one process has no sample"])
def test_two_processes_measure_what_one_measures(valid: int) -> None:
    metrics = {"iou": overlap, "perplexity": perplexity, "rate": hit_rate}
    if valid > 1:
        metrics |= objects()
    else:
        metrics |= {"tm_f1": torchmetrics().classification.MulticlassF1Score(CLASSES)}
    recipe = replace(SMALL, data=Read(samples=48, valid=valid), metrics=metrics, epochs=1)
    alone, (first, second) = rows_on_two_ranks(recipe)
    assert first == second == pytest.approx(alone, rel=1e-4)


def test_a_metric_that_cannot_be_merged_is_refused_over_two_processes() -> None:
    recipe = replace(SMALL, metrics={"own": Counter()}, epochs=1)
    assert ran(recipe).kept.values("own", "valid")[-1] == 20

    def work(_: int) -> str:
        with pytest.raises(BadRecipe) as caught:
            ran(recipe)
        return str(caught.value)

    assert all("cannot be merged over 2 processes" in said for said in on_ranks(work))


class Counter:
    def reset(self) -> None:
        self.seen = 0

    def update(self, output: Tensor, targets: Tensor) -> None:
        self.seen += len(targets)

    def compute(self) -> int:
        return self.seen


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (lambda output: output, "fails on a batch: TypeError"),
        (lambda *_: "good", "returns a str"),
        (lambda output, _: output[:3, 0], "returns float64 of shape [3] for 16 samples"),
        (lambda *_: (1, "x"), "returns (a int, a str)"),
        (lambda output, _: (output.sum(0), 3), "two sums of different shapes, [3] and []"),
        (lambda: 3, "a function without parameters that returns a int"),
        (lambda output, _: output.nonsense, "fails on a batch: AttributeError"),
    ],
)
def test_a_mistake_in_a_metric_is_one_sentence_before_the_training(metric: Any, said: str) -> None:
    loop = Loop.of(replace(SMALL, metrics={"own": metric}))
    with pytest.raises(BadRecipe) as caught:
        check_before_training(loop.parts)
    assert said in str(caught.value)
    assert "The metric 'own'" in str(caught.value)
    assert "Nothing was " in str(caught.value)


def test_a_metric_of_several_numbers_says_what_to_write() -> None:
    kinds = torchmetrics().classification
    loop = Loop.of(replace(SMALL, metrics={"f1": kinds.MulticlassF1Score(CLASSES, average=None)}))
    with pytest.raises(BadRecipe, match="average='macro'"):
        check_before_training(loop.parts)
    loop = Loop.of(replace(SMALL, metrics={"f1": kinds.MulticlassF1Score}))
    with pytest.raises(BadRecipe, match=r"cannot be created: .* write \"f1\": MulticlassF1Score\(\.\.\.\)"):
        check_before_training(loop.parts)
    loop = Loop.of(replace(SMALL, metrics=objects(), metric="tm_recal"))
    with pytest.raises(BadRecipe, match=r"metric=tm_recal is not measured.*tm_recall"):
        check_before_training(loop.parts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metrics": {"accuracy": hit}}, "metrics has 'accuracy', which task=multiclass measures already"),
        ({"metrics": {"loss": hit}, "loss": F.cross_entropy}, "which a loss of your own measures already"),
        ({"metrics": {"f1": 3}}, "metrics['f1'] is a int"),
        ({"metrics": {3: hit}}, "metrics has the name 3"),
        ({"metrics": [hit]}, "metrics cannot be"),
        ({"metrics": {"iou": overlap}, "metric": "ious"}, "metric cannot be 'ious' with task=multiclass. Did you mean"),
        ({"lower_is_better": ("perplexity",)}, "lower_is_better has 'perplexity', which is not one of metrics"),
    ],
)
def test_wrong_combinations_are_refused_with_what_to_write(options: dict[str, Any], said: str) -> None:
    problems = find_problems(replace(SMALL, **options))
    assert any(said in each for each in problems), problems


def test_own_metrics_with_an_own_loss_may_have_the_names_of_tasks() -> None:
    assert not find_problems(replace(SMALL, loss=F.cross_entropy, metrics={"accuracy": hit}, metric="accuracy"))
