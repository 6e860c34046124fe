"""The exported graph: what is free in it, what is fixed, and up to where."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import Tensor, nn

from tests.export.made import subject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.export.export_model import _fixed_lengths
from trueloop.export.trace import suppress_output, trace
from trueloop.results.artifact import Port


class Places(nn.Module):
    """Takes as many tokens as it has places."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(10, 4)
        self.places = nn.Embedding(6, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.vectors(tokens) + self.places.weight[: tokens.shape[1]]  # type: ignore[no-any-return]


class FixedLength(nn.Module):
    """Takes rows of one length only."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(10, 4)
        self.scores = nn.Linear(6 * 4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.vectors(tokens).flatten(1))
        return scores


def _tokens() -> Splits:
    tokens = torch.randint(0, 10, (8, 6), generator=torch.Generator().manual_seed(0))
    return Splits(Tensors(tokens, torch.zeros(8).long()), facts=Facts(classes=("a", "b", "c"), vocabulary=10))


def _ports(model: type[nn.Module], splits: Splits | None, limit: int | None = None) -> tuple[Port, ...]:
    made = subject(model, splits)
    program = made.program()
    return trace(program, made.example(program, inside=True), limit)[1]


def test_the_batch_is_free_and_has_no_limit() -> None:
    made = subject()
    program = made.program()
    (port,) = trace(program, made.example(program, inside=True))[1]
    assert port.shape == (None, 1, 3, 4)
    assert port.most == (None, None, None, None)


def test_a_graph_takes_one_sample_alone_and_many() -> None:
    made = subject()
    program = made.program()
    graph, _ = trace(program, made.example(program, inside=True))
    for size in (1, 2, 40):
        raw = made.fetch(torch.arange(size)).inputs
        assert torch.allclose(graph.module()(raw)[0], program.answer([raw])[0])


def test_the_length_of_rows_is_free_up_to_what_the_model_holds() -> None:
    (port,) = _ports(Places, _tokens())
    assert port.shape == (None, None)
    assert port.most == (None, 6)


def test_a_length_that_the_model_fixes_is_told() -> None:
    (port,) = _ports(FixedLength, _tokens())
    assert port.shape == (None, 6)
    made = subject(FixedLength, _tokens())
    given = made.example(made.program(), inside=True)
    assert _fixed_lengths(given, (port,)) == ["The length of input is fixed at 6: the model accepts no other."]


def test_a_target_that_plans_memory_gives_the_batch_a_limit() -> None:
    (port,) = _ports(Places, _tokens(), 16)
    assert port.most == (16, 6)


def test_exporters_chatter_is_not_heard(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress_output():
        print("a graph")
        print("another", file=sys.stderr)
        warnings.warn("of torch's own", FutureWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "")


def test_other_warnings_are_heard() -> None:
    with pytest.warns(UserWarning, match="of the user's"), suppress_output():
        warnings.warn("of the user's", UserWarning, stacklevel=1)
