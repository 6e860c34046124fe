"""Operators made by `torch.library.custom_op`, and operators of `torch.ops`."""

from typing import Any

from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket

__all__ = ["default_overload", "is_custom_op", "is_operator", "mutates_arguments", "registered_vmap"]


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


def mutates_arguments(value: Any) -> tuple[bool, ...]:
    """Which arguments its schema declares as written. 2.11+"""
    arguments = default_overload(value)._schema.arguments
    return tuple(each.alias_info is not None and each.alias_info.is_write for each in arguments)


def registered_vmap(value: Any) -> bool:
    """Was `register_vmap` called? 2.11+"""
    return isinstance(value, CustomOpDef) and value._vmap_fn is not None
