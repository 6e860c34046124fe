"""Operations on lists of tensors, one kernel for many tensors; torch's optimizers are built on them. All 2.11+."""

import torch

__all__ = ["foreach_add", "foreach_add_", "foreach_copy_", "foreach_div", "foreach_lerp_", "foreach_mul"]
__all__ += ["foreach_mul_", "foreach_norm", "foreach_sqrt", "foreach_sub", "foreach_sub_", "fused_adam_"]
__all__ += ["fused_adamw_", "fused_sgd_"]

foreach_add, foreach_add_ = torch._foreach_add, torch._foreach_add_
foreach_sub, foreach_sub_ = torch._foreach_sub, torch._foreach_sub_
foreach_mul, foreach_mul_ = torch._foreach_mul, torch._foreach_mul_
foreach_div, foreach_sqrt, foreach_norm = torch._foreach_div, torch._foreach_sqrt, torch._foreach_norm
foreach_copy_, foreach_lerp_ = torch._foreach_copy_, torch._foreach_lerp_
fused_adam_, fused_adamw_, fused_sgd_ = torch._fused_adam_, torch._fused_adamw_, torch._fused_sgd_
"""One optimizer step as one kernel; `found_inf` skips it on the device, without a host sync."""
