"""Disks that fail on purpose: small ones, and such that turn read-only. Only for forked children: a mount is theirs
alone."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path
from typing import Final

__all__ = ["fill", "forbid_writing", "limit_files", "mount_small_disk", "own_mounts"]

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_C: Final = ctypes.CDLL(None, use_errno=True)


def own_mounts() -> bool:
    """From now on this process may mount what nobody else sees; False: the system does not allow it."""
    identity = os.getuid(), os.getgid()
    if _C.unshare(_NEW_MOUNTS if identity[0] == 0 else _NEW_MOUNTS | _NEW_USERS):
        return False
    if identity[0]:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {identity[0]} 1")
        Path("/proc/self/gid_map").write_text(f"0 {identity[1]} 1")
    return not _C.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None)


def mount_small_disk(at: Path, size: int) -> bool:
    at.mkdir(parents=True, exist_ok=True)
    return not _C.mount(b"tmpfs", os.fsencode(at), b"tmpfs", 0, f"size={size}".encode())


def fill(folder: Path) -> Path:
    """Until nothing more fits; the file that takes the room."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for piece in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(piece)) == piece:
                    pass
            except OSError:
                continue
    return ballast


def forbid_writing(folder: Path) -> bool:
    """A folder on a mount of its own that is read-only: it stops even root."""
    path = os.fsencode(folder)
    if _C.mount(path, path, None, _BIND, None):
        return False
    return not _C.mount(path, path, None, _REMOUNT | _BIND | _READ_ONLY, None)


def limit_files(size: int | None) -> None:
    """No file may grow beyond that; None: as before. What every system can do."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
