"""WebDataset tar shards: `key.jpg` and `key.cls`, files of one key make one sample.

    Splits(train=Shards("train-{0000..0099}.tar"), valid=Shards("valid-*.tar"))

The heads of the tars are read once; after that any sample is read by its place in its file, so that the order is the
engine's and a resume is exact, as with any other source. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from trueloop.data.dataset import Dataset
from trueloop.data.images import picture
from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["DECODERS", "Samples", "Shards"]

Decoder = Callable[[bytes], Any]

OPEN_FILES: Final = 64
"""Shards held open in each process: systems allow some hundreds of files."""
INPUTS, TARGET = 0, 1
RANGE: Final = re.compile(r"\{(\d+)\.\.(\d+)\}")
BLOCK: Final = 512
"""Bytes; a tar is made of them, and ends with one that is all zero."""


def _picture(data: bytes) -> Tensor:
    return picture(BytesIO(data), channels=3)


def _array(data: bytes) -> Tensor:
    return torch.from_numpy(np.load(BytesIO(data), allow_pickle=False))


def _whole_number(data: bytes) -> int:
    return int(data)


def _text(data: bytes) -> str:
    return data.decode()


DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType(
    {
        **dict.fromkeys(("jpg", "jpeg", "png", "webp", "ppm"), _picture),
        **dict.fromkeys(("cls", "cls2", "index", "id"), _whole_number),
        **dict.fromkeys(("txt", "text"), _text),
        "json": json.loads,
        "npy": _array,
    }
)
"""By what stands after a key's first point. Images are uint8 [3, height, width]; arrays may not hold Python objects."""


@final
class Shards(Source):
    """Samples in tar files. `inputs` and `target`: endings; several that mean the same are given as 'jpg;png'."""

    def __init__(
        self,
        shards: str | Path | Sequence[str | Path],
        inputs: str = "jpg;jpeg;png;webp",
        target: str = "cls",
        *,
        decoders: Mapping[str, Decoder] = DECODERS,
        transform: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        """`decoders` are taken besides the usual ones; `transform` makes (inputs, target) of what was decoded."""
        wanted = (tuple(inputs.split(";")), tuple(target.split(";")))
        self.samples = Samples(_expanded(shards), wanted, {**DECODERS, **decoders}, transform)
        self._dataset = Dataset(self.samples, collate, name=self.samples.name)

    def __len__(self) -> int:
        return len(self.samples)

    def fetch(self, numbers: Tensor) -> Batch:
        return self._dataset.fetch(numbers)

    def labels(self) -> Tensor | None:
        """Where the target is a class number alone; that reads one small member per sample."""
        if self.samples.wanted[1] != ("cls",) or self.samples.transform is not None:
            return None
        return torch.tensor([self.samples.member(number, TARGET) for number in range(len(self))])


@final
class Samples:
    """The samples of tars as a list of (inputs, target), each decoded when it is asked for."""

    def __init__(
        self,
        paths: list[str],
        wanted: tuple[tuple[str, ...], tuple[str, ...]],
        decoders: Mapping[str, Decoder],
        transform: Callable[[Any, Any], tuple[Any, Any]] | None,
    ) -> None:
        self._open: OrderedDict[int, int] = OrderedDict()
        self.paths, self.wanted, self.decoders, self.transform = paths, wanted, decoders, transform
        _refuse_unknown_endings(wanted, decoders)
        self.keys: list[str] = []
        self._endings: list[tuple[str, str]] = []
        places: list[tuple[int, ...]] = []
        for number, path in enumerate(paths):
            for key, endings, spans in _index(path, wanted):
                self.keys.append(key)
                self._endings.append(endings)
                places.append((number, *spans))
        self._places = torch.tensor(places, dtype=torch.int64)
        """Of each sample: the number of its shard, then where inputs and target begin and how long they are."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        inputs, target = self.member(number, INPUTS), self.member(number, TARGET)
        return (inputs, target) if self.transform is None else self.transform(inputs, target)

    def __getstate__(self) -> dict[str, Any]:
        """Open files stay in their process."""
        return {**self.__dict__, "_open": OrderedDict()}

    def __del__(self) -> None:
        for handle in self._open.values():
            os.close(handle)

    def name(self, number: int) -> str:
        return f"{self.keys[number]} in {self.paths[int(self._places[number, 0])]}"

    def member(self, number: int, part: int) -> Any:
        """One of the two files of a sample, decoded."""
        shard, *spans = self._places[number].tolist()
        start, length = spans[2 * part : 2 * part + 2]
        ending = self._endings[number][part]
        name = f"{self.keys[number]}.{ending}"
        data = os.pread(self._handle(shard), length, start)
        if len(data) != length:
            raise BadData(f"{self.paths[shard]} has become shorter since it was opened: {name} is cut off.")
        try:
            return self.decoders[ending](data)
        except (ValueError, EOFError) as error:
            raise BadData(f"{self.paths[shard]}: {name} cannot be decoded ({error}). Replace it.") from None

    def _handle(self, shard: int) -> int:
        """An open file. It is read by position, so that processes forked after the opening do not disturb one
        another."""
        handle = self._open.pop(shard, None)
        if handle is None:
            if len(self._open) >= OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
            handle = os.open(self.paths[shard], os.O_RDONLY)
        self._open[shard] = handle
        return handle


def _refuse_unknown_endings(wanted: tuple[tuple[str, ...], tuple[str, ...]], decoders: Mapping[str, Decoder]) -> None:
    for ending in (*wanted[INPUTS], *wanted[TARGET]):
        if ending not in decoders:
            raise BadData(
                f"No decoder is known for .{ending} (there are {', '.join(sorted(decoders))}). Nothing was trained: give one, "
                f"as in Shards(..., decoders={{{ending!r}: function_of_bytes}})."
            )


def _index(
    path: str, wanted: tuple[tuple[str, ...], tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, str], tuple[int, ...]]]:
    """Key, the two endings and the two spans of every sample of a shard, in its order."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for name, start, length in _members(path):
        folder, _, base = name.rpartition("/")
        key, point, ending = base.partition(".")
        if not key or not point:
            continue  # a hidden file, or one without an ending, belongs to no sample
        parts = found.setdefault(f"{folder}/{key}" if folder else key, {})
        if ending.lower() in parts:
            raise BadData(f"{path} holds {name} twice: which one is meant? Nothing was trained.")
        parts[ending.lower()] = (start, length)
    if not found:
        raise BadData(f"{path} holds no samples (files called key.jpg, key.cls). Nothing was trained.")
    for key, parts in found.items():
        inputs, target = (next((ending for ending in endings if ending in parts), None) for endings in wanted)
        if inputs is None or target is None:
            lacking = " or ".join(f".{ending}" for ending in wanted[INPUTS if inputs is None else TARGET])
            raise BadData(
                f"{path}: the sample {key} has no {lacking}, only {', '.join('.' + ending for ending in parts)}. Nothing was trained: "
                "add it, remove the sample, or name other endings (inputs=..., target=...)."
            )
        yield key, (inputs, target), (*parts[inputs], *parts[target])


def _members(path: str) -> Iterator[tuple[str, int, int]]:
    """Name, start and length of every plain file of a tar. A tar that does not end as tars do was cut short."""
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                if member.isreg():
                    yield member.name.removeprefix("./"), member.offset_data, member.size
                tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps them all, at a kilobyte each
            ends = tar.offset
    except FileNotFoundError:
        raise BadData(f"There is no file {path}. Nothing was trained.") from None
    except (tarfile.TarError, OSError) as error:
        raise BadData(
            f"{path} is no whole tar file ({error}). Nothing was trained: copy it again; .tar.gz must be unpacked to .tar."
        ) from None
    with open(path, "rb") as file:
        file.seek(ends)
        if file.read(BLOCK) != bytes(BLOCK):
            raise BadData(f"{path} is cut short or damaged after {ends:,} bytes. Nothing was trained: copy it again.")


def _expanded(shards: str | Path | Sequence[str | Path]) -> list[str]:
    """Files of a name with {0000..0099} or *, or of a list of such names."""
    if not isinstance(shards, (str, Path)):
        return [path for each in shards for path in _expanded(each)]
    name = str(shards)
    if span := RANGE.search(name):
        low, high = span.groups()
        numbers = (f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1))
        return [path for number in numbers for path in _expanded(name[: span.start()] + number + name[span.end() :])]
    if "*" not in name and "?" not in name:
        return [name]
    found = sorted(glob(name))
    if not found:
        raise BadData(f"No file is called {name}. Nothing was trained.")
    return found
