"""IDX files (MNIST and its successors): a header with dtype and sizes, then the values; gzipped or not."""

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData

__all__ = ["Normalized", "image_splits", "read_idx"]

# dtype code (third byte of the file) -> NumPy dtype, big-endian
KINDS: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP: Final = b"\x1f\x8b"  # Magic bytes of gzip
HELD_OUT: Final = 5_000  # validation images of 60,000: enough to resolve 0.2 %; of smaller sets, a twelfth


def read_idx(path: Path) -> Tensor:
    """The array of a file; uint8 stays uint8. Raises BadData naming the file."""
    content = _unpacked(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in KINDS or content[3] == 0:
        start = content[:4].hex(" ") or "nothing"
        raise BadData(f"{path} is not an IDX file: it begins with {start}, not 00 00 and a type. Nothing was trained.")
    kind, header = np.dtype(KINDS[content[2]]), 4 + 4 * content[3]
    if len(content) < header:
        raise BadData(f"{path} ends inside its header ({len(content)} bytes). Nothing was trained: download it again.")
    sizes = struct.unpack(f">{content[3]}I", content[4:header])
    due, there = math.prod(sizes) * kind.itemsize, len(content) - header
    if due != there:
        shape = " x ".join(f"{size:,}" for size in sizes)
        raise BadData(
            f"{path} is {'truncated' if there < due else 'too long'}: its header says {shape} ({due:,} bytes), "
            f"and it holds {there:,} bytes. Nothing was trained: download it again."
        )
    numbers = np.frombuffer(content, dtype=kind, offset=header).reshape(sizes)
    return torch.from_numpy(numbers.astype(kind.newbyteorder("=")))  # a copy, because torch wants writable memory


def _unpacked(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadData(f"{path} is damaged or truncated ({error}). Nothing was trained: download it again.") from None
    except OSError as error:
        raise BadData(f"{path} cannot be read ({error.strerror}). Nothing was trained.") from None


@dataclass(frozen=True, slots=True)
class Normalized:
    """Pixels from 0 to 255 become values with mean 0 and standard deviation 1, on the device."""

    mean: float
    spread: float  # Both for pixels scaled to [0, 1]

    def __call__(self, images: Tensor) -> Tensor:
        return images.float().mul_(1 / (255 * self.spread)).sub_(self.mean / self.spread)


def image_splits(files: Mapping[str, Path], classes: tuple[str, ...], prepare: Normalized) -> Splits:
    """The four files of MNIST or a successor, by published name; the split does not depend on the run's seed."""
    images, labels = _pair(files["train-images-idx3-ubyte.gz"], files["train-labels-idx1-ubyte.gz"], len(classes))
    test = _pair(files["t10k-images-idx3-ubyte.gz"], files["t10k-labels-idx1-ubyte.gz"], len(classes))
    held_out = min(HELD_OUT, len(images) // 12)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    valid, train = order[:held_out], order[held_out:]
    parts = [Tensors(images[part], labels[part]) if len(part) else None for part in (train, valid)]
    facts = Facts(inputs=tuple(images.shape[1:]), classes=classes)
    counts = f"{held_out:,} of {len(images):,} images held out for validation; {len(test[0]):,} for test"
    notes = (counts, f"read from {files['train-images-idx3-ubyte.gz'].parent}")
    assert parts[0] is not None
    return Splits(parts[0], parts[1], Tensors(*test), facts, prepare=prepare, notes=notes)


def _pair(images_file: Path, labels_file: Path, classes: int) -> tuple[Tensor, Tensor]:
    """Images [N, 1, height, width] and their class indices."""
    images, labels = read_idx(images_file), read_idx(labels_file)
    if images.dim() != 3 or labels.dim() != 1:
        raise BadData(
            f"{images_file} has {images.dim()} dimensions and {labels_file} has {labels.dim()}; images need 3 (count, "
            "height, width) and labels 1. Nothing was trained."
        )
    if len(images) != len(labels):
        counts = f"{images_file} holds {len(images):,} images and {labels_file} {len(labels):,} labels"
        raise BadData(f"{counts}. Nothing was trained.")
    wrong = (labels >= classes).nonzero()
    if len(wrong):
        row = int(wrong[0])
        wanted = f"classes are 0 to {classes - 1}"
        raise BadData(f"{labels_file}: label {row:,} is {int(labels[row])}, but {wanted}. Nothing was trained.")
    return images.unsqueeze(1), labels.long()
