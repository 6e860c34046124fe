"""Files of a folder that a stranger may have made. Reading never waits for a pipe, and texts come without characters
that steer a terminal."""

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

__all__ = ["parse_json", "printable", "read_regular"]

_STEERING: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and the ends of lines and pages; and marks that turn the direction of writing."""


def read_regular(path: Path) -> bytes:
    """Raises OSError, also for what is not a regular file: reading a pipe or /dev/zero would never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            kind = errno.EISDIR if stat.S_ISDIR(os.fstat(handle).st_mode) else errno.EINVAL
            raise OSError(kind, "Is a directory" if kind == errno.EISDIR else "it is not a regular file")
        return file.read()


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
