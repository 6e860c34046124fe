"""Map-style datasets, and samples that cannot become a batch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from trueloop.data.dataset import Dataset
from trueloop.errors import BadData


def refusal(samples: list[Any], **options: Any) -> str:
    with pytest.raises(BadData) as raised:
        Dataset(samples, **options).fetch(torch.arange(len(samples)))
    sentence = str(raised.value)
    assert "Nothing was trained" not in sentence  # samples are also met in the middle of a run
    assert "\n" not in sentence
    return sentence


def test_samples_become_a_batch_in_the_order_asked_for() -> None:
    source = Dataset([(torch.full((2,), float(n)), n) for n in range(5)])
    batch = source.fetch(torch.tensor([3, 1]))
    assert batch.inputs.tolist() == [[3, 3], [1, 1]]
    assert batch.targets.tolist() == [3, 1]


def test_datasets_of_torch_and_inputs_of_several_parts_are_fine() -> None:
    assert Dataset(TensorDataset(torch.zeros(3, 2), torch.arange(3))).fetch(torch.tensor([2])).targets.tolist() == [2]
    parts = Dataset([({"a": torch.zeros(1), "b": 2}, 1), ({"a": torch.ones(1), "b": 3}, 0)])
    assert parts.fetch(torch.tensor([0, 1])).inputs["b"].tolist() == [2, 3]


def test_a_collate_of_the_user_s_may_take_what_it_likes() -> None:
    source = Dataset(
        [{"x": 1}, {"x": 2}],
        collate=lambda items: (torch.tensor([item["x"] for item in items]), torch.zeros(len(items))),
    )
    assert source.fetch(torch.tensor([1, 0])).inputs.tolist() == [2, 1]


def test_what_a_user_s_collate_raises_stays_what_it_is() -> None:
    def broken(items: list[Any]) -> Any:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        Dataset(["a", "b"], collate=broken).fetch(torch.tensor([0]))


def test_a_collate_that_makes_no_pair() -> None:
    assert refusal([1, 2], collate=torch.tensor).startswith(
        "`collate` returned a Tensor for a list of samples, not (inputs, targets)."
    )


@pytest.mark.parametrize(
    ("sample", "shown"),
    [
        ((1, 2, 3), "a tuple of 3"),
        (torch.zeros(2), "a Tensor"),
        ("ab", "a str"),
        (7, "a int"),
    ],
)
def test_a_sample_that_is_no_pair(sample: Any, shown: str) -> None:
    """Two of them: a batch of two things is easily taken for inputs and targets."""
    assert refusal([sample, sample]).startswith(f"The dataset's sample 0 is {shown}, not a pair (inputs, target).")


def test_labels_as_strings() -> None:
    said = refusal([(torch.zeros(1), "cat"), (torch.zeros(1), "dog")])
    assert said.startswith("The target of sample 0 is the text 'cat', and losses take class indices.")
    assert "enumerate(sorted(set(names)))" in said


def test_labels_as_strings_among_the_labels() -> None:
    with pytest.raises(BadData, match="The target of sample 1 is the text 'dog'"):
        Dataset([1, 2], labels=[0, "dog"]).labels()  # type: ignore[list-item]


def test_texts_as_inputs() -> None:
    said = refusal([("a fine film", 1), ("dull", 0)])
    assert said.startswith("The inputs of sample 0 are the text 'a fine film', and models take numbers.")
    assert "collate=padded" in said


def test_samples_of_different_shapes() -> None:
    said = refusal([(torch.zeros(3, 8, 8), 0), (torch.zeros(3, 8, 8), 1), (torch.zeros(3, 8, 9), 1)])
    assert "the inputs of sample 0 are [3, 8, 8], of sample 2 [3, 8, 9]." in said
    assert "the inputs of sample 0 are [2], of sample 1 [3]." in refusal([([1, 2], 0), ([1, 2, 3], 1)])
    assert "the targets of sample 0 are [1], of sample 1 [2]." in refusal([(1, torch.zeros(1)), (1, torch.zeros(2))])


def test_samples_that_are_neither_tensors_nor_numbers() -> None:
    assert refusal([(object(), 0)]).startswith(
        "The dataset's sample 0 holds a object, which cannot be stacked into a batch."
    )
    assert "holds a NumPy array of object" in refusal([(np.array([1, None]), 0)])
    assert "holds a NumPy array of <U1" in refusal([(np.array(["a"]), 0)])
    assert refusal([(1, 0), (1, None)]).startswith("The target of sample 1 is None.")


def test_a_sample_is_called_what_its_owner_calls_it() -> None:
    said = refusal([(torch.zeros(1), "cat")], name=lambda number: f"photos/{number}.png")
    assert said.startswith("The target of photos/0.png is the text 'cat'")


def test_a_dataset_without_numbers_is_refused_at_once() -> None:
    class Endless(IterableDataset[Any]):
        def __iter__(self) -> Any:
            yield from ()

        def __len__(self) -> int:
            return 5

    with pytest.raises(BadData, match=r"Endless is read one sample after another.*without Dataset"):
        Dataset(Endless())
    with pytest.raises(BadData, match="generator is read one sample after another"):
        Dataset(n for n in range(3))


def test_labels_come_from_the_dataset_or_from_the_call() -> None:
    class Known(list[Any]):
        targets = (0, 1, 1)

    for source in (
        Dataset(Known([1, 2, 3])),
        Dataset([1, 2, 3], labels=[0, 1, 1]),
        Dataset([1, 2, 3], labels=torch.tensor([0, 1, 1])),
    ):
        labels = source.labels()
        assert labels is not None
        assert labels.tolist() == [0, 1, 1]
    assert Dataset([1]).labels() is None


def test_it_can_be_sent_to_a_worker() -> None:
    source = pickle.loads(pickle.dumps(Dataset([(1.0, 0), (2.0, 1)])))
    assert source.fetch(torch.tensor([1])).targets.tolist() == [1]


# -- samples that are dicts, as Hugging Face datasets give them --


def test_dict_samples_become_one_dict_of_tensors_and_its_labels() -> None:
    rows = [{"input_ids": [number, 2, 3], "labels": number % 2} for number in range(4)]
    inputs, targets = Dataset(rows).fetch(torch.tensor([3, 0]))
    assert inputs["input_ids"].tolist() == [[3, 2, 3], [0, 2, 3]]
    assert targets.tolist() == inputs["labels"].tolist() == [1, 0]
    assert Dataset([{"x": 1.0}]).fetch(torch.tensor([0])).targets is None
    assert Dataset([{"x": 1.0, "label": 4}]).fetch(torch.tensor([0])).targets.tolist() == [4]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "good", "label": 1}] * 2, r"'text' of sample 0 is text.*dataset.remove_columns\('text'\)"),
        ([{"ids": [1, 2]}, {"ids": [1, 2, 3]}], r"'ids' of sample 0 is \[2\], of sample 1 \[3\]. Pad them"),
        ([{"ids": [1]}, {"id": [1]}], "sample 0 is a dict of ids, and sample 1 is a dict of id"),
        ([{"ids": [1]}, {"ids": None}], "'ids' of sample 1 is None"),
    ],
    ids=["text", "lengths", "keys", "none"],
)
def test_dict_samples_that_cannot_be_stacked(rows: list[Any], said: str) -> None:
    with pytest.raises(BadData, match=said):
        Dataset(rows).fetch(torch.tensor([0, 1]))
