"""A fresh user namespace, and in it a network without any device. Needs a process with one thread."""

import ctypes
from typing import Final

__all__ = ["leave_network"]

_USER, _NETWORK, _IPC, _NAMES = 0x10000000, 0x40000000, 0x08000000, 0x04000000
_EVERYTHING: Final = _USER | _NETWORK | _IPC | _NAMES


def leave_network() -> bool:
    """False: this kernel or container does not allow it, and nothing has changed."""
    return bool(ctypes.CDLL(None, use_errno=True).unshare(_EVERYTHING) == 0)
