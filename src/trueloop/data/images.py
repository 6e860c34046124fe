"""Image folders: ROOT/class/*.png, or ROOT/train/class, ROOT/valid/class and ROOT/test/class.

    splits = image_folder("flowers", size=64)

All images become uint8 of one shape [channels, height, width]: grayscale if all files are, else RGB. A data set that
fits in memory is decoded once; a larger one on access, by the loader's workers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.split import split_numbers
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ENDINGS", "Images", "image_folder", "picture", "scaled"]

ENDINGS: Final = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
GREY: Final = frozenset({"1", "L", "LA", "I", "I;16", "I;16B", "I;16L"})  # Pillow's grayscale modes
IN_MEMORY: Final = 2_000_000_000  # Decoded images up to this many bytes are kept in memory
VALID_NAMES: Final = ("valid", "val", "validation")
SIDEWAYS: Final = frozenset({5, 6, 7, 8})  # EXIF orientations that swap width and height


def image_folder(
    root: str | Path, *, size: int | tuple[int, int] | None = None, seed: int = 0, in_memory: int = IN_MEMORY
) -> Splits:
    """`size`: (height, width) or the side of a square; images are resized to cover it and center-cropped."""
    _pillow()
    root = Path(root)
    shape = (size, size) if isinstance(size, int) else size
    lists, notes = _find(root, seed)
    every = [file for each in lists.values() for file in each.files]
    channels, height, width = _one_shape(every, shape)
    fits = len(every) * channels * height * width <= in_memory
    sources = {name: Images(each.files, each.labels, channels, shape) for name, each in lists.items()}
    parts: dict[str, Source] = {name: source.decoded() for name, source in sources.items()} if fits else dict(sources)
    facts = Facts(inputs=(channels, height, width), classes=lists["train"].classes, outputs=len(lists["train"].classes))
    where = "decoded once" if fits else "decoded on access"
    counts = ", ".join(f"{len(part):,} for {_PURPOSE[name]}" for name, part in parts.items())
    notes = (f"{len(every):,} images of {len(facts.classes)} classes, {width}x{height}, {where}: {counts}", *notes)
    return Splits(parts["train"], parts.get("valid"), parts.get("test"), facts, prepare=scaled, notes=notes)


_PURPOSE: Final = {"train": "training", "valid": "validation", "test": "test"}


def scaled(images: Tensor) -> Tensor:
    """0 to 255 becomes -1 to 1."""
    return images.float().div_(127.5).sub_(1.0)


@final
class Images(Source):
    """Image files, decoded on access."""

    def __init__(self, files: Sequence[str], labels: Tensor, channels: int, size: tuple[int, int] | None) -> None:
        self.files, self.targets, self.channels, self.size = list(files), labels, channels, size

    def __len__(self) -> int:
        return len(self.files)

    def fetch(self, numbers: Tensor) -> Batch:
        images = [self._decoded(self.files[number]) for number in numbers.tolist()]
        return Batch(torch.stack(images), self.targets[numbers])

    def labels(self) -> Tensor:
        return self.targets

    def decoded(self) -> Tensors:
        """All of them in memory; Pillow releases the GIL while it decodes."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            pictures = pool.map(self._decoded, self.files)
            first = next(pictures)
            held = first.new_empty((len(self.files), *first.shape))
            held[0] = first
            for number, picture in enumerate(pictures, start=1):
                held[number] = picture
        return Tensors(held, self.targets)

    def _decoded(self, file: str) -> Tensor:
        try:
            return picture(file, self.channels, self.size)
        except ValueError as error:
            raise _unreadable(file, error) from None


# -- which files --


@dataclass(frozen=True, slots=True)
class _Listed:
    """Files with their class indices."""

    files: list[str]
    labels: Tensor
    classes: tuple[str, ...]

    def part(self, numbers: Tensor) -> _Listed:
        return _Listed([self.files[number] for number in numbers.tolist()], self.labels[numbers], self.classes)


def _find(root: Path, seed: int) -> tuple[dict[str, _Listed], tuple[str, ...]]:
    """The files of each split, drawn where the folders do not define it."""
    if not root.is_dir():
        raise BadData(f"There is no folder {root}. Nothing was trained.")
    if not (root / "train").is_dir():
        everything = _listed(root)
        parts = split_numbers(len(everything.files), seed, everything.labels)
        named = zip(("train", "valid", "test"), parts, strict=True)
        notes = (f"the splits are drawn with seed {seed}",)
        return {name: everything.part(numbers) for name, numbers in named if len(numbers)}, notes
    found = {"train": _listed(root / "train")}
    valid_folder = next((root / name for name in VALID_NAMES if (root / name).is_dir()), None)
    for name, folder in (("valid", valid_folder), ("test", root / "test")):
        if folder is not None and folder.is_dir():
            found[name] = _listed(folder, found["train"].classes)
    if "valid" in found:
        return found, ()
    whole = found["train"]
    train, valid, _ = split_numbers(len(whole.files), seed, whole.labels, test=0)
    found |= {"train": whole.part(train)} | ({"valid": whole.part(valid)} if len(valid) else {})
    held_out = f"{len(valid):,} of {len(whole.files):,} training images are held out with seed {seed}"
    return found, (f"there is no {root / 'valid'}: {held_out}",)


def _listed(root: Path, known: tuple[str, ...] | None = None) -> _Listed:
    classes = tuple(sorted(each.name for each in root.iterdir() if each.is_dir() and not each.name.startswith(".")))
    if not classes:
        raise BadData(f"{root} needs one folder per class, as in {root / 'cat' / '1.png'}. Nothing was trained.")
    unknown = [name for name in classes if known is not None and name not in known]
    if unknown:
        listed = ", ".join(known or ())
        raise BadData(f"{root / unknown[0]} is not a class of the training images ({listed}). Nothing was trained.")
    files: list[str] = []
    labels: list[int] = []
    for name in classes:
        visible = (file for file in (root / name).rglob("*") if not file.name.startswith("."))
        inside = sorted(str(file) for file in visible if file.suffix.lower() in ENDINGS)
        if not inside:
            kinds = ", ".join(sorted(ENDINGS))
            raise BadData(f"{root / name} holds no images ({kinds}). Nothing was trained: fill or remove the folder.")
        files += inside
        labels += [(known or classes).index(name)] * len(inside)
    return _Listed(files, torch.tensor(labels), known or classes)


# -- what is in them --


class _Seen(NamedTuple):
    height: int
    width: int
    gray: bool


def _one_shape(files: Sequence[str], size: tuple[int, int] | None) -> tuple[int, int, int]:
    """Channels, height and width of all images; only the headers are read."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        seen = list(pool.map(_head, files))
    channels = 1 if all(each.gray for each in seen) else 3
    if size is not None:
        return channels, *size
    first = seen[0]
    for file, each in zip(files, seen, strict=True):
        if each[:2] != first[:2]:
            raise BadData(
                f"Images of different sizes cannot be stacked: {files[0]} is {first.width}x{first.height}, "
                f"{file} is {each.width}x{each.height}. Nothing was trained: size={min(first[:2])} gives one size."
            )
    return channels, first.height, first.width


def _head(file: str) -> _Seen:
    try:
        with _opened(file) as image:
            width, height = image.size
            turned = _orientation(image) in SIDEWAYS
            return _Seen(*((width, height) if turned else (height, width)), image.mode in GREY)
    except ValueError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: str, error: ValueError) -> BadData:
    return BadData(f"{file} cannot be read: {error}. Remove or replace it.")


def picture(file: str | BytesIO, channels: int, size: tuple[int, int] | None = None) -> Tensor:
    """One image as uint8 [channels, height, width], upright. Raises ValueError with the reason if it cannot be read."""
    from PIL import ImageOps

    with _opened(file) as image:
        try:
            image.load()
        except (OSError, SyntaxError) as error:
            raise ValueError(str(error)) from None
        upright = ImageOps.exif_transpose(image) if _orientation(image) > 1 else image
        plain = _eight_bits(upright, channels)
    if size is not None and plain.size != (size[1], size[0]):
        plain = ImageOps.fit(plain, (size[1], size[0]), _pillow().Resampling.BILINEAR)
    values = torch.from_numpy(np.array(plain))
    return values.unsqueeze(0) if channels == 1 else values.permute(2, 0, 1).contiguous()


def _eight_bits(image: Image, channels: int) -> Image:
    if image.mode == "F":
        raise ValueError("it holds floats, not pixels from 0 to 255")
    if image.mode.startswith("I"):  # 16 bits: Pillow's own conversion clips values above 255
        image = _pillow().fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def _opened(file: str | BytesIO) -> Image:
    pillow = _pillow()
    try:
        opened: Image = pillow.open(file)
    except pillow.UnidentifiedImageError:
        raise ValueError("Pillow does not recognize it as an image") from None
    except (OSError, SyntaxError, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from None
    most, (width, height) = pillow.MAX_IMAGE_PIXELS, opened.size
    if most is not None and width * height > most:  # Pillow only warns up to twice as many
        opened.close()
        raise ValueError(
            f"its {width:,} x {height:,} pixels are more than {most:,}, the limit of Pillow against files that fill "
            "the memory; if you trust it, write `PIL.Image.MAX_IMAGE_PIXELS = None` in the recipe"
        )
    return opened


def _orientation(image: Image) -> int:
    """EXIF orientation; only photographs have it, and reading it decodes other formats."""
    return int(image.getexif().get(0x0112, 1)) if image.format in ("JPEG", "MPO") else 1


def _pillow() -> Any:
    try:
        from PIL import Image as pillow  # noqa: N813 - the package is Pillow
    except ImportError:
        need = "Reading images needs Pillow, which is not installed"
        raise MissingExtra(f"{need}. Nothing was run: pip install 'trueloop[images]'") from None
    return pillow
