"""Base classes of layers, the dictionaries of a module, the frames of a module call."""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.nn.modules.batchnorm import _NormBase as NormBase
from torch.nn.modules.conv import _ConvNd as ConvNd
from torch.nn.modules.conv import _ConvTransposeNd as ConvTransposeNd
from torch.nn.modules.dropout import _DropoutNd as DropoutNd
from torch.nn.modules.loss import _Loss as Loss

__all__ = ["APPLY", "BUFFERS", "CALL_FRAMES", "COMPILED_CALL", "EXTRA_STATE", "FORWARD_HOOKS", "HOOKS", "LOAD_FRAME"]
__all__ += ["MEMBERS", "SYNC_BUFFERS", "WRAPPED_MODULE", "BatchNorm", "ConvNd", "ConvTransposeNd", "DropoutNd"]
__all__ += ["Loss", "NormBase"]
__all__ += ["has_forward_hooks", "is_compiled_in_place", "is_initialized", "own_buffers", "own_modules"]
__all__ += ["own_parameters"]

# BatchNorm: BatchNorm1d to 3d, lazy and synchronized ones. NormBase: these and InstanceNorm. ConvNd: all convolutions.
# ConvTransposeNd: the transposed ones. DropoutNd: all dropouts. Loss: all losses. 2.11+

own_parameters: Final[Callable[[nn.Module], dict[str, nn.Parameter | None]]] = attrgetter("_parameters")
"""A module's own parameters by attribute. `getattr` may compute one instead: spectral_norm, parametrizations. 2.11+"""
own_buffers: Final[Callable[[nn.Module], dict[str, Tensor | None]]] = attrgetter("_buffers")
"""A module's own buffers by attribute. 2.11+"""
own_modules: Final[Callable[[nn.Module], dict[str, nn.Module | None]]] = attrgetter("_modules")
"""A module's children by attribute, duplicates included; `named_children` leaves those out. 2.11+"""

BUFFERS: Final = "_buffers"  # The attribute behind own_buffers. 2.11+
MEMBERS: Final = ("_parameters", BUFFERS, "_modules")  # behind own_parameters, own_buffers and own_modules. 2.11+
FORWARD_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks")  # Attributes that hold the hooks of a forward. 2.11+
HOOKS: Final = (*FORWARD_HOOKS, "_backward_hooks", "_backward_pre_hooks")  # of all hooks of a module's call. 2.11+
COMPILED_CALL: Final = "_compiled_call_impl"  # The attribute that `module.compile()` sets; None otherwise. 2.11+
CALL_FRAMES: Final = ("_wrapped_call_impl", "_call_impl")  # Functions between `model(x)` and `forward`. 2.11+
LOAD_FRAME: Final = "_load_from_state_dict"  # where `load_state_dict(assign=True)` sets attributes. 2.11+
WRAPPED_MODULE: Final = "_orig_mod"  # in `torch.compile(module)`: the module, and a prefix in its state_dict. 2.11+
EXTRA_STATE: Final = "_extra_state"  # How the key of `get_extra_state` in a state_dict ends. 2.11+
SYNC_BUFFERS: Final = "_sync_buffers"  # The method of DistributedDataParallel that broadcasts buffers. 2.11+
APPLY: Final = "_apply"  # behind `to`, `cuda`, `half` ...: a class that overrides it moves its own tensors. 2.11+


def has_forward_hooks(module: nn.Module) -> bool:
    """Would a call of this module run a forward hook of its own? 2.11+"""
    return any(getattr(module, name) for name in FORWARD_HOOKS)


def is_initialized(module: nn.Module) -> bool:
    """Did its class call `super().__init__()`? 2.11+"""
    return vars(module).keys() >= set(MEMBERS)


def is_compiled_in_place(module: nn.Module) -> bool:
    """Was `module.compile()` called? 2.11+"""
    return getattr(module, COMPILED_CALL) is not None
