"""New inputs for a trained model, from files: tables, images, tensors. As its data gives them, before `prepare`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from trueloop.checkpoint.tensor_files import load_numpy, load_torch
from trueloop.checkpoint.unreadable import why_unreadable
from trueloop.data.images import ENDINGS, picture
from trueloop.data.pixel_range import match_range
from trueloop.data.table_rows import read_rows
from trueloop.errors import BadData
from trueloop.export.trained_model import TrainedModel
from trueloop.trust.files import check_regular, read_regular

__all__ = ["Rows", "read_inputs"]

TABLES: Final = frozenset({".csv", ".tsv", ".txt", ".parquet", ".pq"})
TENSORS: Final = frozenset({".npy", ".pt", ".pth"})
AT_ONCE: Final = 1024  # Images that are decoded before they are predicted


class Rows(NamedTuple):
    """Some samples: their names for the first column, and the inputs."""

    names: Sequence[str]
    inputs: Tensor
    unused: Sequence[str] = ()  # Columns of a table that the model does not take


def read_inputs(path: Path, trained: TrainedModel) -> Iterator[Rows]:
    """Raises BadData in one sentence: what the file holds, and what the model takes."""
    try:
        raw = trained.fetch(torch.arange(1)).inputs
        if not isinstance(raw, Tensor):
            raise BadData("This recipe's samples are several tensors: use trueloop.load(RUN).predict. Nothing was run.")
        takes = _Takes(raw, trained.preprocessing(inside=True))
        yield from takes.read(path)
    except BadData as error:
        raise BadData(str(error).replace("Nothing was trained", "Nothing was predicted")) from None


@final
class _Takes:
    """What a model takes."""

    def __init__(self, raw: Tensor, preprocessing: Mapping[str, Any]) -> None:
        self.raw, self.kind, self.preprocessing = raw, str(preprocessing["kind"]), preprocessing

    def __str__(self) -> str:
        dtype, shape = str(self.raw.dtype).removeprefix("torch."), "x".join(map(str, self.raw.shape[1:]))
        tensors = f".npy or .pt tensors of {dtype} [N x {shape}]"
        also = {"table": "a CSV or Parquet table with the columns of its training, or ", "image": "image files, or "}
        return f"{also.get(self.kind, '')}{tensors}"

    def read(self, path: Path) -> Iterator[Rows]:
        files = _files(path)
        endings = {file.suffix.lower() for file in files}
        if self.kind == "table" and endings <= TABLES:
            yield from (self._table(file, alone=len(files) == 1) for file in files)
        elif self.kind == "image" and endings <= ENDINGS:
            for some in (files[first : first + AT_ONCE] for first in range(0, len(files), AT_ONCE)):
                yield Rows([file.name for file in some], torch.stack([self._image(file) for file in some]))
        elif endings <= TENSORS:
            yield from (self._tensor(file, alone=len(files) == 1) for file in files)
        else:
            raise self._refused(path, f"holds {', '.join(sorted(endings)) or 'no file'}")

    def _refused(self, path: Path, what: str) -> BadData:
        return BadData(f"{path} {what}, and this model takes {self}. Nothing was predicted.")

    def _table(self, file: Path, *, alone: bool) -> Rows:
        _check(file)
        rows, unused = read_rows(file, self.preprocessing["columns"], self.raw.shape[1])
        names = [str(number) if alone else f"{file.name}:{number}" for number in range(len(rows))]
        return Rows(names, torch.from_numpy(rows), unused)

    def _image(self, file: Path) -> Tensor:
        channels, (height, width) = self.preprocessing["channels"], self.preprocessing["size"]
        if channels not in (1, 3):
            raise self._refused(file, f"is an image, its recipe has {channels} channels")
        _check(file)
        try:
            pixels = picture(str(file), channels, (height, width)).numpy()
        except ValueError as error:
            raise BadData(f"{file} cannot be read: {error}. Nothing was predicted: remove or replace it.") from None
        return torch.from_numpy(np.ascontiguousarray(match_range(pixels, self.preprocessing["range"][1])))

    def _tensor(self, file: Path, *, alone: bool) -> Rows:
        given = _loaded(file)
        if not isinstance(given, Tensor):
            raise self._refused(file, f"holds a {type(given).__name__}")
        one = given.dim() == self.raw.dim() - 1
        found = given.unsqueeze(0) if one else given
        free = self.kind == "tokens"  # of any length
        if found.dim() != self.raw.dim() or (not free and found.shape[1:] != self.raw.shape[1:]):
            raise self._refused(file, f"has shape {list(given.shape)}")
        values = found.to(self.raw.dtype)
        if not self.raw.is_floating_point() and not torch.equal(values.double(), found.double()):
            raise self._refused(file, f"holds {str(given.dtype).removeprefix('torch.')} values that do not fit")
        if self.raw.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise BadData(f"{file} holds NaN or Inf. Nothing was predicted.")
        numbers = [str(number) for number in range(len(values))]
        names = numbers if alone else [file.name] if one else [f"{file.name}:{number}" for number in numbers]
        return Rows(names, values)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        inside = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]
        if not inside:
            raise BadData(f"{path} is an empty folder. Nothing was predicted.")
        return inside
    if not path.is_file():
        raise BadData(f"There is no file or folder {path}. Nothing was predicted.")
    return [path]


def _check(file: Path) -> None:
    try:
        check_regular(file)
    except OSError as error:
        raise BadData(f"{file} cannot be read ({error.strerror}). Nothing was predicted.") from None


def _loaded(file: Path) -> Any:
    array = file.suffix.lower() == ".npy"
    try:
        return load_numpy(read_regular(file)) if array else load_torch(read_regular(file))
    except Exception as error:  # noqa: BLE001 - numpy and torch raise many kinds for a file that is not theirs
        why = why_unreadable(error, "numpy" if array else "torch.save")
        raise BadData(f"{file} {why}. Nothing was predicted.") from None
