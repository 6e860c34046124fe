"""split-attention: How do two ranks compute attention over one sequence, each with half of its keys?

Softmax needs all scores, and each rank has half of them. It is enough to exchange a result and one number for each
query: the logarithm of the sum of exponentials, from which the weight of each half follows. Ring attention and
attention in tiles (FlashAttention) are built on this.

Exercise: write the attention over one part, and the merge of two parts.
"""

import runpy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page
from trueloop.labs.on_ranks import on_ranks

__all__ = ["LAB"]

SHAPE = 2, 4, 64, 16
"""batch, heads, tokens, width of a head"""


def sequence(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    draws = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(SHAPE, generator=draws) for _ in range(3))
    return q * scale, k * scale, v


def split_by_heads(rank: int) -> Tensor:
    """Heads never meet within attention: each rank takes half of them. Only the results are gathered."""
    q, k, v = (each.chunk(2, dim=1)[rank] for each in sequence())
    mine = scaled_dot_product_attention(q, k, v).contiguous()
    parts = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(parts, mine)
    return torch.cat(parts, dim=1)


def split_by_keys_and_averaged(rank: int) -> Tensor:
    """Wrong: each half has its own softmax, and an average gives both halves the same weight."""
    q, k, v = sequence()
    mine = scaled_dot_product_attention(q, k.chunk(2, dim=2)[rank], v.chunk(2, dim=2)[rank]).contiguous()
    dist.all_reduce(mine)
    return mine / 2


def _both(rank: int) -> tuple[Tensor, Tensor]:
    return split_by_heads(rank), split_by_keys_and_averaged(rank)


def measure() -> dict[str, Any]:
    whole = scaled_dot_product_attention(*sequence())
    ranks = on_ranks(_both)
    largest = {
        name: max((each[at] - whole).abs().max().item() for each in ranks)
        for at, name in enumerate(("by heads", "by keys, averaged"))
    }
    batch, heads, tokens, width = SHAPE
    keys_and_values = 2 * batch * heads * tokens // 2 * width
    return {
        "largest": whole.abs().max().item(),
        "error": largest,
        "numbers_to_gather_keys": keys_and_values,
        "numbers_to_merge": batch * heads * tokens * (width + 1),
        "numbers_to_merge_one_query": batch * heads * (width + 1),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    rows = [(name, error) for name, error in measured["error"].items()]
    page.table("Largest error, against attention on one rank", ("split", "error"), rows)
    sent = [
        ("keys and values of the other rank", measured["numbers_to_gather_keys"]),
        ("result and log-sum for each query", measured["numbers_to_merge"]),
        ("the same for one new token", measured["numbers_to_merge_one_query"]),
    ]
    page.table("Numbers that a rank must get", ("what", "numbers"), sent)
    exact = measured["error"]["by heads"] < 1e-5
    page.says("Split by heads, attention needs no exchange inside: the result is that of one rank.", exact)
    wrong = measured["error"]["by keys, averaged"] > 0.01 * measured["largest"]
    page.says("Split by keys, an average of both results is wrong: the halves have different weights.", wrong)
    small = measured["numbers_to_merge_one_query"] * 20 < measured["numbers_to_gather_keys"]
    page.says("A new token needs one vector and one number per head, however long the sequence is.", small)


SKELETON = '''"""Attention over keys that are split over ranks. Shapes: [batch, heads, tokens, width].

    part(q, k, v)                   attention of all queries over these keys only, and the logarithm of the
                                    sum of exponentials of the scores: (out [b, h, q, w], log_sum [b, h, q])
    merge(out0, log0, out1, log1)   attention over both parts: out

A score is q . k / sqrt(width). The weight of a part is its sum of exponentials over that of both parts.
Scores may be large (500): no exp of them, or of a log_sum, may overflow. torch.logsumexp and torch.softmax
are allowed, and so is torch.sigmoid.

    trueloop lab split-attention THIS_FILE.py
"""

import torch


def part(q, k, v):
    raise NotImplementedError("write part")


def merge(out0, log0, out1, log1):
    raise NotImplementedError("write merge")
'''


def _attempted(rank: int, file: str, scale: float) -> Tensor:
    theirs = runpy.run_path(file)
    q, k, v = sequence(scale)
    mine = theirs["part"](q, k[:, :, rank * 24 :][:, :, : 24 + 16 * rank], v[:, :, rank * 24 :][:, :, : 24 + 16 * rank])
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, mine)
    merged: Tensor = theirs["merge"](*gathered[0], *gathered[1])
    return merged


def check(attempt: Attempt) -> None:
    part, _ = attempt.get("part"), attempt.get("merge")
    q, k, v = sequence()
    out, log_sum = part(q, k, v)
    attempt.require("log_sum has one number per query", log_sum.shape == q.shape[:-1], "sum over keys, not over width")
    right = torch.allclose(out, scaled_dot_product_attention(q, k, v), atol=1e-5)
    attempt.expect("part over all keys is attention", right, "divide the scores by the root of the width")
    scores = (q @ k.mT) / SHAPE[-1] ** 0.5
    log = torch.allclose(log_sum, scores.logsumexp(-1), atol=1e-4)
    attempt.expect("log_sum is the log of the sum of exponentials", log, "of the scores: with the root of the width")
    for scale, hint in (
        (1.0, "the parts have 24 and 40 keys: which share of all exponentials does each have?"),
        (12.0, "exp of a large score overflows: subtract the larger log_sum before exp, or take a sigmoid"),
    ):
        whole = scaled_dot_product_attention(*sequence(scale))
        merged = on_ranks(_attempted, attempt.module.__file__, scale)
        error = max((each - whole).abs().nan_to_num(9e9).max().item() for each in merged)
        what = f"on two ranks, attention is that of one rank (inputs times {scale:g})"
        attempt.expect(what, error < 1e-4, hint, f"largest error {error:.2g}")


LAB = Lab(
    code=(split_by_heads, split_by_keys_and_averaged),
    measure=measure,
    answer=answer,
    exercise=Exercise(SKELETON, check),
)
