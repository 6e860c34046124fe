"""Tensors in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData


def refusal(inputs: Any, targets: Any) -> str:
    with pytest.raises(BadData) as raised:
        Tensors(inputs, targets)
    sentence = str(raised.value)
    assert "Nothing was trained" in sentence
    assert "\n" not in sentence
    return sentence


def test_rows_are_fetched_by_number_in_the_order_asked_for() -> None:
    source = Tensors(torch.arange(12, dtype=torch.uint8).reshape(6, 2), torch.arange(6))
    batch = source.fetch(torch.tensor([4, 0, 4]))
    assert batch.inputs.tolist() == [[8, 9], [0, 1], [8, 9]]
    assert batch.inputs.dtype == torch.uint8
    assert batch.targets.tolist() == [4, 0, 4]


def test_its_size_and_its_labels_are_known() -> None:
    source = Tensors(torch.zeros(6, 2), torch.arange(6))
    assert (len(source), source.nbytes()) == (6, 6 * 2 * 4 + 6 * 8)
    labels = source.labels()
    assert labels is not None
    assert labels.tolist() == list(range(6))
    assert Tensors(torch.zeros(6, 2), torch.zeros(6)).labels() is None
    assert Tensors(torch.zeros(6, 2), torch.zeros(6, 3, dtype=torch.long)).labels() is None


def test_on_its_own_device_it_is_resident_already() -> None:
    source = Tensors(torch.zeros(6, 2), torch.arange(6))
    assert source.resident(torch.device("cpu")) is source
    assert source.resident(torch.device("meta")).fetch(torch.tensor([1], device="meta")).inputs.shape == (1, 2)


def test_numpy_arrays_are_shared_not_copied() -> None:
    held = np.zeros((3, 2), np.float32)
    source = Tensors(held, np.arange(3))
    held[1] = 7
    assert source.fetch(torch.tensor([1])).inputs.tolist() == [[7, 7]]


def test_inputs_and_targets_of_different_number() -> None:
    assert refusal(torch.zeros(5, 1), torch.zeros(4)).startswith("There are 5 inputs and 4 targets")


def test_an_array_of_python_objects_is_refused_with_the_row() -> None:
    values = np.array([[1.0, 2.0], [3.0, None], [5.0, "x"]], dtype=object)
    said = refusal(values, np.arange(3))
    assert said.startswith(
        "The inputs are a NumPy array of Python objects; row 1 is None (NoneType). Tensors hold numbers only."
    )


def test_rows_of_different_length_are_refused_with_the_row() -> None:
    values = np.empty(2, dtype=object)
    values[0], values[1] = [1, 2], [3, "four"]
    assert "row 1 is 'four' (str)" in refusal(values, np.arange(2))


def test_labels_as_strings_are_told_to_be_numbered() -> None:
    said = refusal(np.zeros((2, 1), np.float32), np.array(["cat", "dog"]))
    assert said.startswith("The targets are a NumPy array of strings; row 0 is 'cat' (str)")
    assert said.endswith("encode the classes as 0, 1, 2 and so on.")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([1, 2], "The inputs are a list: Tensors takes tensors or NumPy arrays."),
        (torch.tensor(3.0), "The inputs are a scalar: they need one row per sample."),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "The inputs are datetime64[D], which no tensor can hold."),
    ],
)
def test_what_is_no_tensor(inputs: Any, said: str) -> None:
    assert refusal(inputs, torch.zeros(1)).startswith(said)


def test_an_empty_data_set_is_refused_by_its_part() -> None:
    some, none = Tensors(torch.zeros(3, 1), torch.zeros(3)), Tensors(torch.zeros(0, 1), torch.zeros(0))
    with pytest.raises(BadData, match="The training data is empty"):
        Splits(train=none)
    with pytest.raises(BadData, match="The validation data is empty"):
        Splits(train=some, valid=none)
    with pytest.raises(BadData, match="The test data is empty"):
        Splits(train=some, test=none)
    assert len(Splits(train=some, valid=some).train) == 3


def test_targets_of_several_heads() -> None:
    heads: dict[str, Any] = {"label": torch.arange(6), "value": np.arange(6, dtype=np.float32)}
    source = Tensors(torch.zeros(6, 2), heads)
    batch = source.fetch(torch.tensor([4, 0]))
    assert {name: each.tolist() for name, each in batch.targets.items()} == {"label": [4, 0], "value": [4.0, 0.0]}
    assert (source.nbytes(), source.labels()) == (6 * 2 * 4 + 6 * 8 + 6 * 4, None)
    elsewhere = source.resident(torch.device("meta"))
    assert elsewhere.fetch(torch.tensor([1], device="meta")).targets["value"].device.type == "meta"
    assert refusal(torch.zeros(5, 2), heads).startswith("There are 5 inputs and 6 targets 'label'")
    assert refusal(torch.zeros(5, 2), {"label": [1, 2]}).startswith("The targets 'label' are a list")
    assert refusal(torch.zeros(5, 2), {}).startswith("The targets are an empty dict")
