"""Image folders: what becomes of the files, and which are refused."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trueloop.data.images import Images, image_folder, picture, scaled
from trueloop.data.source import Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData, MissingExtra


def save(path: Path, value: int = 0, size: tuple[int, int] = (6, 4), mode: str = "RGB") -> Path:
    """`size`: width and height, as Pillow has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in ("L", "I;16", "F") else (value,) * len(mode)).save(path)
    return path


def fill(root: Path, each: int = 10, mode: str = "RGB") -> Path:
    for shade, name in enumerate(("ant", "bee")):
        for number in range(each):
            save(root / name / f"{number}.png", 100 * shade + number, mode=mode)
    return root


def held(source: Source | None) -> Tensors:
    assert isinstance(source, Tensors)
    return source


def refusal(root: Path, size: int | None = None) -> str:
    with pytest.raises(BadData) as raised:
        image_folder(root, size=size)
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence


# -- which files --


def test_folders_are_classes_and_the_parts_are_drawn_class_by_class(tmp_path: Path) -> None:
    splits = image_folder(fill(tmp_path))
    assert splits.facts.classes == ("ant", "bee")
    assert splits.facts.inputs == (3, 4, 6)
    assert [len(held(part)) for part in (splits.train, splits.valid, splits.test)] == [12, 4, 4]
    assert held(splits.valid).targets.bincount().tolist() == [2, 2]
    assert splits.notes[0] == "20 images of 2 classes, 6x4, decoded once: 12 for training, 4 for validation, 4 for test"


def test_every_image_keeps_its_class(tmp_path: Path) -> None:
    splits = image_folder(fill(tmp_path))
    for part in (held(splits.train), held(splits.valid), held(splits.test)):
        assert part.inputs.dtype == torch.uint8
        assert ((part.inputs[:, 0, 0, 0] >= 100).long() == part.targets).all()


def test_the_folders_train_valid_and_test_are_taken_as_they_are(tmp_path: Path) -> None:
    for name, each in (("train", 5), ("val", 3), ("test", 2)):
        fill(tmp_path / name, each)
    splits = image_folder(tmp_path)
    assert [len(held(part)) for part in (splits.train, splits.valid, splits.test)] == [10, 6, 4]


def test_without_a_valid_folder_some_training_images_validate_and_it_is_said(tmp_path: Path) -> None:
    fill(tmp_path / "train", 20)
    fill(tmp_path / "test", 2)
    splits = image_folder(tmp_path)
    assert [len(held(part)) for part in (splits.train, splits.valid, splits.test)] == [34, 6, 4]
    assert "6 of 40 training images are held out with seed 0" in splits.notes[1]


def test_a_valid_folder_may_lack_a_class_but_not_have_another(tmp_path: Path) -> None:
    fill(tmp_path / "train", 5)
    save(tmp_path / "valid" / "bee" / "1.png")
    assert held(image_folder(tmp_path).valid).targets.tolist() == [1]
    save(tmp_path / "valid" / "cat" / "1.png")
    assert refusal(tmp_path).startswith(
        f"{tmp_path / 'valid' / 'cat'} is not a class of the training images (ant, bee)."
    )


def test_hidden_files_and_others_that_are_no_images_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    (tmp_path / "ant" / "notes.txt").write_text("no image", encoding="utf-8")
    (tmp_path / "ant" / ".1.png").write_text("no image", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    save(tmp_path / "bee" / "more" / "9.JPG")
    assert image_folder(tmp_path).notes[0].startswith("7 images of 2 classes")


def test_folders_with_nothing_in_them(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").startswith("There is no folder")
    assert "needs one folder per class" in refusal(tmp_path)
    fill(tmp_path, 2)
    (tmp_path / "cat").mkdir()
    assert refusal(tmp_path).startswith(f"{tmp_path / 'cat'} holds no images (")


# -- sizes --


def test_images_of_different_sizes_are_refused_with_two_names(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    odd = save(tmp_path / "bee" / "9.png", size=(8, 5))
    assert re.fullmatch(
        rf"Images of different sizes cannot be stacked: {tmp_path}/ant/\d\.png is 6x4, {odd} is 8x5\. "
        r"Nothing was trained: "
        r"size=4 gives one size\.",
        refusal(tmp_path),
    )


@pytest.mark.parametrize(("size", "shape"), [(5, (3, 5, 5)), ((4, 8), (3, 4, 8))])
def test_with_a_size_all_fit(tmp_path: Path, size: int | tuple[int, int], shape: tuple[int, ...]) -> None:
    fill(tmp_path, 3)
    save(tmp_path / "bee" / "9.png", size=(8, 5))
    splits = image_folder(tmp_path, size=size)
    assert splits.facts.inputs == shape
    assert held(splits.train).inputs.shape[1:] == shape


def test_scaling_keeps_the_proportions_and_cuts_in_the_middle(tmp_path: Path) -> None:
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    middle = picture(str(tmp_path / "wide.png"), 1, (10, 10))
    assert middle.shape == (1, 10, 10)
    assert (middle == 200).all()


# -- colours --


def test_grey_files_stay_grey_and_one_of_colour_makes_all_colour(tmp_path: Path) -> None:
    fill(tmp_path, 3, mode="L")
    assert image_folder(tmp_path).facts.inputs == (1, 4, 6)
    save(tmp_path / "bee" / "9.png", 50)
    splits = image_folder(tmp_path)
    assert splits.facts.inputs == (3, 4, 6)
    assert set(held(splits.train).inputs[:, 0, 0, 0].tolist()) <= {0, 1, 2, 50, 100, 101, 102}


def test_pixels_come_out_as_they_were_painted(tmp_path: Path) -> None:
    painted = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(painted).save(tmp_path / "a.png")
    assert np.array_equal(picture(str(tmp_path / "a.png"), 3).permute(1, 2, 0).numpy(), painted)


def test_sixteen_bits_become_eight_by_their_upper_half(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), 0xAB12, np.uint16)).save(tmp_path / "deep.png")
    assert picture(str(tmp_path / "deep.png"), 1).tolist() == [[[0xAB, 0xAB], [0xAB, 0xAB]]]
    assert picture(str(tmp_path / "deep.png"), 3)[2].tolist() == [[0xAB, 0xAB]] * 2


@pytest.mark.parametrize("mode", ["RGBA", "CMYK", "1", "LA"])
def test_other_kinds_of_colour_become_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (3, 2)).save(path)
    assert picture(str(path), 3).shape == (3, 2, 3)


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path: Path) -> None:
    image = Image.new("P", (3, 2))
    image.putpalette([10, 20, 30] * 256)
    image.save(tmp_path / "p.png", transparency=bytes([0, 128]))
    assert picture(str(tmp_path / "p.png"), 3)[:, 0, 0].tolist() == [10, 20, 30]


def test_photographs_are_turned_upright(tmp_path: Path) -> None:
    for number in range(4):
        for name in ("ant", "bee"):
            turned = Image.new("RGB", (4, 6))
            exif = turned.getexif()
            exif[0x0112] = 6
            (tmp_path / name).mkdir(exist_ok=True)
            turned.save(tmp_path / name / f"{number}.jpg", exif=exif)
            save(tmp_path / name / f"{number}-upright.png", size=(6, 4))
    assert image_folder(tmp_path).facts.inputs == (3, 4, 6)


def test_the_model_is_given_numbers_from_minus_one_to_one() -> None:
    raw = torch.tensor([0, 255], dtype=torch.uint8)
    assert scaled(raw).tolist() == [-1, 1]
    assert raw.tolist() == [0, 255]


# -- files that cannot be read --


def test_a_file_that_is_no_image(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    bad = tmp_path / "ant" / "7.png"
    bad.write_text("hello", encoding="utf-8")
    said = f"{bad} cannot be read: Pillow does not recognize it as an image. Remove or replace it."
    assert refusal(tmp_path) == refusal(tmp_path, size=4) == said


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_file_that_was_cut_off(tmp_path: Path, ending: str) -> None:
    fill(tmp_path, 3)
    bad = tmp_path / "ant" / f"7.{ending}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)).save(bad)
    bad.write_bytes(bad.read_bytes()[: -40 if ending == "png" else -60])
    assert refusal(tmp_path).startswith(f"{bad} cannot be read: ")


def test_an_image_of_fractions(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    save(tmp_path / "ant" / "7.tiff", 1, mode="F")
    assert "7.tiff cannot be read: it holds floats" in refusal(tmp_path)


def test_without_pillow_the_sentence_is_the_command_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"pip install 'trueloop\[images\]'"):
        image_folder(tmp_path)


# -- sets that do not fit --


def lazy(root: Path) -> Splits:
    return image_folder(root, in_memory=10)


def test_a_large_set_is_decoded_as_it_is_asked_for_to_the_same_bits(tmp_path: Path) -> None:
    fill(tmp_path)
    splits, kept = lazy(tmp_path), image_folder(tmp_path)
    assert isinstance(splits.train, Images)
    assert splits.train.nbytes() is None
    assert "decoded on access" in splits.notes[0]
    numbers = torch.tensor([7, 0, 7])
    one, other = splits.train.fetch(numbers), kept.train.fetch(numbers)
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.targets, other.targets)
    assert torch.equal(splits.train.labels(), held(kept.train).targets)


def test_it_can_be_sent_to_a_worker(tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(lazy(fill(tmp_path)).train))
    assert source.fetch(torch.tensor([0, 1])).inputs.shape == (2, 3, 4, 6)


def test_a_file_that_breaks_later_is_named_when_it_is_read(tmp_path: Path) -> None:
    source = lazy(fill(tmp_path)).train
    assert isinstance(source, Images)
    Path(source.files[0]).write_text("gone", encoding="utf-8")
    with pytest.raises(BadData, match=r"\.png cannot be read: Pillow does not recognize it"):
        source.fetch(torch.tensor([0]))
