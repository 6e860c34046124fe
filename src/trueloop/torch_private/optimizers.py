"""Hooks and the step frame of an optimizer."""

import sys
from types import FrameType
from typing import Final

from torch.optim import Optimizer
from torch.optim import optimizer as base

__all__ = ["SCHEDULER_KEYS", "has_step_hooks", "steps_running", "unscales_in_step"]

SCHEDULER_KEYS: Final = ("_last_lr", "_step_count")  # in the state_dict of a learning rate scheduler. 2.11+

_STEP: Final = Optimizer.profile_hook_step(lambda: None).__code__  # around every `step()` and its hooks. 2.11+


def steps_running() -> int:
    """How many optimizer `step()` calls are on the stack, the caller's included. 2.11+"""
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        count += frame.f_code is _STEP
        frame = frame.f_back
    return count


def has_step_hooks(optimizer: Optimizer) -> bool:
    """Would `optimizer.step()` run a hook, its own or a global one? 2.11+"""
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return bool(own or base._global_optimizer_pre_hooks or base._global_optimizer_post_hooks)


def unscales_in_step(optimizer: Optimizer) -> bool:
    """A fused optimizer unscales, and skips a step, inside its own kernel: GradScaler cannot see it. 2.11+"""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))
