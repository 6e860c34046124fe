"""A Llama-like model in its published sizes, for plans: `trueloop plan benchmarks/llama.py --set size=8B ...`.

    trueloop plan benchmarks/llama.py --gpus 64 --gpu-type h100 --input 8192:int64 --set size=70B

Nothing is trained with it here: no GPU of this project holds its states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest, Recipe

VOCABULARY = 128_256


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    heads: int
    inner: int
    key_heads: int = 8


SIZES = {
    "8B": Size(4096, 32, 32, 14_336),
    "70B": Size(8192, 80, 64, 28_672),
    "405B": Size(16_384, 126, 128, 53_248),
}


class Attention(nn.Module):
    """Grouped queries: several heads share their keys and values."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.key_heads, self.each = size.heads, size.key_heads, size.width // size.heads
        self.query = nn.Linear(size.width, size.width, bias=False)
        self.key = nn.Linear(size.width, self.key_heads * self.each, bias=False)
        self.value = nn.Linear(size.width, self.key_heads * self.each, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        rows, places, width = inputs.shape
        query = self.query(inputs).view(rows, places, self.heads, self.each).transpose(1, 2)
        key, value = (
            layer(inputs).view(rows, places, self.key_heads, self.each).transpose(1, 2)
            for layer in (self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        answer: Tensor = self.out(mixed.transpose(1, 2).reshape(rows, places, width))
        return answer


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = Attention(size)
        self.gate = nn.Linear(size.width, size.inner, bias=False)
        self.up = nn.Linear(size.width, size.inner, bias=False)
        self.down = nn.Linear(size.inner, size.width, bias=False)
        self.before, self.between = nn.RMSNorm(size.width), nn.RMSNorm(size.width)

    def forward(self, inputs: Tensor) -> Tensor:
        mixed = inputs + self.attention(self.before(inputs))
        inner = self.between(mixed)
        answer: Tensor = mixed + self.down(F.silu(self.gate(inner)) * self.up(inner))
        return answer


class Llama(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens)
        for block in self.blocks:
            stream = block(stream)
        scores: Tensor = self.head(self.norm(stream))
        return scores


def read(request: DataRequest) -> Splits:
    """One sequence of nothing: plans are made with --input."""
    tokens = torch.zeros(4, 9, dtype=torch.int64)
    return Splits(Tensors(tokens[:, :-1], tokens[:, 1:]))


SPLIT = {
    **{f"blocks.*.attention.{name}": "column" for name in ("query", "key", "value")},
    "blocks.*.attention.out": "row",
    "blocks.*.gate": "column",
    "blocks.*.up": "column",
    "blocks.*.down": "row",
}
"""Layers that tp splits."""


def recipe(size: str = "8B") -> Recipe:
    return Recipe(
        name=f"llama-{size}",
        model=partial(Llama, SIZES[size]),
        data=read,
        task="language",
        steps=100,
        batch=64,
        precision="bf16",
        tensor_plan=SPLIT,
    )
