"""What a model holds, and what goes through it; and that looking leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.inspection.layers import shape_in_words
from trueloop.inspection.model import inspect_model
from trueloop.results.document import Document, Facts, Table


class Tied(nn.Module):
    """Tied weights, a frozen layer, a buffer that is not saved, a layer that is called twice and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.twice = nn.Linear(4, 4)
        self.scores = nn.Linear(4, 7, bias=False)
        self.scores.weight = self.tokens.weight
        self.idle = nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("mask", torch.ones(3), persistent=False)
        self.drop = nn.Dropout(0.5)

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        inner = self.twice(self.twice(self.drop(self.norm(self.tokens(batch["ids"]).sum(1)))))
        return self.scores(inner), inner


BATCH = {"ids": torch.zeros(5, 3, dtype=torch.int64)}


def table(sheet: Document, title: str) -> dict[str, dict[str, Any]]:
    part = next(part for part in sheet.parts if isinstance(part, Table) and part.title == title)
    names = [column.name for column in part.columns]
    return {row[0]: dict(zip(names, row, strict=True)) for row in part.rows}


def test_every_name_is_listed_with_what_it_shares() -> None:
    rows = table(inspect_model(Tied()), "Parameters and buffers")
    assert rows["tokens.weight"]["tied with"] == ("scores.weight",)
    assert rows["scores.weight"]["tied with"] == ("tokens.weight",)
    assert rows["twice.weight"]["tied with"] == ()
    assert rows["idle.weight"]["trainable"] is False
    assert rows["twice.weight"]["trainable"] is True
    assert rows["mask"]["kind"] == "buffer, not saved"
    assert (rows["norm.running_mean"]["kind"], rows["norm.running_mean"]["trainable"]) == ("buffer", None)
    assert (rows["twice.weight"]["shape"], rows["twice.weight"]["elements"]) == ((4, 4), 16)


def test_what_is_tied_counts_once() -> None:
    facts = inspect_model(Tied()).parts[0]
    assert isinstance(facts, Facts)
    assert facts.values["parameters"] == "62 elements in 7 tensors"
    assert facts.values["trainable"] == "56; 6 are frozen"


def test_a_view_of_another_parameter_is_tied_too_and_meta_tensors_are_not() -> None:
    model = nn.Linear(3, 3)
    model.register_buffer("part", model.weight.data[0])
    assert table(inspect_model(model), "Parameters and buffers")["part"]["tied with"] == ("weight",)
    rows = table(
        inspect_model(nn.Sequential(nn.Linear(2, 2, device="meta"), nn.Linear(2, 2, device="meta"))),
        "Parameters and buffers",
    )
    assert all(row["tied with"] == () for row in rows.values())
    assert rows["0.weight"]["device"] == "meta"


def test_shapes_come_in_the_order_of_the_calls() -> None:
    rows = table(inspect_model(Tied(), BATCH), "Shapes through the layers")
    assert list(rows) == ["(the model)", "tokens", "norm", "drop", "twice", "scores"]
    assert rows["(the model)"]["inputs"] == "{ids: 5x3 int64}"
    assert rows["(the model)"]["outputs"] == "(5x7, 5x4)"
    assert (rows["twice"]["calls"], rows["twice"]["parameters"]) == (2, 20)
    assert rows["tokens"]["outputs"] == "5x3x4"


def test_layers_that_were_not_called_are_remarked() -> None:
    notes = inspect_model(Tied(), BATCH).notes
    assert [note for note in notes if "idle" in note]
    assert not any("drop" in note for note in notes)


def test_looking_leaves_no_trace() -> None:
    model = Tied().train()
    model.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    randoms = torch.get_rng_state()
    inspect_model(model, BATCH)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not model.norm.training
    assert torch.equal(torch.get_rng_state(), randoms)
    assert not model.twice._forward_hooks
    assert not model.twice._forward_pre_hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_hooks_go_also_when_the_model_fails() -> None:
    model = Tied()
    with pytest.raises(KeyError):
        inspect_model(model, {"words": BATCH["ids"]})
    assert not model._forward_pre_hooks


def test_a_model_with_nothing_to_learn_is_remarked() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    assert "no parameters" in inspect_model(Listed()).notes[0]
    assert "No parameter is trainable" in inspect_model(nn.Linear(2, 2).requires_grad_(False)).notes[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(()), "scalar"),
        ([torch.zeros(2, 3)], "2x3"),
        ((torch.zeros(1), None), "(1, -)"),
        (torch.zeros(2, dtype=torch.bfloat16), "2 bfloat16"),
        (object(), "object"),
    ],
)
def test_shapes_in_words(value: Any, words: str) -> None:
    assert shape_in_words(value) == words
