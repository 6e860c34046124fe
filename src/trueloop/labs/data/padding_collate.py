"""padding-collate: How do sequences of different length become one batch, and what does padding cost?

`collate_fn` makes a batch of samples. Sequences are padded to the longest of the batch, and a mask says which
positions are real: every mean, every attention and every loss must use it.

Exercise: write the collate function. It is checked on shapes, masks, types and empty sequences, and by a model that
must give the same answer with and without padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


def padded_share(lengths: Sequence[int], batch: int) -> float:
    """Share of the positions that hold padding, if batches are made in this order."""
    batches = [lengths[at : at + batch] for at in range(0, len(lengths), batch)]
    positions = sum(max(each) * len(each) for each in batches)
    return 1 - sum(lengths) / positions


def means(sequences: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Of each sequence: over all positions of the padded batch, and over the real ones."""
    padded = pad_sequence(sequences, batch_first=True)
    mask = torch.arange(padded.shape[1]) < torch.tensor([len(each) for each in sequences])[:, None]
    return padded.mean(1), (padded * mask).sum(1) / mask.sum(1)


@dataclass(frozen=True)
class Measured:
    random_order: float
    by_length: float
    to_the_longest_of_all: float
    naive_error: float
    masked_error: float


def measure() -> Measured:
    draws = torch.Generator().manual_seed(0)
    lengths = torch.randn(4096, generator=draws).mul(0.7).add(4).exp().int().clamp(1, 1024).tolist()
    longest = 1 - sum(lengths) / (max(lengths) * len(lengths))
    sequences = [torch.rand(length, generator=draws) for length in (3, 50, 7, 120)]
    exact = torch.stack([each.mean() for each in sequences])
    naive, masked = ((each - exact).abs().max().item() for each in means(sequences))
    return Measured(padded_share(lengths, 32), padded_share(sorted(lengths), 32), longest, naive, masked)


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("all padded to the longest of all", measured.to_the_longest_of_all),
        ("to the longest of the batch, random order", measured.random_order),
        ("to the longest of the batch, sorted by length", measured.by_length),
    ]
    page.table("4096 sequences, log-normal lengths, batches of 32", ("batches", "share of padding"), rows)
    errors = [("over all positions", measured.naive_error), ("over the mask", measured.masked_error)]
    page.table("Error of a mean over a padded sequence", ("mean", "largest error"), errors)
    page.says("Padded to the longest of all, most of a batch is padding.", measured.to_the_longest_of_all > 0.8)
    less = measured.random_order < measured.to_the_longest_of_all - 0.1
    page.says("Padding within each batch saves much of it, without any change of the order.", less)
    page.says("Batches of similar lengths have little: under 10%.", measured.by_length < 0.1)
    wrong = measured.naive_error > 0.1 and measured.masked_error < 1e-5
    page.says("A mean without the mask is wrong, with it exact to rounding.", wrong)


SKELETON = '''"""Write `collate`: a list of samples -> one batch.

A sample is (tokens, label): a LongTensor of any length, also 0, and an int. The batch is a dict:

    tokens   LongTensor [samples, longest], padded with `PADDING` behind the tokens
    mask     BoolTensor [samples, longest], True where a token is
    labels   LongTensor [samples]

0 is a token like others (so the mask must come from the lengths), the order of the samples stays, and the samples
themselves are not written.

    trueloop lab padding-collate THIS_FILE.py
"""

import torch

PADDING = 0


def collate(samples):
    raise NotImplementedError("write collate")
'''


def check(attempt: Attempt) -> None:
    collate = attempt.get("collate")
    draws = torch.Generator().manual_seed(0)
    lengths = (3, 1, 5, 0, 2)
    samples = [(torch.randint(0, 4, (length,), generator=draws), length % 3) for length in lengths]
    before = [tokens.clone() for tokens, _ in samples]
    batch: dict[str, Any] = collate(list(samples))
    keys = isinstance(batch, dict) and {"tokens", "mask", "labels"} <= set(batch)
    attempt.require("the batch is a dict of tokens, mask and labels", keys, "what does `collate` return?")
    tokens, mask, labels = batch["tokens"], batch["mask"], batch["labels"]
    shapes = tuple(tokens.shape) == tuple(mask.shape) == (5, 5)
    attempt.require("tokens and mask are [samples, longest]", shapes, "which length is the longest of this batch?")
    types = (tokens.dtype, mask.dtype, labels.dtype) == (torch.int64, torch.bool, torch.int64)
    attempt.expect("tokens are int64, the mask bool, labels int64", types, "give dtype= where you make a tensor")
    counts = mask.sum(1).tolist() == list(lengths) and all(mask[row, :n].all() for row, n in enumerate(lengths))
    hint = "0 is a token too: make the mask from the lengths, not from the values"
    attempt.expect("the mask is True for each token, and nowhere else", counts, hint)
    kept = all(torch.equal(tokens[row, :n], before[row]) for row, n in enumerate(lengths))
    attempt.expect("the tokens come first, in order", kept, "is padding behind the tokens, and are rows in order?")
    rest = all((tokens[row, n:] == 0).all() for row, n in enumerate(lengths))
    attempt.expect("the rest is padding", rest, "what fills the positions behind the tokens?")
    attempt.expect("labels are in order", labels.tolist() == [n % 3 for n in lengths], "one label for each sample")
    same = all(torch.equal(one, two[0]) for one, two in zip(before, samples, strict=True))
    attempt.expect("the samples are not written", same, "work on a new tensor: another epoch reads the samples again")
    table = torch.randn(4, 8, generator=draws)
    pooled = (table[tokens] * mask[..., None]).sum(1)
    alone = torch.stack([table[each].sum(0) for each in before])
    attempt.expect(
        "a masked model gives the same answer without padding", torch.allclose(pooled, alone, atol=1e-5), hint
    )
    single = collate([samples[3]])
    attempt.expect("one empty sequence is a batch [1, 0]", tuple(single["tokens"].shape) == (1, 0), "longest is 0 here")


LAB = Lab(code=(padded_share, means), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
