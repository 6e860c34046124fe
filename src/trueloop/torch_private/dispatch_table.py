"""The dispatcher's table of one operator, and the dispatch keys of a call."""

from collections.abc import Callable, Iterable
from typing import Final

import torch
from torch import Tensor

__all__ = ["call_keys", "dispatch_table", "has_kernel", "is_dispatched"]

dispatch_table: Final[Callable[[str], str]] = torch._C._dispatch_dump_table
"""One line for each key: where its kernel was registered, and of which kind it is. 2.11+"""
is_dispatched: Final[Callable[[str], bool]] = torch._C._dispatch_has_kernel
"""Has the operator kernels? Overloads that exist for TorchScript only (`aten::add.str`) have none. 2.11+"""
has_kernel: Final[Callable[[str, str], bool]] = torch._C._dispatch_has_kernel_for_dispatch_key
"""Was a kernel registered for exactly this key? Composites and fallbacks do not count. 2.11+"""


def call_keys(tensors: Iterable[Tensor]) -> list[str]:
    """The keys that the dispatcher asks for these arguments, in this thread, highest priority first. 2.11+"""
    keys = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    names: list[str] = []
    while (highest := keys.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        names.append(torch._C._dispatch_key_name(highest))
        keys = keys.remove(highest)
    return names
