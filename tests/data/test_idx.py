"""IDX files: read as they are, refused with the file's name when they are not."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.golden.stand_ins import stand_in_for, write_idx
from trueloop.data.find import find_data
from trueloop.data.homes import MNIST
from trueloop.data.idx import Normalized, image_splits, read_idx
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData
from trueloop.recipe.recipe import DataRequest

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
TEN = tuple(map(str, range(10)))


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_packed_or_not_the_numbers_are_the_same_and_stay_uint8(tmp_path: Path, name: str) -> None:
    read = read_idx(write_idx(tmp_path / name, IMAGES))
    assert read.dtype == torch.uint8
    assert torch.equal(read, torch.from_numpy(IMAGES))


def test_a_packed_file_is_known_by_its_content_not_its_name(tmp_path: Path) -> None:
    packed = write_idx(tmp_path / "images.gz", IMAGES).rename(tmp_path / "images")
    assert read_idx(packed).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("code", "kind", "dtype"),
    [(0x09, ">i1", torch.int8), (0x0B, ">i2", torch.int16), (0x0C, ">i4", torch.int32), (0x0D, ">f4", torch.float32)],
)
def test_other_kinds_of_numbers_are_read_high_byte_first(
    tmp_path: Path, code: int, kind: str, dtype: torch.dtype
) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes([0, 0, code, 1]) + struct.pack(">I", 3) + np.array([1, -2, 100], dtype=kind).tobytes())
    read = read_idx(path)
    assert read.dtype == dtype
    assert read.tolist() == [1, -2, 100]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an IDX file: it begins with nothing"),
        (b"\x89PNG....", "is not an IDX file: it begins with 89 50 4e 47"),
        (b"\0\0\x07\1\0\0\0\0", "is not an IDX file"),
        (b"\0\0\x08\3\0\0\0\2", "ends inside its header (8 bytes)"),
        (b"\0\0\x08\1\0\0\0\5abc", "is truncated: its header says 5 (5 bytes), and it holds 3"),
        (b"\0\0\x08\1\0\0\0\2abc", "is too long: its header says 2 (2 bytes), and it holds 3"),
        (gzip.compress(b"\0\0\x08\1\0\0\0\5abcde", mtime=0)[:-10], "is damaged or truncated"),
        (b"\x1f\x8b" + b"?" * 30, "is damaged or truncated"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(BadData) as raised:
        read_idx(path)
    assert str(raised.value).startswith(f"{path} {said}")
    assert "Nothing was trained" in str(raised.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"gone cannot be read \(No such file"):
        read_idx(tmp_path / "gone")


def read_stand_in(folder: Path) -> Splits:
    return image_splits(find_data(MNIST, DataRequest(folder)), TEN, Normalized(0.5, 0.25))


def test_what_is_held_out_is_held_out_and_the_same_each_time(tmp_path: Path) -> None:
    stand_in_for("mnist", tmp_path)
    first, second = read_stand_in(tmp_path), read_stand_in(tmp_path)
    assert isinstance(first.train, Tensors)
    assert isinstance(first.valid, Tensors)
    assert isinstance(second.valid, Tensors)
    assert (len(first.train), len(first.valid)) == (220, 20)
    assert torch.equal(first.valid.inputs, second.valid.inputs)
    learned = {image.numpy().tobytes() for image in first.train.inputs}
    assert not learned & {image.numpy().tobytes() for image in first.valid.inputs}


def test_images_have_one_channel_and_labels_are_class_numbers(tmp_path: Path) -> None:
    splits = read_stand_in(stand_in_for("mnist", tmp_path))
    batch = splits.train.fetch(torch.arange(5))
    assert batch.inputs.shape == (5, 1, 28, 28)
    assert batch.inputs.dtype == torch.uint8
    assert batch.targets.dtype == torch.int64
    assert splits.facts.inputs == (1, 28, 28)
    assert any(str(tmp_path / "mnist") in note for note in splits.notes)


def test_images_and_labels_of_different_number_are_refused(tmp_path: Path) -> None:
    folder = stand_in_for("mnist", tmp_path) / "mnist"
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", np.zeros(39, np.uint8))
    with pytest.raises(
        BadData, match=r"t10k-images-idx3-ubyte.gz holds 40 images and .*t10k-labels-idx1-ubyte.gz 39 labels"
    ):
        read_stand_in(tmp_path)


def test_images_in_place_of_labels_are_refused(tmp_path: Path) -> None:
    folder = stand_in_for("mnist", tmp_path) / "mnist"
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", IMAGES)
    with pytest.raises(BadData, match="images need 3"):
        read_stand_in(tmp_path)


def test_a_label_without_a_class_is_refused_with_its_row(tmp_path: Path) -> None:
    folder = stand_in_for("mnist", tmp_path) / "mnist"
    labels = np.zeros(40, np.uint8)
    labels[7] = 10
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", labels)
    with pytest.raises(BadData, match="label 7 is 10, but classes are 0 to 9"):
        read_stand_in(tmp_path)


def test_normalised_points_are_around_zero_and_the_bytes_stay_as_they_were() -> None:
    points = torch.tensor([0, 51, 255], dtype=torch.uint8)
    made = Normalized(mean=0.2, spread=0.4)(points)
    assert made.tolist() == pytest.approx([-0.5, 0.0, 2.0])
    assert points.tolist() == [0, 51, 255]
