"""Files of a folder that a stranger may have made. Reading never waits for a pipe, and texts come without characters
that steer a terminal."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

__all__ = ["check_regular", "open_regular", "parse_json", "printable", "read_regular"]

_STEERING: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and the ends of lines and pages; and marks that turn the direction of writing."""


def open_regular(path: Path) -> BinaryIO:
    """Raises OSError, also for what is not a regular file: reading a pipe or /dev/zero would never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(kind, "Is a directory" if kind == errno.EISDIR else "it is not a regular file")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """As `open_regular`; also raises OSError for a file of more than `most` bytes, or than fit into this machine's
    memory: a file of 4 TB need not take any place on disk."""
    with open_regular(path) as file:
        _check_size(file, most)
        return file.read()


def check_regular(path: Path) -> None:
    """Raises OSError where `read_regular` would, before another reader opens it."""
    with open_regular(path) as file:
        _check_size(file, None)


def _check_size(file: BinaryIO, most: int | None) -> None:
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if most is None else most
    if os.fstat(file.fileno()).st_size > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit >> 20:,} MB")


def parse_json(data: bytes | str) -> Any:
    """Raises ValueError, also where it is nested too deeply to be parsed."""
    try:
        return printable(json.loads(data))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def printable(value: Any) -> Any:
    """The same value, with control characters in its texts and keys written out: \\x1b."""
    if isinstance(value, str):
        return _STEERING.sub(lambda found: ascii(found[0])[1:-1], value)
    if isinstance(value, dict):
        return {printable(key): printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [printable(each) for each in value]
    return value
