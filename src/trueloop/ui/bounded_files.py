"""Files of a run folder, read as hostile input: only regular files, no links, never more bytes than asked for.

Every part of a path is opened without following symbolic links, and a FIFO is never waited for. So a run folder from a
stranger cannot show a file that lies elsewhere, hang the page or fill the memory.
"""

import json
import os
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from trueloop.errors import NotARun

__all__ = [
    "MOST_JSON",
    "mode_of",
    "open_inside",
    "read_json",
    "read_tail",
    "read_text",
    "sampled_lines",
    "stamp",
    "text_of",
]

MOST_JSON: Final = 16 << 20
"""Bytes of a JSON file, at most: the largest that trueloop writes are some MB."""
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


def open_inside(folder: Path, name: str) -> BinaryIO | None:
    """A regular file below a folder, for reading; None where there is none. `name` has forward slashes."""
    *parents, last = PurePosixPath(name).parts or ("",)
    if not last or any(part in ("..", "/") for part in (*parents, last)):
        return None
    try:
        at = os.open(folder, _FOLDER)
    except (OSError, ValueError):
        return None
    try:
        for part in parents:
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        handle = os.open(last, _FILE, dir_fd=at)
    except (OSError, ValueError):
        return None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return os.fdopen(handle, "rb")


def stamp(folder: Path, name: str) -> tuple[int, int, int]:
    """(inode, size, time of the last change) of a file: what is cached about it holds while they stay. Zeros: none."""
    with suppress(OSError, ValueError):
        found = os.stat(f"{folder}/{name}", follow_symlinks=False)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return 0, 0, 0


def mode_of(path: Path) -> int:
    """What kind of file it is, for `stat.S_ISDIR` and others; a link is a link. 0: there is none."""
    with suppress(OSError, ValueError):
        return os.lstat(path).st_mode
    return 0


def read_json(folder: Path, name: str, most: int = MOST_JSON) -> Any:
    """The value in a JSON file; None where there is no such file. Raises NotARun with what is wrong."""
    file = open_inside(folder, name)
    if file is None:
        return None
    with file:
        data = file.read(most + 1)
    if len(data) > most:
        raise NotARun(f"{name} is larger than {most >> 20} MB and was not read.")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotARun(f"{name} is damaged ({str(error)[:200]}).") from None


def read_text(folder: Path, name: str, most: int = 1 << 20) -> str | None:
    """The first bytes of a file as text; None where there is no such file."""
    file = open_inside(folder, name)
    if file is None:
        return None
    with file:
        return text_of(file.read(most))


def read_tail(folder: Path, name: str, most: int = 64 << 10) -> str | None:
    """The last bytes of a file as text, from a line's start; None where there is no such file."""
    file = open_inside(folder, name)
    if file is None:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    if size > most and b"\n" in data:
        data = data.partition(b"\n")[2]
    return text_of(data)


def text_of(data: bytes) -> str:
    """Bytes as text for a page: what is not UTF-8 is shown escaped."""
    return data.decode("utf-8", errors="backslashreplace")


def sampled_lines(folder: Path, name: str, blocks: int, size: int) -> list[bytes]:
    """Complete lines: all of a small file; of a larger one, those in some blocks of bytes, spread evenly over it."""
    file = open_inside(folder, name)
    if file is None:
        return []
    with file:
        length = os.fstat(file.fileno()).st_size
        if length <= blocks * size:
            return file.read(length).split(b"\n")[:-1]
        lines: list[bytes] = []
        for number in range(blocks):
            offset = round((length - size) * number / (blocks - 1))
            file.seek(offset)
            lines += file.read(size).split(b"\n")[offset > 0 : -1]
    return lines
