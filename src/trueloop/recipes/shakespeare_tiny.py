"""shakespeare-tiny: a small shakespeare; one or two minutes on a CPU"""

from dataclasses import replace
from typing import Final

from torch import nn

from trueloop.data.source import Facts, Splits
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes import shakespeare

__all__ = ["network", "read", "recipe"]

BLOCK: Final = 64  # Context length


def recipe() -> Recipe:
    return replace(
        shakespeare.recipe(),
        name="shakespeare-tiny",
        model=network,
        data=read,
        steps=1000,
        batch=16,
        lr=2e-3,
        precision="fp32",
    )


def network(facts: Facts) -> nn.Module:
    return shakespeare.GPT(facts.vocabulary, block=BLOCK, depth=4, heads=4, width=128, dropout=0.0)


def read(request: DataRequest) -> Splits:
    return shakespeare.read_blocks(request, BLOCK)
