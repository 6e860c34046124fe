"""Every task: its loss is torch's mean loss, its sums add up over any split, its metrics are what they say, its
refusals teach."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.data.source import Facts
from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, OwnLoss, Regression, Task, build_task
from trueloop.errors import BadData, BadRecipe
from trueloop.recipe.recipe import Recipe

DRAWS = torch.Generator().manual_seed(0)
N, C, L, T = 12, 5, 4, 6

SCORES = torch.randn(N, C, generator=DRAWS)
CLASSES = torch.randint(0, C, (N,), generator=DRAWS)
SOME_IGNORED = torch.where(torch.arange(N) % 3 == 0, -1, CLASSES)
YES = torch.randint(0, 2, (N,), generator=DRAWS).float()
LABEL_SCORES = torch.randn(N, L, generator=DRAWS)
LABELS = torch.randint(0, 2, (N, L), generator=DRAWS)
ANSWERS = torch.randn(N, generator=DRAWS)
QUANTITIES = torch.randn(N, generator=DRAWS) + 3
TOKEN_SCORES = torch.randn(N, T, C, generator=DRAWS)
TOKENS = torch.randint(0, C, (N, T), generator=DRAWS)
PIXEL_SCORES = torch.randn(N, C, 3, 2, generator=DRAWS)
PIXELS = torch.randint(0, C, (N, 3, 2), generator=DRAWS)


def squares(output: Tensor, targets: Tensor) -> Tensor:
    return (output - targets) ** 2


CASES: dict[str, tuple[Task, Tensor, Tensor, Tensor]] = {
    "multiclass": (Multiclass(), SCORES, CLASSES, F.cross_entropy(SCORES, CLASSES)),
    "smoothed": (
        Multiclass(label_smoothing=0.1),
        SCORES,
        CLASSES,
        F.cross_entropy(SCORES, CLASSES, label_smoothing=0.1),
    ),
    "ignoring": (
        Multiclass(Facts(ignore=-1)),
        SCORES,
        SOME_IGNORED,
        F.cross_entropy(SCORES, SOME_IGNORED, ignore_index=-1),
    ),
    "pixels": (Multiclass(), PIXEL_SCORES, PIXELS, F.cross_entropy(PIXEL_SCORES, PIXELS)),
    "language": (Language(), TOKEN_SCORES, TOKENS, F.cross_entropy(TOKEN_SCORES.transpose(1, 2), TOKENS)),
    "padded": (
        Language(Facts(ignore=0)),
        TOKEN_SCORES,
        TOKENS,
        F.cross_entropy(TOKEN_SCORES.transpose(1, 2), TOKENS, ignore_index=0),
    ),
    "binary": (Binary(), ANSWERS, YES, F.binary_cross_entropy_with_logits(ANSWERS, YES)),
    "binary of whole numbers": (
        Binary(),
        ANSWERS.unsqueeze(1),
        YES.long(),
        F.binary_cross_entropy_with_logits(ANSWERS, YES),
    ),
    "binary of truths": (Binary(), ANSWERS, YES.bool(), F.binary_cross_entropy_with_logits(ANSWERS, YES)),
    "multilabel": (
        Multilabel(),
        LABEL_SCORES,
        LABELS,
        F.binary_cross_entropy_with_logits(LABEL_SCORES, LABELS.float()),
    ),
    "regression": (Regression(), ANSWERS, QUANTITIES, F.mse_loss(ANSWERS, QUANTITIES)),
    "regression of columns": (Regression(), ANSWERS.unsqueeze(1), QUANTITIES, F.mse_loss(ANSWERS, QUANTITIES)),
    "regression of several": (Regression(), LABEL_SCORES, LABELS, F.mse_loss(LABEL_SCORES, LABELS.float())),
    "own, one per sample": (OwnLoss(squares), ANSWERS, QUANTITIES, F.mse_loss(ANSWERS, QUANTITIES)),
    "own, their mean": (OwnLoss(F.mse_loss), ANSWERS, QUANTITIES, F.mse_loss(ANSWERS, QUANTITIES)),
    "own, several per sample": (OwnLoss(squares), LABEL_SCORES, LABELS, F.mse_loss(LABEL_SCORES, LABELS.float())),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sum_over_the_count_is_torchs_mean_loss(case: str) -> None:
    task, output, targets, mean = CASES[case]
    assert torch.allclose(task.loss_sum(output, targets) / task.count(targets), mean, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_sums_and_counts_of_uneven_parts_add_up_to_those_of_the_whole(case: str) -> None:
    task, output, targets, _ = CASES[case]
    parts = [(output[low:high], targets[low:high]) for low, high in ((0, 1), (1, 5), (5, N))]
    assert torch.allclose(
        torch.stack([task.loss_sum(*part) for part in parts]).sum(), task.loss_sum(output, targets), rtol=1e-5
    )
    assert sum(int(task.count(part[1])) for part in parts) == int(task.count(targets))
    whole = task.measures(output, targets)
    assert set(whole) == set(task.sums)
    for name, value in whole.items():
        assert torch.allclose(
            torch.stack([task.measures(*part)[name] for part in parts]).sum().double(), value.double(), rtol=1e-5
        )


@pytest.mark.parametrize("case", CASES)
def test_targets_that_fit_pass_their_check(case: str) -> None:
    task, output, targets, _ = CASES[case]
    task.check(output, targets, "here")
    task.check_all(targets, output, "here")


def shown(task: Task, output: Tensor, targets: Tensor) -> dict[str, float]:
    sums = {
        "loss": task.loss_sum(output, targets),
        "count": torch.as_tensor(task.count(targets)),
        **task.measures(output, targets),
    }
    return task.metrics({name: float(value) for name, value in sums.items()})


# -- metrics --


def test_accuracy_is_the_share_of_hits_among_those_that_count() -> None:
    assert shown(Multiclass(), SCORES, CLASSES)["accuracy"] == pytest.approx(
        (SCORES.argmax(1) == CLASSES).float().mean().item()
    )
    counted = SOME_IGNORED != -1
    hits = (SCORES.argmax(1) == CLASSES)[counted].float().mean().item()
    assert shown(Multiclass(Facts(ignore=-1)), SCORES, SOME_IGNORED)["accuracy"] == pytest.approx(hits)
    assert shown(Language(), TOKEN_SCORES, TOKENS)["accuracy"] == pytest.approx(
        (TOKEN_SCORES.argmax(-1) == TOKENS).float().mean().item()
    )


@pytest.mark.parametrize(
    ("task", "output", "targets"), [(Binary(), ANSWERS, YES), (Multilabel(), LABEL_SCORES, LABELS)]
)
def test_f1_counts_hits_among_all_that_said_or_are_yes(task: Task, output: Tensor, targets: Tensor) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    said, are = (output > 0).flatten().numpy(), (targets > 0).flatten().numpy()
    values = shown(task, output, targets)
    assert values["f1"] == pytest.approx(f1_score(are, said))
    assert values["accuracy"] == pytest.approx(accuracy_score(are, said))
    assert set(values) == {"loss", "accuracy", "f1"}


def test_f1_without_any_yes_is_zero() -> None:
    assert shown(Binary(), torch.full((4,), -1.0), torch.zeros(4))["f1"] == 0.0


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_r2_and_mae_are_those_of_everybody_also_far_from_zero(shift: float) -> None:
    from sklearn.metrics import mean_absolute_error, r2_score

    output, targets = ANSWERS + shift, QUANTITIES + shift
    values = shown(Regression(), output, targets)
    assert values["r2"] == pytest.approx(r2_score(targets.double().numpy(), output.double().numpy()), rel=1e-3)
    assert values["mae"] == pytest.approx(mean_absolute_error(targets.numpy(), output.numpy()), rel=1e-4)
    assert set(values) == {"loss", "mae", "r2"}


def test_r2_of_targets_that_are_all_alike_is_zero() -> None:
    assert shown(Regression(), ANSWERS, torch.ones(N))["r2"] == 0.0


# -- refusals --


def refused(task: Task, output: Any, targets: Any) -> str:
    with pytest.raises(BadData) as raised:
        task.check(output, targets, "Batch 0")
    said = str(raised.value)
    assert said.startswith("Batch 0: ")
    assert "Nothing was trained" in said
    return said


def changed(targets: Tensor, value: float, at: Any = 3) -> Tensor:
    other = targets.clone()
    other[at] = value
    return other


@pytest.mark.parametrize(
    ("task", "output", "targets", "said"),
    [
        (Multiclass(), SCORES, CLASSES.float(), "use targets.long(), or task='regression' if they are quantities"),
        (
            Multiclass(),
            SCORES,
            CLASSES > 1,
            "bool of shape [12]. Nothing was trained: use targets.long(), or task='binary'",
        ),
        (Multiclass(), SCORES, CLASSES.int(), "int32 of shape [12]. Nothing was trained: use targets.long()."),
        (Multiclass(), SCORES, CLASSES.byte(), "uint8 of shape [12]"),
        (Multiclass(), SCORES, F.one_hot(CLASSES, C), "one-hot (int64 of shape [12, 5])"),
        (Multiclass(), SCORES, F.one_hot(CLASSES, C).float(), "targets.argmax(1)"),
        (
            Multiclass(),
            SCORES,
            CLASSES.unsqueeze(1),
            "but they are [12, 1]. Nothing was trained: use targets.squeeze(1)",
        ),
        (Multiclass(), SCORES, CLASSES[:5], "need targets [12], but they are [5]"),
        (
            Multiclass(),
            SCORES,
            changed(CLASSES, C),
            "target 3 is 5, but the model has 5 outputs, so classes go from 0 to 4",
        ),
        (Multiclass(), SCORES, changed(CLASSES, 7), "give the model 8 outputs"),
        (Multiclass(), SCORES, torch.arange(N) % C + 1, "the classes seem to be numbered from 1: use targets - 1"),
        (Multiclass(), SCORES, SOME_IGNORED, "target 0 is -1"),
        (Multiclass(), SCORES, SOME_IGNORED, "Facts(ignore=-1)"),
        (Multiclass(), SCORES, changed(CLASSES, -100), "some targets are -100, which torch leaves out of the loss"),
        (Multiclass(), PIXEL_SCORES, changed(PIXELS, 9, (2, 1, 1)), "target [2, 1, 1] is 9"),
        (Multiclass(), SCORES[:, 0], CLASSES, "a score for each class, [N, classes], but the model returns [12]"),
        (Multiclass(), SCORES[:, :1], CLASSES, "or task='binary' for one"),
        (Multiclass(), (SCORES, None), CLASSES, "the model returns a tuple, and task=multiclass needs one tensor"),
        (Multiclass(), SCORES, CLASSES.tolist(), "not a list"),
        (Language(), TOKEN_SCORES[:, -1], TOKENS, "return scores for every token, not only the last"),
        (Language(), TOKEN_SCORES.transpose(1, 2), TOKENS, "[batch, time, vocabulary]"),
        (Language(), TOKEN_SCORES, TOKENS.float(), "language needs class numbers (int64)"),
        (Language(), TOKEN_SCORES, changed(TOKENS, C, (0, 2)), "target [0, 2] is 5"),
        (Language(), None, TOKENS, "the model returns None"),
        (Binary(), SCORES[:, :2], YES, "use task='multiclass' for two"),
        (
            Binary(),
            ANSWERS,
            changed(YES, 2),
            "target 3 is 2. Nothing was trained: more than two classes are task='multiclass'",
        ),
        (Binary(), ANSWERS, changed(YES, -1), "(targets + 1) / 2"),
        (Binary(), ANSWERS, changed(YES, 0.5), "probabilities need a loss of your own"),
        (Binary(), ANSWERS, changed(YES, torch.nan), "target 3 is nan, and 1 of 12 are NaN or Inf"),
        (Multilabel(), LABEL_SCORES, CLASSES, "one class per sample is task='multiclass'"),
        (Multilabel(), LABEL_SCORES, LABELS[:, :2], "outputs [12, 4] with targets [12, 2]"),
        (Multilabel(), LABEL_SCORES, LABELS * 2, "multilabel needs targets 0 or 1"),
        (Regression(), ANSWERS, QUANTITIES.unsqueeze(1), "would be broadcast silently"),
        (Regression(), LABEL_SCORES, QUANTITIES, "outputs [12, 4] with targets [12]"),
        (Regression(), ANSWERS, changed(QUANTITIES, torch.inf), "target 3 is inf"),
        (Regression(), ANSWERS, changed(QUANTITIES, torch.nan), "remove or fill those rows"),
        (Regression(), ANSWERS, YES.bool(), "use task='binary'"),
        (Regression(), CLASSES, QUANTITIES, "needs floating-point outputs"),
        (OwnLoss(lambda *_: 3.0), ANSWERS, QUANTITIES, "the recipe's loss returns a float"),
        (OwnLoss(lambda *_: None), ANSWERS, QUANTITIES, "the recipe's loss returns None"),
        (
            OwnLoss(lambda *_: CLASSES),
            ANSWERS,
            QUANTITIES,
            "must be a floating-point tensor, computed from the model's output",
        ),
        (OwnLoss(lambda *_: ANSWERS[:3]), ANSWERS, QUANTITIES, "float32 of shape [3] for 12 samples"),
        (
            OwnLoss(lambda output, targets: squares(output, targets).sum()),
            ANSWERS,
            QUANTITIES,
            "seems to be a sum over the batch",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(task: Task, output: Any, targets: Any, said: str) -> None:
    assert said in refused(task, output, targets)


def test_a_loss_that_depends_on_the_whole_batch_is_no_sum() -> None:
    def contrast(output: Tensor, targets: Tensor) -> Tensor:
        return torch.logsumexp(output - targets, 0)

    OwnLoss(contrast).check(ANSWERS, QUANTITIES, "here")


def test_an_own_loss_may_have_targets_in_a_dict() -> None:
    task = OwnLoss(lambda output, targets: squares(output, targets["y"]))
    targets = {"y": QUANTITIES, "weight": QUANTITIES}
    task.check(ANSWERS, targets, "here")
    assert task.count(targets) == N
    assert torch.allclose(task.loss_sum(ANSWERS, targets) / N, F.mse_loss(ANSWERS, QUANTITIES))


def test_all_targets_ignored_is_no_mistake_of_range() -> None:
    Multiclass(Facts(ignore=-1)).check(SCORES, torch.full((N,), -1), "here")


# -- which task --


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"task": "multiclass"}, Multiclass),
        ({"task": "binary"}, Binary),
        ({"task": "multilabel"}, Multilabel),
        ({"task": "regression"}, Regression),
        ({"task": "language"}, Language),
        ({"task": "regression", "loss": squares}, OwnLoss),
    ],
)
def test_a_recipe_gets_the_task_it_names_unless_it_brings_a_loss(values: dict[str, Any], kind: type) -> None:
    assert type(build_task(Recipe(name="x", model=dict, data=str, **values), Facts())) is kind


def test_an_unknown_task_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadRecipe, match="Did you mean multiclass"):
        build_task(Recipe(name="x", model=dict, data=str, task="multi-class"), Facts())  # type: ignore[arg-type]
