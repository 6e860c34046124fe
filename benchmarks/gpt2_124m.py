"""GPT-2 124M as a recipe, for `trueloop tune benchmarks/gpt2_124m.py --data DIR`: 16 x 1024 bytes of Shakespeare a
step, in fp32, eager.

The vocabulary has GPT-2's 50,304 entries, of which a text of bytes uses 256: what a step computes is the same.
"""

from __future__ import annotations

from torch import nn

from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.shakespeare import GPT, read_blocks

BLOCK = 1024


def network() -> nn.Module:
    return GPT(50304, block=BLOCK, depth=12, heads=12, width=768, dropout=0.0, unprojected=True)


def read(request: DataRequest) -> Splits:
    return read_blocks(request, BLOCK)


recipe = Recipe(
    name="gpt2-124m", model=network, data=read, task="language", optimizer="adamw", lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1,  # noqa: E501
    schedule="cosine", warmup=4, steps=1000, batch=16, clip=1.0, log_every=20,
)  # fmt: skip
