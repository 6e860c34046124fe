"""Files of torch.save and of numpy: own ones are read here, those of others in a confined process.

No file can execute code in either case: torch reads with `weights_only=True`, numpy without objects. The confined
process is for what they do not stop: files that grow in memory, that take forever, that use a fault of a parser.
"""

import io
import os
from typing import Any, BinaryIO, Final

import numpy as np
import torch

from trueloop.checkpoint.plain_values import NotPlain, decode, encode
from trueloop.trust.confine.client import Refused, read_confined
from trueloop.trust.confine.limits import Limits
from trueloop.trust.made_here import is_trusted

__all__ = ["answer_numpy", "answer_torch", "load_numpy", "load_torch"]

_HERE: Final = "trueloop.checkpoint.tensor_files"
_ROOM: Final = 1 << 26  # Bytes of an answer besides the file's own
UNPACKED: Final = 1 << 30  # Bytes of arrays of a compressed file, at most


def load_torch(data: bytes, *, own: bool = False) -> Any:
    """`own`: this user has written exactly these bytes here. Raises Refused, or whatever torch raises."""
    if own or is_trusted():
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return _plain(read_confined(f"{_HERE}:answer_torch", data, Limits.of(len(data)), 2 * len(data) + _ROOM))


def load_numpy(data: bytes) -> Any:
    """A tensor, or a dict of tensors by name. Raises Refused, or whatever numpy raises."""
    if is_trusted():
        return _arrays(io.BytesIO(data))
    return _plain(read_confined(f"{_HERE}:answer_numpy", data, Limits.of(len(data)), 2 * len(data) + UNPACKED))


def _plain(answer: bytes) -> Any:
    try:
        return decode(answer)
    except NotPlain as error:
        raise Refused("NotPlain", str(error)) from None


# -- in the confined process --


def answer_torch(file: BinaryIO, out: BinaryIO) -> None:
    out.write(encode(torch.load(file, map_location="cpu", weights_only=True), _size(file)))


def answer_numpy(file: BinaryIO, out: BinaryIO) -> None:
    out.write(encode(_arrays(file), _size(file)))


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _arrays(file: BinaryIO) -> Any:
    found: Any = np.load(file, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return torch.from_numpy(found)
    return {name: torch.from_numpy(found[name]) for name in found.files}
