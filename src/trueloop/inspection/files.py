"""Files of tensors, opened safely: no file can execute code, and every error is one sentence.

.safetensors                  names and tensors
.pt .pth .bin .ckpt           what torch.load(weights_only=True) takes
.npy .npz                     arrays; no objects
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from trueloop.checkpoint.contents import read_weights_file
from trueloop.checkpoint.tensor_files import load_numpy, load_torch
from trueloop.checkpoint.unreadable import why_unreadable
from trueloop.errors import BadCheckpoint, did_you_mean
from trueloop.trust.files import read_regular

__all__ = ["KNOWN", "PICKLED", "Opened", "leaves_of", "open_file"]

PICKLED: Final = (".pt", ".pth", ".bin", ".ckpt")
ARRAYS: Final = (".npy", ".npz")
KNOWN: Final = (".safetensors", *PICKLED, *ARRAYS)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a file holds, flat: 'optimizer.state.0.exp_avg' -> a tensor."""

    path: Path
    size: int
    format: str
    tensors: Mapping[str, Tensor]
    others: Mapping[str, Any]  # plain values

    def named(self, key: str | None) -> tuple[str, Tensor]:
        """One tensor; without a key, the only one. Raises BadCheckpoint."""
        if key is None:
            if len(self.tensors) == 1:
                return next(iter(self.tensors.items()))
            if not self.tensors:
                raise BadCheckpoint(f"{self.path} holds no tensor. Nothing was shown.")
            some = ", ".join(list(self.tensors)[:5]) + (" ..." if len(self.tensors) > 5 else "")
            which = f"Which of the {len(self.tensors)} tensors of {self.path}?"
            raise BadCheckpoint(f"{which} Nothing was shown: type {self.path}:NAME. Names: {some}.")
        if key not in self.tensors:
            what = "a plain value, not a tensor" if key in self.others else "missing"
            near = did_you_mean(key, self.tensors)
            raise BadCheckpoint(f"{key!r} in {self.path} is {what}.{near} Nothing was shown.")
        return key, self.tensors[key]


def open_file(path: Path) -> Opened:
    """Raises BadCheckpoint."""
    data = _bytes(path)
    if path.suffix == ".safetensors":
        return Opened(path, len(data), "safetensors", read_weights_file(data, str(path)), {})
    if path.suffix in ARRAYS:
        return Opened(path, len(data), "numpy", _arrays(data, path), {})
    if path.suffix in PICKLED:
        leaves = dict(leaves_of(_loaded(data, path)))
        tensors = {name: value for name, value in leaves.items() if isinstance(value, Tensor)}
        others = {name: value for name, value in leaves.items() if not isinstance(value, Tensor)}
        return Opened(path, len(data), "torch, read with weights_only=True", tensors, others)
    raise BadCheckpoint(f"{path} has an unknown file type. Nothing was shown. Known: {', '.join(KNOWN)}.")


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise BadCheckpoint(f"{path} is a folder, not a file of tensors. Nothing was shown: name a file in it.")
    if not path.exists():
        near = did_you_mean(path.name, (each.name for each in path.parent.iterdir())) if path.parent.is_dir() else ""
        raise BadCheckpoint(f"There is no file {path}.{near} Nothing was shown.")
    try:
        return read_regular(path)
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}). Nothing was shown.") from None


def _loaded(data: bytes, path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old formats
            return load_torch(data)
    except Exception as error:  # noqa: BLE001 - torch may raise anything for a malformed file
        raise BadCheckpoint(f"{path} {why_unreadable(error)}. Nothing was shown.") from None


def _arrays(data: bytes, path: Path) -> dict[str, Tensor]:
    try:
        found = load_numpy(data)
    except Exception as error:  # noqa: BLE001 - zip files break in many ways
        raise BadCheckpoint(f"{path} {why_unreadable(error, 'numpy')}. Nothing was shown.") from None
    return found if isinstance(found, dict) else {path.stem: found}


def leaves_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors and plain values inside dicts, lists and tuples, by their paths."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves_of(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Tensor, Mapping, list, tuple)) for item in value):
        for number, item in enumerate(value):
            yield from leaves_of(item, f"{name}.{number}" if name else str(number))
    else:
        yield name or "tensor", value
