"""Dispatch modes, fake tensors, operator schemas, pytrees."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["PYTREE_LOGGER", "FakeTensorMode", "TorchDispatchMode", "dispatch_modes", "is_transformed", "set_grad"]
__all__ += ["fake_mode", "operator_packet", "operator_schema", "pytree", "tracing_state", "unset_fake_temporarily"]
__all__ += ["MODE_FRAMES", "vmap_without_loops"]

# TorchDispatchMode: sees every operator call. FakeTensorMode: runs a model on shapes alone; unset_fake_temporarily:
# real tensors inside it. pytree: flattens nested containers of tensors. 2.11+

is_transformed: Final[Callable[[], Any]] = torch._C._functorch.peek_interpreter_stack  # in torch.func. 2.11+
tracing_state: Final[Callable[[], Any]] = torch._C._get_tracing_state  # Not None inside torch.jit.trace. 2.11+
dispatch_modes: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack
"""The number of active dispatch modes (fake tensors, flop counters). 2.11+"""
set_grad: Final[Callable[[bool], None]] = torch._C._set_grad_enabled
"""`torch.set_grad_enabled` without its object for a `with` block, twice at every call that observers see. 2.11+"""
operator_schema: Final[Callable[[Any], Any]] = attrgetter("_schema")
"""Arguments and results of an operator, with what it writes and what aliases. 2.11+"""
operator_packet: Final[Callable[[Any], Any]] = attrgetter("_overloadpacket")
"""`aten.add` of `aten.add.Tensor`: the key of torch's flop formulas. 2.11+"""
MODE_FRAMES: Final = ("_compile.py", "eval_frame.py", "_python_dispatch.py")
"""Files of torch whose frames stand between a dispatch mode and the code that called the operation. 2.11+"""
PYTREE_LOGGER: Final = "torch.utils._pytree"  # The logger that reports types registered twice. 2.11+


def fake_mode() -> FakeTensorMode:
    """Runs code on shapes alone; a kernel that asks a fake tensor for its memory is an error. By default torch gives it
    a null pointer, and a kernel that reads there ends the CUDA context. 2.11+"""
    mode = FakeTensorMode()
    mode._allow_unsafe_data_ptr_access = False
    return mode


@contextmanager
def vmap_without_loops() -> Iterator[None]:
    """Inside, torch.vmap raises for an operation without a batching rule, instead of a loop over the samples. 2.11+"""
    functorch: Any = torch._C._functorch
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)
