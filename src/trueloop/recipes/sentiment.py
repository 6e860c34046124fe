"""sentiment: does a sentence praise a film? 10,662 sentences of reviews, and nothing learned elsewhere; seconds on a
CPU."""

from __future__ import annotations

from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.data.find import find_data
from trueloop.data.homes import MOVIE_REVIEWS
from trueloop.data.source import Facts, Splits
from trueloop.data.split import split_numbers
from trueloop.data.tensors import Tensors
from trueloop.data.text import PADDING, Vocabulary, padded_rows, read_lines
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["BagOfWords", "network", "read", "recipe"]

BUCKETS: Final = 2**16
"""Numbers that pairs and pieces of words share."""
WIDTH: Final = 16
"""Of the vectors that words become."""


def recipe() -> Recipe:
    return Recipe(
        name="sentiment",
        model=network,
        data=read,
        task="binary",
        optimizer="adamw",
        lr=3e-3,
        schedule="linear",
        epochs=8,
        batch=64,
        log_every=100,
    )


def network(facts: Facts) -> nn.Module:
    return BagOfWords(facts.vocabulary)


def read(request: DataRequest) -> Splits:
    """A tenth to validate, a tenth to test, drawn by the seed of the run: among a thousand sentences, which they are
    makes 3 %."""
    files = find_data(MOVIE_REVIEWS, request)
    against, praise = (read_lines(files[name], "latin-1") for name in ("rt-polarity.neg", "rt-polarity.pos"))
    lines, labels = [*against, *praise], torch.tensor([0] * len(against) + [1] * len(praise))
    train, valid, test = split_numbers(len(lines), request.seed, labels, valid=0.1, test=0.1)
    vocabulary = Vocabulary.of((lines[number] for number in train.tolist()), buckets=BUCKETS)
    table = padded_rows([vocabulary.row(line) for line in lines])
    return Splits(
        train=Tensors(table[train], labels[train]),
        valid=Tensors(table[valid], labels[valid]),
        test=Tensors(table[test], labels[test]),
        facts=Facts(
            (table.shape[1],), ("against", "praise"), vocabulary=len(vocabulary), more={"text": vocabulary.plain()}
        ),
        notes=(
            f"{len(train):,} sentences to learn from, {len(valid):,} to validate, {len(test):,} to test; drawn by the seed {request.seed}",
            f"{len(vocabulary.numbers):,} words of the training sentences; pairs and pieces of words in {BUCKETS:,} buckets",
        ),
    )


@final
class BagOfWords(nn.Module):
    """The sum of the vectors of all words and parts, in whatever order they stand, over the root of their number; half
    of them are left out at random while it learns."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(vocabulary, WIDTH, mode="sum")
        nn.init.normal_(self.vectors.weight, std=0.1)
        self.leave_out = nn.Dropout(0.5)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(WIDTH, 1))

    def forward(self, rows: Tensor) -> Tensor:
        there = (rows != PADDING).float()
        weights = self.leave_out(there / there.sum(1, keepdim=True).clamp(min=1).sqrt())
        scores: Tensor = self.head(self.vectors(rows, per_sample_weights=weights))
        return scores.squeeze(1)
