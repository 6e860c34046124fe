"""Operators made by `torch.library.custom_op`, and operators of `torch.ops`."""

import sys
from types import FrameType
from typing import Any

import torch
from torch._library import autograd
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.simple_registry import singleton
from torch._ops import OpOverload, OpOverloadPacket

__all__ = ["custom_definition", "default_overload", "has_fake", "is_custom_op", "is_operator", "mutates_arguments"]
__all__ += ["in_recorded_call", "registered_autograd", "registered_vmap"]


def is_custom_op(value: Any) -> bool:
    """Made by `torch.library.custom_op`? 2.11+"""
    return isinstance(value, CustomOpDef)


def is_operator(value: Any) -> bool:
    """`torch.ops.namespace.name`, with or without its overload? 2.11+"""
    return isinstance(value, (OpOverload, OpOverloadPacket))


def default_overload(value: Any) -> Any:
    """The operator itself. 2.11+"""
    if isinstance(value, CustomOpDef):
        return value._opoverload
    return value if isinstance(value, OpOverload) else getattr(value, value.overloads()[0])


def has_fake(value: Any) -> bool:
    """Was `register_fake` called, or is there a meta or a composite kernel? 2.11+"""
    if isinstance(value, CustomOpDef):
        return value._abstract_fn is not None  # its Meta kernel is there in any case, and raises without one
    operator = default_overload(value)
    name = operator.name()
    kernels = ("Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    given = singleton.find(name).fake_impl.kernel is not None
    return given or any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in kernels)


def mutates_arguments(value: Any) -> tuple[bool, ...]:
    """Which arguments its schema declares as written. 2.11+"""
    arguments = default_overload(value)._schema.arguments
    return tuple(each.alias_info is not None and each.alias_info.is_write for each in arguments)


def registered_vmap(value: Any) -> bool:
    """Was `register_vmap` called? 2.11+"""
    return isinstance(value, CustomOpDef) and value._vmap_fn is not None


def registered_autograd(value: Any) -> bool:
    """Was `register_autograd` called on a custom_op? 2.11+"""
    return isinstance(value, CustomOpDef) and value._backward_fn is not None


def custom_definition(name: str) -> Any:
    """What `torch.library.custom_op` made of this name (`mine::op`, without an overload); None: nothing. 2.11+"""
    return OPDEFS.get(name.partition(".")[0])


def in_recorded_call() -> bool:
    """Is a custom_op being called whose backward may be asked for? Gradients are off inside such a call. 2.11+"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != autograd.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "forward"
