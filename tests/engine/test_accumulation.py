"""However a batch is split, the gradient is that of the one big batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.engine.small import PADDING, SMALL, Read, begin, furthest, ran, reading, with_norm
from trueloop.engine.accumulation_note import accumulation_note
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.loop import Loop
from trueloop.parallel.gradient import norm_of

ROUNDING = 1e-6


def first_gradients(loop: Loop) -> list[Tensor]:
    """What the loop's own first step would hand to the optimizer."""
    window = next(iter(loop.windows()))
    targets = loop.parts.count_targets(window)
    losses = []
    for micro in window.micros:
        loss = loop.parts.task.loss_sum(loop.parts.model(micro.inputs), micro.targets) / targets
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    loop.parts.peers.add_up(losses, loop.parts.parameters)
    return [parameter.grad.clone() for parameter in loop.parts.parameters if parameter.grad is not None]


def big_batch(loop: Loop) -> list[Tensor]:
    """By hand: the mean over all targets that count, in one piece."""
    inputs, targets = loop.parts.splits.train.fetch(torch.arange(len(loop.parts.splits.train)))
    loop.parts.model.zero_grad()
    loss = F.cross_entropy(loop.parts.model(inputs).flatten(0, 1), targets.flatten(), ignore_index=PADDING)
    loss.backward()  # type: ignore[no-untyped-call]
    return [parameter.grad.clone() for parameter in loop.parts.parameters if parameter.grad is not None]


def far(some: list[Tensor], others: list[Tensor]) -> float:
    return max(float((one - other).abs().max()) for one, other in zip(some, others, strict=True))


@pytest.mark.parametrize("lengths", [(1, 2, 4, 32), (32, 4, 2, 1), (5, 5, 5, 5), (1, 40, 1, 1), (0, 3, 0, 9)])
def test_four_micro_batches_of_uneven_tokens_give_the_gradient_of_the_one_big_batch(lengths: tuple[int, ...]) -> None:
    loop, _, _ = begin(replace(reading(*lengths), batch=4, accumulate=4))
    assert len(next(iter(loop.windows())).micros) == 4
    assert far(first_gradients(loop), big_batch(loop)) < ROUNDING


def test_the_mean_of_the_micro_batches_means_would_be_far_off() -> None:
    """That the test above can fail: this is what others do."""
    loop, _, _ = begin(replace(reading(1, 2, 4, 32), batch=4, accumulate=4))
    for micro in next(iter(loop.windows())).micros:
        scores = loop.parts.model(micro.inputs).flatten(0, 1)
        loss = F.cross_entropy(scores, micro.targets.flatten(), ignore_index=PADDING) / 4
        loss.backward()  # type: ignore[no-untyped-call]
    wrong = [parameter.grad.clone() for parameter in loop.parts.parameters if parameter.grad is not None]
    assert far(wrong, big_batch(loop)) > 0.01


def test_a_step_without_any_target_that_counts_changes_nothing_and_is_no_nan() -> None:
    recipe = replace(reading(0, 0, 0, 0), batch=4, accumulate=2, epochs=2)
    loop, _, _ = begin(recipe)
    before = {name: value.clone() for name, value in loop.parts.model.state_dict().items()}
    over = ran(recipe)
    assert over.losses == [0.0, 0.0]
    assert furthest(before, over.weights) == 0.0
    assert over.ending.reason == "finished"


@pytest.mark.parametrize("accumulate", [2, 3, 4, 5, 16])
def test_a_whole_run_ends_where_the_unsplit_run_ends(accumulate: int) -> None:
    """50 samples in batches of 16: each epoch ends with a batch of 2."""
    recipe = replace(SMALL, epochs=None, steps=30, optimizer="sgd", lr=0.3)
    whole, split = ran(recipe), ran(replace(recipe, accumulate=accumulate))
    assert len(whole.losses) == 30
    assert split.losses == pytest.approx(whole.losses, abs=1e-5)
    assert furthest(whole.weights, split.weights) < 1e-5


def test_one_by_sixty_four_and_four_by_sixteen_are_the_same_run() -> None:
    recipe = replace(SMALL, data=Read(samples=64 * 3 + 5), batch=64, epochs=None, steps=30, clip=0.5, schedule="cosine")
    one, four = ran(recipe), ran(replace(recipe, accumulate=4))
    assert one.losses == pytest.approx(four.losses, abs=1e-4)


def test_tokens_over_a_whole_run_with_partial_windows() -> None:
    recipe = replace(reading(1, 2, 4, 32, 7, 3, 11), batch=4, epochs=None, steps=30)
    whole, split = ran(recipe), ran(replace(recipe, accumulate=4))
    assert split.losses == pytest.approx(whole.losses, abs=1e-5)
    assert furthest(whole.weights, split.weights) < 1e-5


def test_the_last_window_of_an_epoch_holds_what_is_left() -> None:
    loop, _, _ = begin(replace(SMALL, accumulate=4))
    sizes = []
    for window in loop.windows():
        sizes.append([len(micro.inputs) for micro in window.micros])
        loop.state.advance(window.ends_epoch)
    assert sizes[:4] == [[4, 4, 4, 4], [4, 4, 4, 4], [4, 4, 4, 4], [2]], (
        "a small last batch is cut into fewer parts, not smaller ones"
    )
    assert len(sizes) == 12, "three epochs of four steps, the small one included"


def test_accumulation_does_not_change_what_an_augmentation_draws() -> None:
    def noisy(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + torch.randn(inputs.shape, generator=draws)

    recipe = replace(SMALL, data=Read(more={"augment": noisy}), optimizer="sgd")
    whole, split, calm = ran(recipe), ran(replace(recipe, accumulate=4)), ran(replace(recipe, data=Read()))
    assert split.losses == pytest.approx(whole.losses, abs=1e-5)
    assert calm.losses != pytest.approx(whole.losses, abs=1e-3), "the augmentation does something"


def test_clipping_is_by_the_norm_of_the_whole_step() -> None:
    recipe = replace(SMALL, optimizer="sgd", lr=1.0, clip=0.1, epochs=None, steps=1)
    loop, _, _ = begin(recipe)
    before = {name: value.clone() for name, value in loop.parts.model.state_dict().items()}
    whole, split = ran(recipe), ran(replace(recipe, accumulate=4))
    moved = torch.cat([(whole.weights[name] - before[name]).flatten() for name in before]).norm()
    assert float(moved) == pytest.approx(0.1, rel=1e-4)
    assert furthest(whole.weights, split.weights) < ROUNDING


def test_batch_norm_sees_micro_batches_and_stays_finite() -> None:
    """The one thing that a split does change, and must: what BatchNorm takes its mean over."""
    over = ran(replace(SMALL, model=with_norm, accumulate=4))
    assert all(torch.isfinite(value).all() for value in over.weights.values())


def test_the_norm_of_a_model_without_gradients_is_zero() -> None:
    assert float(norm_of([nn.Parameter(torch.ones(3))])) == 0.0


def test_the_norm_counts_sparse_gradients() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1, 1, 3])).sum().backward()
    dense = nn.Embedding(5, 2)
    dense(torch.tensor([1, 1, 3])).sum().backward()
    assert dense.weight.grad is not None
    assert float(norm_of([table.weight])) == pytest.approx(float(dense.weight.grad.norm()))


def token_mean(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=PADDING)


def test_a_loss_of_ones_own_that_is_a_mean_over_tokens_says_so() -> None:
    """Counted by samples, four micro-batches of uneven length would weigh their tokens differently."""
    own = replace(reading(1, 2, 4, 32), batch=4, accumulate=4, loss=token_mean, task="multiclass")
    counted = replace(own, loss_count=lambda targets: (targets != PADDING).sum())
    by_samples, by_tokens = (begin(recipe)[0] for recipe in (own, counted))
    assert far(first_gradients(by_tokens), big_batch(by_tokens)) < ROUNDING
    assert far(first_gradients(by_samples), big_batch(by_samples)) > 0.01
    assert "accumulate=4: the loss of the first batch is" in accumulation_note(by_samples.parts)
    assert accumulation_note(by_tokens.parts) == ""


def contrast(output: Tensor, targets: Tensor) -> Tensor:
    """Each sample against the others of its batch."""
    scores = output @ output.T
    return F.cross_entropy(scores, torch.arange(len(scores)))


def test_a_loss_that_compares_samples_is_evaluated_in_micro_batches_and_noted() -> None:
    recipe = replace(SMALL, loss=contrast, accumulate=2)
    loop, _, _ = begin(recipe)
    assert "in-batch negatives" in accumulation_note(loop.parts)
    parts = loop.parts
    sizes = [
        EvaluationBatches(parts.splits.train, parts.splits, each, parts.device, parts.peers).batch
        for each in (recipe, replace(recipe, evaluation_batch=5), replace(recipe, loss=None))
    ]
    assert sizes == [recipe.batch // 2, 5, recipe.batch]
