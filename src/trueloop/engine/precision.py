"""In what numbers it computes. Usable alone:

precision = Precision("bf16", device)
with precision.autocast():
    loss = criterion(model(x), y)
precision.scaled(loss).backward()
precision.unscale(optimizer)          # before clipping: a scaled gradient has no meaningful norm
precision.step(optimizer)             # not if a gradient overflowed
precision.learn()
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, final

import torch
from torch import Tensor

__all__ = ["PRECISIONS", "Precision"]

PRECISIONS: Final = ("fp32", "tf32", "bf16", "fp16")
_AUTOCAST: Final = {"bf16": torch.bfloat16, "fp16": torch.float16}


@final
class Precision:
    """fp32, tf32 (matrix products of CUDA devices), bf16 by autocast, fp16 by autocast with a gradient scaler."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        self._kind = _AUTOCAST.get(name)
        self.scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None
        self._as_it_is: AbstractContextManager[Any] = nullcontext()

    def autocast(self) -> AbstractContextManager[Any]:
        return self._as_it_is if self._kind is None else torch.autocast(self.device.type, self._kind)

    def scaled(self, loss: Tensor) -> Tensor:
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """For loops that have no guard: the scaler leaves the step out when a gradient overflowed."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)

    def learn(self) -> None:
        """The scaler sets its scale by what the step found."""
        if self.scaler is not None:
            self.scaler.update()

    def is_overflow(self, loss: Tensor) -> bool:
        """Is a non-finite gradient only the scaler finding its scale? Not if the unscaled loss is non-finite too."""
        return self.scaler is not None and self.scaler.get_scale() >= 1.0 and math.isfinite(loss.item())

    def state(self) -> dict[str, Any]:
        return {} if self.scaler is None else self.scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)

    @contextmanager
    def matmul_precision(self) -> Iterator[None]:
        """tf32 is a setting of the whole process: set here, and put back."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.name == "tf32" else "highest")
        convolutions = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = self.name == "tf32" or (self.name != "fp32" and convolutions)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
            torch.backends.cudnn.allow_tf32 = convolutions
