"""shakespeare: a GPT on 1 MB of plays, byte by byte; two minutes on a GPU

Each byte of the text is a token. `shakespeare-tiny` is the same for a CPU.
"""

from typing import Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from trueloop.data.find import find_data
from trueloop.data.homes import TINY_SHAKESPEARE
from trueloop.data.source import Facts, Splits
from trueloop.data.tokens import Tokens, tokens_in
from trueloop.engine.unprojected import Unprojected
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["GPT", "network", "read", "read_blocks", "recipe"]

KeysAndValues = tuple[Tensor, Tensor]
BLOCK: Final = 256  # Context length
BYTES: Final = 256  # Tokens: every byte is one, so that no text has an unknown token


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
        warmup=0.04,
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
    """The first nine tenths for training, a sample at every position; the rest for validation, without overlap."""
    text = find_data(TINY_SHAKESPEARE, request)["input.txt"]
    length = tokens_in(text)
    cut = length * 9 // 10
    return Splits(
        train=Tokens(text, block, last=cut, stride=1),
        valid=Tokens(text, block, first=cut),
        facts=Facts(inputs=(block,), vocabulary=BYTES, more={"text": {"encoding": "bytes"}}),
        notes=(f"{cut:,} characters for training, the next {length - cut:,} for validation; from {text}",),
    )


@final
class GPT(nn.Module):
    """Tokens [N, T] -> logits of the next token [N, T, vocabulary]; causal.

    `unprojected`: in training mode it returns `Unprojected`, so that the logits of a large vocabulary are never all in
    memory.
    `narrow`: under autocast the residual stream has autocast's dtype, too; otherwise that of the weights.
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
        self.positions = nn.Embedding(block, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(heads, width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        self.scores.weight = self.tokens.weight  # tied
        self._initialize(depth)

    def forward(self, tokens: Tensor) -> Tensor | Unprojected:
        stream = self._stream(tokens, 0)
        for block in self.blocks:
            stream = block(stream)
        hidden: Tensor = self.norm(stream)
        if self.unprojected and self.training:
            return Unprojected(hidden, self.scores.weight)
        scores: Tensor = self.scores(hidden)
        return scores

    def forward_cached(self, tokens: Tensor, cache: list[KeysAndValues] | None) -> tuple[Tensor, list[KeysAndValues]]:
        """Scores of these tokens, which follow those in the cache (None: the text begins), and the cache with them."""
        kept: list[KeysAndValues] = []
        stream = self._stream(tokens, cache[0][0].shape[2] if cache else 0)
        for number, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            stream, seen = block.forward_cached(stream, cache[number] if cache else None)
            kept.append(seen)
        return self.scores(self.norm(stream)), kept

    def empty_cache(self, texts: int) -> list[KeysAndValues]:
        """For `forward_ragged`: room for this number of texts, each as long as the context."""
        weight = self.positions.weight
        kept: list[KeysAndValues] = []
        for block in self.blocks:
            assert isinstance(block, _Block)
            heads = block.attention.heads
            shape = (texts, heads, weight.shape[0], weight.shape[1] // heads)
            kept.append((weight.new_zeros(shape), weight.new_zeros(shape)))
        return kept

    def forward_ragged(self, tokens: Tensor, cache: list[KeysAndValues], lengths: Tensor) -> Tensor:
        """Scores [N, vocabulary] after one more token [N] of each of N texts of different `lengths` [N]. The first N
        rows of the cache hold their earlier tokens, and then the new ones too."""
        stream = self.tokens(tokens)[:, None] + self.positions(lengths)[:, None]
        if self.narrow and torch.is_autocast_enabled(stream.device.type):
            stream = stream.to(torch.get_autocast_dtype(stream.device.type))
        longest = int(lengths.max()) + 1
        visible = torch.arange(longest, device=lengths.device) <= lengths[:, None]
        for block, (keys, values) in zip(self.blocks, cache, strict=True):
            assert isinstance(block, _Block)
            stream = block.forward_ragged(stream, keys, values, lengths, visible[:, None, None])
        scores: Tensor = self.scores(self.norm(stream))[:, 0]
        return scores

    def _stream(self, tokens: Tensor, begin: int) -> Tensor:
        """`begin`: the position of the first token."""
        positions = self.positions.weight[begin : begin + tokens.shape[1]]
        stream: Tensor = self.dropout(self.tokens(tokens) + positions)
        if self.narrow and torch.is_autocast_enabled(stream.device.type):
            stream = stream.to(torch.get_autocast_dtype(stream.device.type))
        return stream

    def _initialize(self, depth: int) -> None:
        """The residual branches start smaller with depth, so that the variance of the stream does not grow."""
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith(("attention.out.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if residual else 0.02)


@final
class _Block(nn.Module):
    """Attention, then an MLP."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(heads, width, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, stream: Tensor) -> Tensor:
        stream = stream + self.attention(self.norm_1(stream))
        out: Tensor = stream + self.mlp(self.norm_2(stream))
        return out

    def forward_cached(self, stream: Tensor, before: KeysAndValues | None) -> tuple[Tensor, KeysAndValues]:
        added, seen = self.attention.forward_cached(self.norm_1(stream), before)
        stream = stream + added
        return stream + self.mlp(self.norm_2(stream)), seen

    def forward_ragged(self, stream: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, visible: Tensor) -> Tensor:
        stream = stream + self.attention.forward_ragged(self.norm_1(stream), keys, values, lengths, visible)
        out: Tensor = stream + self.mlp(self.norm_2(stream))
        return out


@final
class _Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.drop = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, stream: Tensor) -> Tensor:
        queries, keys, values = self._parts(stream)
        seen = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, dropout_p=self.drop if self.training else 0.0
        )
        out: Tensor = self.dropout(self.out(seen.transpose(1, 2).flatten(2)))
        return out

    def forward_cached(self, stream: Tensor, before: KeysAndValues | None) -> tuple[Tensor, KeysAndValues]:
        """For generation, in eval mode. Keys and values [N, heads, T, width of a head]."""
        queries, keys, values = self._parts(stream)
        if before is not None:
            keys, values = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
        length, total = queries.shape[2], keys.shape[2]
        visible = torch.ones(length, total, dtype=torch.bool, device=stream.device).tril(total - length)
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)
        return self.out(seen.transpose(1, 2).flatten(2)), (keys, values)

    def forward_ragged(self, stream: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, visible: Tensor) -> Tensor:
        """One token of each text; its key and value are written behind those of its text."""
        queries, key, value = self._parts(stream)
        rows, longest = torch.arange(len(lengths), device=lengths.device), visible.shape[-1]
        keys[rows, :, lengths] = key[:, :, 0].to(keys.dtype)
        values[rows, :, lengths] = value[:, :, 0].to(values.dtype)
        keys, values = (kept[: len(rows), :, :longest].to(queries.dtype) for kept in (keys, values))
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)
        out: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return out

    def _parts(self, stream: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values."""
        return self.qkv(stream).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)  # type: ignore[no-any-return]
