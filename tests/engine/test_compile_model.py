"""A compiled model: the same names in checkpoints, the same run, and a sentence where torch cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import CLASSES, SMALL, WIDTH, begin, ran, same_bits, with_dropout, with_parts
from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Memory
from trueloop.engine.train import train
from trueloop.errors import BadRecipe


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything of torch.compile but the code it writes, which takes half a minute."""
    real = torch.compile

    def eager(model: Any, *, mode: Any = None, dynamic: Any = None, fullgraph: bool = False) -> Any:
        return real(model, backend="eager", dynamic=dynamic, fullgraph=fullgraph)

    monkeypatch.setattr(torch, "compile", eager)
    yield
    torch._dynamo.reset()


COMPILED = replace(SMALL, compile="default", model=with_dropout)


def test_a_compiled_run_is_the_same_run_with_the_same_names() -> None:
    plain, compiled = ran(replace(COMPILED, compile="off")), ran(COMPILED)
    assert type(compiled.loop.parts.forward).__name__ == "OptimizedModule"
    assert compiled.losses == pytest.approx(plain.losses, abs=1e-6)
    assert compiled.weights.keys() == plain.weights.keys()
    contents = read_contents(compiled.store, compiled.store.names()[-1])
    assert set(contents.weights["model"]) == set(plain.weights)


def test_a_compiled_run_is_resumed_and_goes_on_without_being_compiled() -> None:
    whole, store = ran(COMPILED), Memory()
    cut, _, _ = begin(replace(COMPILED, save_every=1), store)
    cut = with_parts(cut, total_steps=5)
    train(cut)
    resumed = ran(COMPILED, store, go_on=True)
    assert same_bits(resumed.weights, whole.weights)
    eager = ran(replace(COMPILED, compile="off"), store, go_on=True)
    assert eager.ending.reason == "finished"


class Breaks(nn.Module):
    """Asks Python in the middle, which no single graph can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        answer: Tensor = self.layer(inputs)
        return answer


def test_a_model_that_is_not_one_graph_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadRecipe, match=r"torch cannot compile this model: .*compile_fullgraph=false"):
        ran(replace(COMPILED, model=Breaks, compile_fullgraph=True))
    assert ran(replace(COMPILED, model=Breaks)).ending.reason == "finished"


def test_an_error_of_the_models_own_stays_its_own() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ran(replace(SMALL, model=Fails))
