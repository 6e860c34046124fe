"""Models of Hugging Face as they are: batches that are dicts, outputs that hold their loss."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.engine.small import SMALL, Of, begin, furthest, ran
from tests.parallel.ranks import on_ranks
from trueloop.data.dataset import Dataset
from trueloop.data.source import Batch, Splits, map_tensors
from trueloop.engine.call_model import call_model, takes_names
from trueloop.engine.loop import Loop
from trueloop.engine.model_loss import ModelLoss
from trueloop.engine.preflight import check_before_training
from trueloop.errors import BadData

VOCABULARY, LENGTH = 11, 12


@dataclass
class Output(OrderedDict[str, Any]):
    """As transformers' ModelOutput: a dataclass and a dict at once."""

    loss: Tensor | None = None
    logits: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("loss", "logits"):
            if getattr(self, name) is not None:
                self[name] = getattr(self, name)


class Causal(nn.Module):
    """The interface of a causal language model: it shifts the labels itself."""

    kind = "causal"

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **more: Any
    ) -> Output:
        logits = self.outer(self.inner(input_ids).cumsum(1))
        if labels is None:
            return Output(logits=logits)
        return Output(self.loss_of(logits, labels), logits)

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class Tagger(Causal):
    """A label for each token, not shifted."""

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Judge(Causal):
    """A class for each sample."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **more: Any
    ) -> Output:
        logits = self.outer(self.inner(input_ids).mean(1))
        return Output(None if labels is None else F.cross_entropy(logits, labels), logits)


class Scorer(Judge):
    """A number for each sample."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **more: Any
    ) -> Output:
        logits = self.outer(self.inner(input_ids).mean(1))[:, :1]
        return Output(None if labels is None else F.mse_loss(logits.squeeze(1), labels), logits)


class Odd(Causal):
    """Its loss is a mean over nothing that is known."""

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss_of(logits, labels).sqrt()


def rows(model: type[nn.Module], count: int, seed: int = 0) -> Dataset:
    """As a dataset of Hugging Face gives them, with uneven numbers of labels that count."""
    draws = torch.Generator().manual_seed(seed)
    found = []
    for number in range(count):
        tokens = torch.randint(1, VOCABULARY, (LENGTH,), generator=draws)
        labels = tokens.clone()
        labels[1 + (number * 5) % LENGTH :] = -100
        row: dict[str, Any] = {"input_ids": tokens, "attention_mask": torch.ones(LENGTH), "labels": labels}
        if model is Judge:
            row["labels"] = int(tokens[0]) % 3
        if model is Scorer:
            row["labels"] = float(tokens[0])
        found.append(row)
    return Dataset(found)


def recipe_of(model: type[nn.Module], **options: Any) -> Any:
    splits = Splits(rows(model, 22), rows(model, 9, seed=1))
    given: dict[str, Any] = {"model": model, "data": Of(splits), "batch": 8, "optimizer": "sgd", "lr": 0.3, "epochs": 2}
    return replace(SMALL, **given | options)


KINDS: dict[type[nn.Module], tuple[str, str]] = {
    Causal: ("labels after the first of each row", "loss"),
    Tagger: ("labels", "loss"),
    Judge: ("labels", "accuracy"),
    Scorer: ("samples", "loss"),
}


@pytest.mark.parametrize("model", KINDS)
def test_what_the_loss_is_a_mean_over_is_measured(model: type[nn.Module]) -> None:
    loop, kept, _ = begin(recipe_of(model))
    task = loop.parts.task
    assert isinstance(task, ModelLoss)
    assert (task.over, task.metric) == KINDS[model]
    assert task.exact
    assert any(f"a mean over {task.over} (measured)" in note for note in kept.notes)
    check_before_training(loop.parts)


@pytest.mark.parametrize("model", KINDS)
def test_accumulation_and_two_processes_give_the_run_of_the_large_batch(model: type[nn.Module]) -> None:
    recipe = recipe_of(model)
    whole, split = ran(recipe), ran(replace(recipe, accumulate=4))
    assert split.losses == pytest.approx(whole.losses, rel=1e-4)
    assert furthest(whole.weights, split.weights) < 1e-5
    first, _ = on_ranks(lambda _: ran(recipe).losses)
    assert first == pytest.approx(whole.losses, rel=1e-4)


def test_one_step_is_that_of_plain_pytorch() -> None:
    recipe = recipe_of(Causal, batch=22, epochs=1)
    over, (loop, _, _) = ran(recipe), begin(recipe)
    model = loop.parts.model
    batch = loop.parts.splits.train.fetch(torch.arange(22))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loss = model(**batch.inputs).loss
    loss.backward()
    optimizer.step()
    assert over.losses == pytest.approx([float(loss.detach())], rel=1e-5)
    assert furthest(model.state_dict(), over.weights) < 1e-6


@pytest.mark.parametrize("model", KINDS)
def test_an_evaluation_is_over_all_labels_that_count(model: type[nn.Module]) -> None:
    loop, _, _ = begin(recipe_of(model, evaluation_batch=2))
    valid = loop.parts.splits.valid
    assert valid is not None
    found = loop.validation.measure(loop.parts.model, valid)
    batch = valid.fetch(torch.arange(len(valid)))
    with torch.no_grad():
        output = loop.parts.model(**batch.inputs)
    assert found["loss"] == pytest.approx(float(output.loss), rel=1e-5)
    if model is Scorer:
        assert set(found) == {"loss"}
        return
    logits, labels = output.logits, batch.targets
    if model is Causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    counted = labels != -100
    assert found["accuracy"] == pytest.approx(float((logits.argmax(-1) == labels)[counted].float().mean()))


def test_a_loss_that_is_no_mean_is_reported_and_trained() -> None:
    over = ran(recipe_of(Odd))
    assert any("not a mean over labels or samples (measured)" in note for note in over.kept.notes)
    assert over.ending.reason == "finished"


def test_a_loss_of_ones_own_sees_the_output_as_it_is() -> None:
    def loss(output: Output, targets: Tensor) -> Tensor:
        assert output.logits is not None
        return F.cross_entropy(output.logits, targets, reduction="none")

    own = recipe_of(Judge, loss=loss, metrics={"hit": lambda output, targets: output.logits.argmax(1) == targets})
    loop, _, _ = begin(replace(own, accumulate=2))
    check_before_training(loop.parts)
    over = ran(own)
    assert over.losses == pytest.approx(ran(recipe_of(Judge)).losses, rel=1e-4)
    assert over.kept.values("hit", "valid") == ran(recipe_of(Judge)).kept.values("accuracy", "valid")


def test_targets_under_another_name_are_one_sentence() -> None:
    found = [{"input_ids": row["input_ids"], "label": row["labels"]} for row in rows(Judge, 9).samples]
    loop = Loop.of(recipe_of(Judge, data=Of(Splits(Dataset(found)))))
    with pytest.raises(BadData, match="name the targets of the batch 'labels'"):
        check_before_training(loop.parts)


class Named(nn.Module):
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return tokens * mask


class Whole(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["tokens"] * batch["mask"]


class Anything(nn.Module):
    def forward(self, *values: Any, **named: Any) -> Any:
        return values or named


@pytest.mark.parametrize(
    ("model", "inputs", "by_name"),
    [
        (Named(), {"tokens": 2, "mask": 3}, True),
        (Named(), {"tokens": 2, "mask": 3, "labels": 1}, True),
        (Whole(), {"tokens": 2, "mask": 3}, False),
        (Whole(), {"tokens": 2, "mask": 3, "labels": 1}, False),
        (Anything(), {"tokens": 2}, True),
        (Causal(), {"input_ids": 1, "token_type_ids": 2}, True),
        (Causal(), {"pixels": 1}, False),
    ],
)
def test_names_decide_how_a_model_is_called(model: nn.Module, inputs: dict[str, Any], by_name: bool) -> None:
    assert takes_names(model, inputs) is by_name
    if isinstance(model, Named | Whole):
        assert call_model(model, inputs) == 6
        assert call_model(lambda *given, **named: given or named, inputs, model) == (
            {"tokens": 2, "mask": 3} if by_name else (inputs,)
        )


def test_an_output_keeps_its_form() -> None:
    made = map_tensors(Output(torch.ones(()), torch.ones(2)), lambda tensor: tensor + 1)
    assert isinstance(made, Output)
    assert made.loss is not None
    assert float(made.loss) == 2.0
    assert made.logits is made["logits"]


def test_a_batch_without_labels_counts_samples() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, left: Tensor, right: Tensor) -> Output:
            return Output((self.layer(left) - self.layer(right)).square().mean() + self.layer(left).square().mean())

    samples = Dataset([{"left": torch.randn(3), "right": torch.randn(3)} for _ in range(10)])
    over = ran(replace(SMALL, model=Pairs, data=Of(Splits(samples)), batch=4))
    assert isinstance(over.loop.parts.task, ModelLoss)
    assert over.loop.parts.task.count_of(Batch({"left": torch.ones(4, 3)}, None)) == 4
    assert over.losses[-1] < over.losses[0]


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (torch.zeros(2, 5, VOCABULARY), torch.zeros(2, 4, dtype=torch.long)),  # a different length
        (torch.zeros(2, VOCABULARY), torch.zeros(2, 5, dtype=torch.long)),  # one answer for several labels
        (torch.zeros(2, 5, 1), torch.zeros(2, 5, dtype=torch.long)),  # a single score has no class
        (torch.zeros(2, 5, VOCABULARY), torch.zeros(2, 5)),  # numbers, not classes
    ],
)
def test_answers_that_do_not_fit_their_labels_have_no_accuracy(logits: Tensor, labels: Tensor) -> None:
    task = begin(recipe_of(next(iter(KINDS))))[0].parts.task
    assert isinstance(task, ModelLoss)
    assert task.sums == ("accuracy", "answers"), "it has one where they fit"
    assert task.measures(Output(logits=logits), labels) == {}
