"""WebDataset tar shards: files with the same key (`key.jpg`, `key.cls`) form one sample.

    Splits(train=Shards("train-{0000..0099}.tar"), valid=Shards("valid-*.tar"))

The tar headers are indexed once; then any sample is read by its offset, so that the engine owns the order and a resume
is exact, as with any other source. Nothing is unpickled.
"""

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
Transform = Callable[[Any, Any], tuple[Any, Any]]
Wanted = tuple[tuple[str, ...], tuple[str, ...]]  # Extensions of the inputs, and of the target

OPEN_FILES: Final = 64  # Shards held open in each process: systems allow a few hundred open files
INPUTS, TARGET = 0, 1
RANGE: Final = re.compile(r"\{(\d+)\.\.(\d+)\}")
BLOCK: Final = 512  # Bytes of a tar block; a tar ends with a block of zeros


# Named functions: a sample list is pickled on its way to a worker.
def _picture(data: bytes) -> Tensor:
    return picture(BytesIO(data), channels=3)


def _array(data: bytes) -> Tensor:
    return torch.from_numpy(np.load(BytesIO(data), allow_pickle=False))


# Decoder by file extension. Images become uint8 [3, height, width]; arrays may not hold Python objects.
DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType(
    {
        **dict.fromkeys(("jpg", "jpeg", "png", "webp", "ppm"), _picture),
        **dict.fromkeys(("cls", "cls2", "index", "id"), int),
        **dict.fromkeys(("txt", "text"), bytes.decode),
        "json": json.loads,
        "npy": _array,
    }
)


@final
class Shards(Source):
    """Samples in tar files. `inputs` and `target` are file extensions; alternatives are written as 'jpg;png'."""

    def __init__(
        self,
        shards: str | Path | Sequence[str | Path],
        inputs: str = "jpg;jpeg;png;webp",
        target: str = "cls",
        *,
        decoders: Mapping[str, Decoder] = DECODERS,
        transform: Transform | None = None,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        """`decoders` extend the defaults; `transform` maps the decoded (inputs, target)."""
        wanted = (tuple(inputs.split(";")), tuple(target.split(";")))
        self.samples = Samples(_expanded(shards), wanted, {**DECODERS, **decoders}, transform)
        self._dataset = Dataset(self.samples, collate, name=self.samples.name)

    def __len__(self) -> int:
        return len(self.samples)

    def fetch(self, numbers: Tensor) -> Batch:
        return self._dataset.fetch(numbers)

    def labels(self) -> Tensor | None:
        """Only where the target is a `.cls` file: reads one small member per sample."""
        if self.samples.wanted[1] != ("cls",) or self.samples.transform is not None:
            return None
        return torch.tensor([self.samples.member(number, TARGET) for number in range(len(self))])


@final
class Samples:
    """The samples of tar files as a sequence of (inputs, target), each decoded on access."""

    def __init__(
        self, paths: list[str], wanted: Wanted, decoders: Mapping[str, Decoder], transform: Transform | None
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
        # Per sample: shard, then offset and length of inputs and of target.
        self._places = torch.tensor(places, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        inputs, target = self.member(number, INPUTS), self.member(number, TARGET)
        return (inputs, target) if self.transform is None else self.transform(inputs, target)

    def __getstate__(self) -> dict[str, Any]:
        """File handles stay in their process."""
        return {**self.__dict__, "_open": OrderedDict()}

    def __del__(self) -> None:
        for handle in self._open.values():
            os.close(handle)

    def name(self, number: int) -> str:
        return f"{self.keys[number]} in {self.paths[int(self._places[number, 0])]}"

    def member(self, number: int, part: int) -> Any:
        """The decoded inputs or target of a sample."""
        shard, *spans = self._places[number].tolist()
        start, length = spans[2 * part : 2 * part + 2]
        ending = self._endings[number][part]
        name = f"{self.keys[number]}.{ending}"
        data = os.pread(self._handle(shard), length, start)
        if len(data) != length:
            raise BadData(f"{self.paths[shard]} was truncated while in use: {name} is incomplete.")
        try:
            return self.decoders[ending](data)
        except (ValueError, EOFError) as error:
            raise BadData(f"{self.paths[shard]}: {name} cannot be decoded ({error}). Replace it.") from None

    def _handle(self, shard: int) -> int:
        """An open file, read by position: forked processes share it safely."""
        handle = self._open.pop(shard, None)
        if handle is None:
            if len(self._open) >= OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
            handle = os.open(self.paths[shard], os.O_RDONLY)
        self._open[shard] = handle
        return handle


def _refuse_unknown_endings(wanted: Wanted, decoders: Mapping[str, Decoder]) -> None:
    for ending in (*wanted[INPUTS], *wanted[TARGET]):
        if ending not in decoders:
            raise BadData(
                f"No decoder for .{ending} (known: {', '.join(sorted(decoders))}). Nothing was trained: pass one, as "
                f"in Shards(..., decoders={{{ending!r}: function_of_bytes}})."
            )


def _index(path: str, wanted: Wanted) -> Iterator[tuple[str, tuple[str, str], tuple[int, ...]]]:
    """Key, extensions and spans of every sample of a shard, in file order."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for name, start, length in _members(path):
        folder, _, base = name.rpartition("/")
        key, point, ending = base.partition(".")
        if not key or not point:
            continue  # a hidden file or one without extension belongs to no sample
        parts = found.setdefault(f"{folder}/{key}" if folder else key, {})
        if ending.lower() in parts:
            raise BadData(f"{path} holds {name} twice. Nothing was trained: remove one.")
        parts[ending.lower()] = (start, length)
    if not found:
        raise BadData(f"{path} holds no samples (files called key.jpg, key.cls). Nothing was trained.")
    for key, parts in found.items():
        inputs, target = (next((ending for ending in endings if ending in parts), None) for endings in wanted)
        if inputs is None or target is None:
            lacking = " or ".join(f".{ending}" for ending in wanted[INPUTS if inputs is None else TARGET])
            raise BadData(
                f"{path}: sample {key} has no {lacking}, only {', '.join('.' + ending for ending in parts)}. Nothing "
                "was trained: add it, remove the sample, or name other extensions (inputs=..., target=...)."
            )
        yield key, (inputs, target), (*parts[inputs], *parts[target])


def _members(path: str) -> Iterator[tuple[str, int, int]]:
    """Name, offset and length of every regular file of a tar; a tar without its end blocks is truncated."""
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
        cure = "copy it again; unpack .tar.gz to .tar"
        raise BadData(f"{path} is not a valid tar file ({error}). Nothing was trained: {cure}.") from None
    with open(path, "rb") as file:
        file.seek(ends)
        if file.read(BLOCK) != bytes(BLOCK):
            raise BadData(f"{path} is truncated or damaged after {ends:,} bytes. Nothing was trained: copy it again.")


def _expanded(shards: str | Path | Sequence[str | Path]) -> list[str]:
    """The files that a name with {0000..0099} or *, or a list of such names, stands for."""
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
