"""shakespeare: a GPT that learns to write Shakespeare, letter by letter, from one megabyte of plays; two minutes on a
GPU.

The text is its own token file: each byte is a token. `shakespeare-tiny` is the same for a CPU.
"""

from __future__ import annotations

from typing import Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.data.find import find_data
from trueloop.data.homes import TINY_SHAKESPEARE
from trueloop.data.source import Facts, Splits
from trueloop.data.tokens import Tokens, tokens_in
from trueloop.engine.unprojected import Unprojected
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["GPT", "network", "read", "read_blocks", "recipe"]

BLOCK: Final = 256
"""Letters that it sees at once."""
BYTES: Final = 256
"""Different tokens: every byte is one, so no text can hold an unknown one."""


def recipe() -> Recipe:
    return Recipe(
        name="shakespeare",
        model=network,
        data=read,
        task="language",
        optimizer="adamw",
        lr=1e-3,
        betas=(0.9, 0.99),
        weight_decay=0.1,
        schedule="cosine",
        warmup=100,
        final=0.05,
        steps=2500,
        batch=64,
        clip=1.0,
        precision="bf16",
        evaluate_every=250,
    )


def network(facts: Facts) -> nn.Module:
    return GPT(facts.vocabulary, block=BLOCK, depth=6, heads=6, width=384, dropout=0.2)


def read(request: DataRequest) -> Splits:
    return read_blocks(request, BLOCK)


def read_blocks(request: DataRequest, block: int) -> Splits:
    """The first nine tenths to learn from, at every beginning; the rest to validate, side by side."""
    text = find_data(TINY_SHAKESPEARE, request)["input.txt"]
    letters = tokens_in(text)
    cut = letters * 9 // 10
    return Splits(
        train=Tokens(text, block, last=cut, stride=1),
        valid=Tokens(text, block, first=cut),
        facts=Facts(inputs=(block,), vocabulary=BYTES, more={"text": {"encoding": "bytes"}}),
        notes=(f"{cut:,} letters to learn from, the {letters - cut:,} that follow to validate; read from {text}",),
    )


@final
class GPT(nn.Module):
    """Tokens [N, T] -> scores of the next token [N, T, vocabulary]; each place sees those before it and itself.

    `unprojected`: in training mode it answers `Unprojected`, so that the scores of a large vocabulary are never held
    all at once.
    `narrow`: under autocast the stream that the blocks add to is of autocast's type, too; else of the weights'.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        block: int,
        depth: int,
        heads: int,
        width: int,
        dropout: float,
        unprojected: bool = False,
        narrow: bool = False,
    ) -> None:
        super().__init__()
        self.unprojected, self.narrow = unprojected, narrow
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(block, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(heads, width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        self.scores.weight = self.tokens.weight  # one vector per token, to read and to write it
        self._begin_small(depth)

    def forward(self, tokens: Tensor) -> Tensor | Unprojected:
        stream: Tensor = self.dropout(self.tokens(tokens) + self.places.weight[: tokens.shape[1]])
        if self.narrow and torch.is_autocast_enabled(stream.device.type):
            stream = stream.to(torch.get_autocast_dtype(stream.device.type))
        for block in self.blocks:
            stream = block(stream)
        hidden: Tensor = self.norm(stream)
        if self.unprojected and self.training:
            return Unprojected(hidden, self.scores.weight)
        scores: Tensor = self.scores(hidden)
        return scores

    def _begin_small(self, depth: int) -> None:
        """What the blocks add to the stream begins smaller, the more of them there are: so it begins as wide as with
        one."""
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                added = name.endswith(("attention.out.weight", "think.2.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if added else 0.02)


@final
class _Block(nn.Module):
    """Look back, then think."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_thinking = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(heads, width, dropout)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, stream: Tensor) -> Tensor:
        stream = stream + self.attention(self.before_attention(stream))
        thought: Tensor = self.think(self.before_thinking(stream))
        return stream + thought


@final
class _Attention(nn.Module):
    """Every place asks all places up to itself."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.drop = heads, dropout
        self.ask = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, stream: Tensor) -> Tensor:
        parts = self.ask(stream).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind(0)
        seen = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, dropout_p=self.drop if self.training else 0.0
        )
        answer: Tensor = self.dropout(self.out(seen.transpose(1, 2).flatten(2)))
        return answer
