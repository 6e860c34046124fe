"""A batch as the model gets it: its numbers, its labels, and a picture of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trueloop.data.source import Batch, Facts
from trueloop.inspection.batch import inspect_batch
from trueloop.results.document import Bars, Document, Picture, Table

IMAGES = torch.stack([torch.zeros(3, 2, 2), torch.ones(3, 2, 2), torch.full((3, 2, 2), 0.5)])
IMAGES[0, 0] = 1.0  # the first is red
PETS = Facts(classes=("cat", "dog", "owl"))


def part(sheet: Document, title: str) -> Any:
    return next(part for part in sheet.parts if part.title == title)


def test_images_are_shown_with_their_classes() -> None:
    sheet = inspect_batch(Batch(IMAGES, torch.tensor([1, 0, 1])), PETS, 2, "x")
    picture = part(sheet, "The first 2 images")
    assert isinstance(picture, Picture)
    assert [(tile.width, tile.height, tile.caption) for tile in picture.tiles] == [(2, 2, "dog"), (2, 2, "cat")]
    assert picture.tiles[0].rgb == b"\xff\x00\x00" * 4
    assert picture.tiles[1].rgb == b"\xff\xff\xff" * 4
    assert part(sheet, "Labels") == Bars("Labels", ("cat", "dog", "owl"), (1, 2, 0))


def test_each_channel_has_its_numbers() -> None:
    channels = part(inspect_batch(Batch(IMAGES, torch.tensor([1, 0, 1])), PETS, 2, "x"), "Channels of inputs")
    assert [row[0] for row in channels.rows] == ["0", "1", "2"]
    assert channels.rows[0][1:4] == (0.5, 1.0, pytest.approx(2.5 / 3))


def test_grey_images_and_numbers_that_are_none() -> None:
    images = torch.zeros(2, 1, 2, 3)
    images[0, 0, 0, 0], images[1, 0, 0, 0] = float("nan"), 2.0
    sheet = inspect_batch(Batch(images, torch.tensor([0, 1])), Facts(), 9, "x")
    assert part(sheet, "The first 2 images").tiles[1].rgb[:6] == b"\xff\xff\xff\x00\x00\x00"
    assert part(sheet, "The first 2 images").tiles[0].rgb == bytes(18)
    assert sheet.notes == ("The inputs hold 1 NaN and 0 Inf: the loss will be NaN.",)


def test_bytes_are_read_as_text_and_other_tokens_as_numbers_or_words() -> None:
    tokens = torch.tensor([list(b"to be"), list(b"or\nno")])
    texts = part(inspect_batch(Batch(tokens, tokens), Facts(vocabulary=256), 2, "x"), "The first 2 texts")
    assert [row[2] for row in texts.rows] == ["to be", "or\\nno"]
    small = torch.tensor([[0, 2], [1, 1]])
    numbers = part(
        inspect_batch(Batch(small, torch.tensor([0, 1])), Facts(vocabulary=3, classes=("a", "b")), 1, "x"),
        "The first 1 texts",
    )
    assert numbers.rows == ((0, "a", "0 2"),)
    words = part(
        inspect_batch(Batch(small, small), Facts(vocabulary=3, more={"tokens": ["the", "cat", "sat"]}), 1, "x"),
        "The first 1 texts",
    )
    assert words.rows[0][2] == "the sat"


def test_padding_is_no_label() -> None:
    targets = torch.tensor([[1, 2, -100], [2, -100, -100]])
    labels = part(
        inspect_batch(Batch(targets.clamp(min=0), targets), Facts(vocabulary=5, ignore=-100), 1, "x"), "Labels"
    )
    assert labels == Bars("Labels", ("1", "2"), (1, 2))


def test_columns_of_a_table_have_their_names() -> None:
    facts = Facts(
        more={
            "columns": [
                {"name": "age", "kind": "number"},
                {"name": "town", "kind": "category", "categories": ["A", "B"]},
            ]
        }
    )
    inputs, targets = torch.tensor([[1.0, 0, 1, 0], [3.0, 1, 0, 0]]), torch.tensor([0.5, 1.5])
    sheet = inspect_batch(Batch(inputs, targets), facts, 2, "x")
    assert [row[0] for row in part(sheet, "Columns of inputs").rows] == ["age", "town=A", "town=B", "town=(other)"]
    assert part(sheet, "Columns of inputs").rows[0][1:4] == (1.0, 3.0, 2.0)
    assert part(sheet, "Distribution of the targets").values[0] == 1
    coded = part(inspect_batch(Batch(inputs[:, :2], targets), facts, 2, "x"), "Columns of inputs")
    assert [row[0] for row in coded.rows] == ["age", "town"]
    unknown = part(inspect_batch(Batch(inputs[:, :3], targets), facts, 2, "x"), "Columns of inputs")
    assert [row[0] for row in unknown.rows] == ["0", "1", "2"]


def test_inputs_of_several_tensors_are_named_by_where_they_are() -> None:
    batch = Batch(
        {"ids": torch.tensor([[1, 2]]), "more": [torch.zeros(1, 4)]}, {"x": torch.zeros(1), "y": torch.ones(1)}
    )
    shapes = part(inspect_batch(batch, Facts(), 4, "x"), "The batch")
    assert isinstance(shapes, Table)
    assert [row[0] for row in shapes.rows] == ["inputs.ids", "inputs.more.0", "targets.x", "targets.y"]


def test_inputs_that_are_all_alike_are_remarked() -> None:
    (note,) = inspect_batch(Batch(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])), Facts(), 4, "x").notes
    assert note == "All values of the inputs are 0."


def test_of_many_classes_the_commonest_have_bars() -> None:
    targets = torch.cat([torch.arange(100), torch.full((5,), 99)])
    labels = part(
        inspect_batch(Batch(torch.zeros(105, 1), targets), Facts(), 1, "x"),
        "Labels: the 40 most frequent of 100",
    )
    assert (len(labels.values), labels.labels[-1], labels.values[-1]) == (40, "99", 6)
