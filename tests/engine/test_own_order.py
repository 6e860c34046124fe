"""An order of one's own: sequential, curricula, buckets, P x K; what is refused; exact resumes."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import torch

from tests.engine.small import SMALL, Of, blobs, ran, same_bits, with_dropout, with_norm
from tests.engine.test_streams import killed_and_resumed
from trueloop import Splits, Tensors
from trueloop.data.batch_orders import bucketed, classes_by_samples
from trueloop.engine.assemble import assemble
from trueloop.engine.batches import Batches
from trueloop.engine.preflight import check_before_training
from trueloop.errors import BadData, BadRecipe

ROWS = Tensors(*blobs(50))


def numbers(order: Any, epoch: int = 0, **changes: Any) -> list[list[int]]:
    batches = assemble(replace(SMALL, order=order, **changes)).batches
    assert isinstance(batches, Batches)
    return [key.numbers.tolist() for key in batches.keys(epoch, 0)]


def test_sequential_is_the_order_of_the_data() -> None:
    assert list(chain(*numbers("sequential", epoch=2))) == list(range(50))
    assert [len(batch) for batch in numbers("sequential", drop_last=True)] == [16, 16, 16]


def test_samples_are_cut_into_batches_and_batches_are_taken_as_they_are() -> None:
    assert numbers(lambda *_: list(range(20))) == [list(range(16)), [16, 17, 18, 19]]
    assert numbers(lambda *_: [[3, 1], torch.tensor([7])]) == [[3, 1], [7]]
    assert numbers(lambda *_: torch.tensor([[5, 6], [7, 8]]), epoch=3) == [[5, 6], [7, 8]]


def drawn(epoch: int, generator: torch.Generator, train: Any) -> Any:
    return torch.randperm(len(train), generator=generator)[: 10 + 0 * epoch]


def test_an_order_depends_on_seed_and_epoch_only() -> None:
    assert numbers(drawn) == numbers(drawn) != numbers(drawn, epoch=1)
    assert numbers(drawn, epoch=1) == numbers(drawn, epoch=1) != numbers(drawn, epoch=1, seed=1)


@pytest.mark.parametrize("where", ["resident", "loader"])
def test_a_resume_is_exact(where: Any) -> None:
    recipe = replace(SMALL, model=with_dropout, order=uneven, where=where, save_every=1, epochs=4)
    whole, resumed = killed_and_resumed(recipe, at=5)
    assert whole.ending.step == 12
    assert same_bits(whole.weights, resumed.weights)


def uneven(epoch: int, generator: torch.Generator, train: Any) -> Any:
    drawn = torch.randperm(len(train), generator=generator).tolist()
    return [drawn[:16], drawn[16:19], drawn[19:30]]


def test_the_samples_of_a_row_of_metrics_are_those_of_the_order() -> None:
    windows = ran(replace(SMALL, order=uneven, epochs=1)).loop
    assert [len(batch) for batch in numbers(uneven)] == [16, 3, 11]
    assert windows.state.step == 3


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (lambda *_: list(range(51)), "sample 50 for epoch 0, and there are 50: 0 to 49"),
        (lambda *_: [-1], "sample -1 for epoch 0"),
        (lambda *_: [[1] * 17], r"Batch 0 of epoch 0 .* has 17 samples: a batch has 1 to batch=16"),
        (lambda *_: [[1], []], "Batch 1 of epoch 0"),
        (lambda *_: [], "no sample"),
        (lambda *_: [0.5], "something other than whole numbers"),
        (lambda *_: None, "returned a NoneType: return a list"),
        (lambda _: [1], r"write it as `def order\(epoch, generator, train\)`"),
        ("random", r"order cannot be 'random'|order is 'random'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(order: Any, said: str) -> None:
    with pytest.raises(BadRecipe, match=said):
        numbers(order)


def test_each_epoch_has_as_many_batches() -> None:
    with pytest.raises(BadRecipe, match="2 batches for epoch 1, and 1 for epoch 0"):
        ran(replace(SMALL, order=lambda epoch, *_: list(range(16 * (epoch + 1)))))


def test_what_does_not_go_together() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"order": drawn, "program": "cuda_graphs", "device": "auto"}, "replays batches of one size"),
        ({"order": "sequential", "balanced": True}, "balanced draws the samples, and so does order"),
    ]
    for change, said in wrong:
        with pytest.raises(BadRecipe, match=said):
            assemble(replace(SMALL, **change))


def test_a_batch_of_one_for_batch_norm_is_refused_before_the_training() -> None:
    loop = ran(replace(SMALL, model=with_norm, epochs=1)).loop
    alone = replace(SMALL, model=with_norm, order=lambda *_: [[1, 2], [3]])
    with pytest.raises(BadRecipe, match="leave a batch of 1"):
        check_before_training(assemble(alone))
    check_before_training(loop.parts)


# -- ready-made --


def test_buckets_hold_similar_lengths_and_every_sample_once() -> None:
    lengths = torch.arange(50).flip(0).tolist()
    batches = numbers(bucketed(lengths, batch=16))
    assert sorted(chain(*batches)) == list(range(50))
    spans = [max(lengths[each] for each in batch) - min(lengths[each] for each in batch) for batch in batches]
    assert max(spans) <= 16
    assert batches != numbers(bucketed(lengths, batch=16), epoch=1)
    assert batches == numbers(bucketed(lambda _: lengths, batch=16))
    with pytest.raises(BadData, match="3 lengths for 50 training samples"):
        numbers(bucketed([1, 2, 3], batch=16))


def test_p_classes_with_k_samples_each() -> None:
    labels = ROWS.targets
    batches = numbers(classes_by_samples(classes=2, samples=5))
    assert len(batches) == 5
    for batch in batches:
        _, counts = torch.unique(labels[batch], return_counts=True)
        assert counts.tolist() == [5, 5]
        assert len(set(batch)) == 10
    few = [0] * 48 + [1, 1]
    (first, *_) = numbers(classes_by_samples(classes=2, samples=3, labels=few))
    assert sorted(torch.tensor(few)[first].tolist()) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(BadData, match="the training data have 3 classes"):
        numbers(classes_by_samples(classes=4, samples=2))


# -- mixup --


def mixup(inputs: Any, targets: Any, generator: torch.Generator) -> Any:
    share = torch.rand(len(inputs), 1, generator=generator)
    other = torch.randperm(len(inputs), generator=generator)
    targets = torch.nn.functional.one_hot(targets, 3).float()
    return share * inputs + (1 - share) * inputs[other], share * targets + (1 - share) * targets[other]


def test_mixup_changes_inputs_and_targets_and_is_resumed_exactly() -> None:
    splits = Splits(ROWS, Tensors(*blobs(20, seed=1)), augment=mixup)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    recipe = replace(SMALL, data=Of(splits), loss=loss, save_every=1, where="loader")
    batch = assemble(recipe).batches.batch_at(0, 0)
    assert batch is not None
    assert batch.targets.shape == (16, 3)
    assert torch.allclose(batch.targets.sum(1), torch.ones(16))
    whole, resumed = killed_and_resumed(recipe, at=5)
    assert same_bits(whole.weights, resumed.weights)
