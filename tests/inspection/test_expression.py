"""Tensors given as expressions: each step, the flat index, and the storage as boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trueloop.errors import Misuse
from trueloop.inspection.expression import is_expression, tensor_steps
from trueloop.inspection.storage_boxes import draw_storage, flat_index
from trueloop.inspection.tensor import inspect_tensor
from trueloop.results.document import Code, Facts

BOXES = """\
flat index     0     1     2     3     4     5
            ┌─────┬─────┬─────┬─────┬─────┬─────┐
value       │  0  │  1  │  2  │  3  │  4  │  5  │
            └─────┴─────┴─────┴─────┴─────┴─────┘
element       0,0   1,0   2,0   0,1   1,1   2,1"""


def test_a_transposed_view() -> None:
    sheet = inspect_tensor("torch.arange(6).view(2,3).t()")
    (boxes,) = [part for part in sheet.parts if isinstance(part, Code)]
    assert boxes.text == BOXES
    (layout, *_) = [part.values for part in sheet.parts if isinstance(part, Facts)]
    assert layout["flat index"] == "[i0, i1] is at 0 + i0*1 + i1*3; the last element [2, 1] is at 5"
    assert layout["view of"] == "a tensor of shape (6,), stride (1,)"


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        ("torch.arange(6).view(2, 3).t()", ["torch.arange(6): new", ".view(2, 3): view", ".t(): view"]),
        ("torch.ones(2, 3).t().contiguous()", ["torch.ones(2, 3): new", ".t(): view", ".contiguous(): copy"]),
        ("torch.ones(4).contiguous()", ["torch.ones(4): new", ".contiguous(): the same tensor: nothing"]),
        ("torch.ones(4).add_(1)", ["torch.ones(4): new", ".add_(1): the same tensor, written"]),
        ("torch.ones(4)[1:].exp()", ["torch.ones(4): new", "[1:]: view", ".exp(): new"]),
        ("torch.ones(2, 3).T", ["torch.ones(2, 3): new", ".T: view"]),
        ("torch.nn.functional.relu(torch.ones(2))", ["torch.nn.functional.relu(torch.ones(2)): new"]),
        ("torch.t(torch.ones(2, 3))", ["torch.t(torch.ones(2, 3)): view of a tensor inside"]),
        ("torch.eye(2).to_sparse()", ["torch.eye(2): new", ".to_sparse(): new"]),
        ("torch.sort(torch.ones(2))[0]", ["torch.sort(torch.ones(2))[0]: new"]),
    ],
)
def test_each_step_is_a_view_or_a_copy(word: str, steps: list[str]) -> None:
    found = tensor_steps(word)
    assert len(found) == len(steps)
    for step, said in zip(found, steps, strict=True):
        assert f"{step.text}: {step.what}".startswith(said)
    assert inspect_tensor(word).title == word


def test_each_step_is_evaluated_once() -> None:
    torch.manual_seed(0)
    steps = tensor_steps("torch.randn(4).view(2, 2).t().reshape(4)")
    after = torch.randn(1)
    torch.manual_seed(0)
    once = torch.randn(4)
    assert torch.equal(once.view(2, 2).t().reshape(4), steps[-1].tensor)
    assert torch.equal(after, torch.randn(1))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("np.ones(3)", "Only `torch` is known"),
        ("torch.ones(3", "neither a file nor a Python expression"),
        ("torch.ones(2) @ torch.ones(3)", "raises RuntimeError"),
        ("torch.ones(2).nope()", "raises AttributeError"),
        ("torch.ones(2).sum().item()", "gives a float, not a tensor"),
        ("torch.float32", "gives a dtype"),
        ("torch.sort(torch.ones(2))", "gives 2 values"),
        ("exit()", "raises SystemExit"),
    ],
)
def test_mistakes_are_one_sentence(word: str, said: str) -> None:
    with pytest.raises(Misuse) as refused:
        inspect_tensor(word)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "Nothing was shown" in str(refused.value)


def test_files_stay_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.arange(6).view(2, 3).t()}, "model (1).pt")
    assert not is_expression("model (1).pt")
    assert not is_expression("nowhere (1).pt")
    assert not is_expression("nowhere (1).pt:weight")
    assert not is_expression("runs/digits/model.safetensors:0.weight")
    sheet = inspect_tensor("model (1).pt:weight")
    assert any(isinstance(part, Code) and part.text == BOXES for part in sheet.parts)


@pytest.mark.parametrize(
    ("tensor", "below"),
    [
        (torch.zeros(3, 1).expand(3, 4), "element       0,0 +3   1,0 +3   2,0 +3"),
        (torch.arange(6)[1::2], "element       -   0   -   1   -   2"),
        (torch.tensor(3.5), "element        ()"),
        (torch.ones(2, dtype=torch.bool), "element        0      1"),
    ],
)
def test_cells_name_their_elements(tensor: Any, below: str) -> None:
    assert draw_storage(tensor).splitlines()[-1] == below


def test_the_flat_index_finds_the_element() -> None:
    tensor = torch.arange(60).view(3, 4, 5)[1:, ::2].permute(2, 0, 1)
    at = int(flat_index(tensor).rpartition(" ")[2])
    assert tensor.as_strided((60,), (1,), 0)[at] == tensor[-1, -1, -1]


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert draw_storage(torch.zeros(0, 3)) == ""
    assert draw_storage(torch.ones(2, device="meta")) == ""
    assert draw_storage(torch.eye(2).to_sparse()) == ""
    assert draw_storage(torch.arange(100)[90:]).endswith("90 of 100 elements of the storage are not drawn.")
    inspect_tensor("torch.ones(2, 2, device='meta')")
