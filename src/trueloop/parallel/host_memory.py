"""The memory of freed tensors on a CPU goes back to the system at once.

glibc keeps a freed block of up to 32 MB for later ones, and other sizes fill its place in part. fsdp gathers and frees
the weights of every block in every step, so a process came to hold several times what it needs. With a fixed threshold
each large block is a mapping of its own, which is gone when the block is freed; the next one costs page faults.
"""

import ctypes
import os
from typing import Final

__all__ = ["LARGE", "return_freed_memory"]

LARGE: Final = 1 << 20  # Bytes from which a block is a mapping of its own: weights and activations, no small values
_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of malloc.h
_ASKED: Final = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")  # Settings of the user's own, which stay


def return_freed_memory() -> bool:
    """For the rest of this process. False: the C library is not glibc, or the user has set its allocator."""
    if any(name in os.environ for name in _ASKED):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, LARGE))
