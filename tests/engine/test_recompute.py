"""Activation checkpointing: the same numbers, less memory, the same names."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import CLASSES, SMALL, WIDTH, begin, plain, ran, same_bits
from trueloop.engine.recompute import blocks_of, recompute_blocks
from trueloop.errors import BadRecipe

BLOCKS = 4


class Block(nn.Module):
    """A residual block with everything that could go wrong when it is computed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 16))
        self.register_buffer("calls", torch.zeros(()))
        self.calls: Tensor

    def forward(self, inputs: Tensor, *, share: float = 1.0) -> Tensor:
        if self.training:
            self.calls += 1
        answer: Tensor = inputs + share * self.inner(inputs)
        return answer


class Drops(nn.Module):
    """Stochastic depth, drawn by Python and by numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.Tanh())

    def forward(self, inputs: Tensor, *, share: float = 1.0) -> Tensor:
        if random.random() < 0.4 or np.random.rand() < 0.2:
            return inputs * 1.0
        answer: Tensor = inputs + share * self.inner(inputs)
        return answer


class Net(nn.Module):
    def __init__(self, block: Any = Block) -> None:
        super().__init__()
        self.begin = nn.Linear(WIDTH, 16)
        self.blocks = nn.ModuleList(block() for _ in range(BLOCKS))
        self.end = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = self.begin(inputs)
        for block in self.blocks:
            inputs = block(inputs, share=0.5)
        answer: Tensor = self.end(inputs)
        return answer


def kept_bytes(model: nn.Module, inputs: Tensor) -> int:
    """What a forward keeps for its backward."""
    kept = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(inputs).sum()
    return kept


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("block", [Block, Drops])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_numbers_are_the_same(block: Any, precision: Any) -> None:
    recipe = replace(SMALL, model=lambda: Net(block), precision=precision, accumulate=2, clip=1.0)
    kept, again = ran(recipe), ran(replace(recipe, activation_checkpointing=True))
    assert kept.losses == again.losses
    assert kept.kept.values(kind="valid") == again.kept.values(kind="valid"), "running statistics are not counted twice"
    assert same_bits(kept.weights, again.weights), "names included"


def test_less_is_kept_for_the_backward() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(64, WIDTH)
    model = Net()
    before = kept_bytes(model, inputs)
    recompute_blocks(model)
    assert kept_bytes(model, inputs) < before / 2


def test_the_moving_average_has_blocks_of_its_own() -> None:
    recipe = replace(SMALL, model=Net, ema=0.9)
    kept, again = ran(recipe), ran(replace(recipe, activation_checkpointing=True))
    assert kept.loop.parts.ema is not None
    assert again.loop.parts.ema is not None
    assert same_bits(kept.loop.parts.ema.model.state_dict(), again.loop.parts.ema.model.state_dict())
    assert kept.kept.values(kind="valid") == again.kept.values(kind="valid")


def test_evaluation_computes_nothing_twice() -> None:
    model = Net()
    recompute_blocks(model)
    calls: list[int] = []
    model.blocks[0].inner.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    with torch.no_grad():
        model.eval()(torch.randn(4, WIDTH))
    assert len(calls) == 1


def test_blocks_are_the_outermost_repeated_parts() -> None:
    model = Net()
    assert blocks_of(model) == list(model.blocks)
    stages = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Block(), Block()), nn.ReLU())
    assert blocks_of(stages) == [stages[1]]
    assert len(blocks_of(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 3, enable_nested_tensor=False))) == 3
    shared = Block()
    assert blocks_of(nn.Sequential(shared, shared)) == [shared]


def test_a_model_without_blocks_is_told() -> None:
    with pytest.raises(BadRecipe, match=r"has none\. Nothing was run"):
        begin(replace(SMALL, model=plain, activation_checkpointing=True))


def test_a_batch_that_is_no_number_is_named_in_a_recomputed_model_too() -> None:
    class Fails(Net):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs / 0)

    over = ran(replace(SMALL, model=Fails, activation_checkpointing=True))
    assert over.ending.reason == "nonfinite"
    assert "The layer " in over.ending.message
