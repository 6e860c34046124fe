"""Landlock: from here on this process can read and write only what is listed. Linux 5.13 and later."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

__all__ = ["allow_reading_only"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # The same numbers on x86-64 and aarch64
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_ALL_FILES: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Version of the interface -> all accesses to files that it knows: whatever is handled and not allowed is denied."""
_ALL_NETWORK: Final = 0b11  # bind and connect of TCP; from version 4
_ALL_SCOPES: Final = 0b11  # abstract sockets and signals to processes outside; from version 6
_NO_NEW_PRIVILEGES: Final = 38


def allow_reading_only(paths: Iterable[str], writable: Iterable[str] = ()) -> bool:
    """False: this kernel has no Landlock, and nothing was restricted."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, 1)
    if version < 1:
        return False
    files = _ALL_FILES[max(known for known in _ALL_FILES if known <= version)]
    handled = struct.pack("<QQQ", files, _ALL_NETWORK if version >= 4 else 0, _ALL_SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(_CREATE, handled, size, 0)
    if rules < 0:
        return False
    try:
        rights = ((_READ_FILE | _READ_DIR, paths), (_READ_FILE | _WRITE_FILE, writable))
        for access, path in ((access, path) for access, allowed in rights for path in allowed):
            with suppress(OSError):  # what is not there needs no permission
                _allow(libc, rules, path, access)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        rule = struct.pack("<Qi", access if folder else access & ~_READ_DIR, handle)
        libc.syscall(_ADD, rules, 1, rule, 0)
    finally:
        os.close(handle)
