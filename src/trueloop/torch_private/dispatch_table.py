"""The dispatcher's table of one operator, and the dispatch keys of a call."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

__all__ = ["call_keys", "dispatch_table", "has_kernel", "is_dispatched", "traced_keys"]

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


def traced_keys(name: str, keys: Iterable[str], call: Callable[[], Any]) -> list[str]:
    """The keys whose kernels really ran in a call to the operator, in their order. For this one call, each kernel is
    replaced by one that notes its key and calls the original with the same key set. A key that falls through has no
    kernel to replace: the dispatcher skips it. A release build of torch prints no trace of its own. 2.11+"""
    ran: list[str] = []
    space, _, rest = name.partition("::")
    library: Any = torch.library.Library(space, "IMPL")  # type: ignore[no-untyped-call]
    originals = {key: torch._C._dispatch_get_computed_kernel_for_dispatch_key(name, key) for key in keys}
    operator = getattr(getattr(torch.ops, space), rest.partition(".")[0])
    schema = getattr(operator, rest.partition(".")[2] or "default")._schema
    tensors = [str(argument.type) in ("Tensor", "Optional[Tensor]") for argument in schema.arguments]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that kernels are replaced, which is meant
            for key, original in originals.items():
                library.impl(rest, _noting(key, original, ran, tensors), key, with_keyset=True, allow_override=True)
            call()
    finally:
        library._destroy()
    return ran


def _noting(key: str, original: Any, ran: list[str], tensors: Sequence[bool]) -> Callable[..., Any]:
    """`tensors`: which arguments are tensors by the schema; a number in such a place came to Python without its box."""

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        ran.append(key)
        boxed = [
            torch.tensor(value) if tensor and isinstance(value, (bool, int, float, complex)) else value
            for value, tensor in zip(args, tensors, strict=False)
        ]
        return original.call_boxed(keyset, *boxed, **kwargs)

    return kernel
