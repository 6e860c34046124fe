"""Function modes that are active: `with torch.device(...)`, `torch.set_default_device`, and ours."""

from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

__all__ = ["function_modes", "has_only_default_device"]


def function_modes() -> list[Any]:
    """The active function modes, the innermost last. 2.11+"""
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def has_only_default_device() -> bool:
    """Is the only active mode the one of torch.set_default_device? It is entered once and never left inside a loop.
    2.11+"""
    modes = function_modes()
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return len(modes) == 1 and isinstance(modes[0], DeviceContext) and modes[0] is default
