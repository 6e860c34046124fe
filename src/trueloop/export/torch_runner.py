"""Runs an exported model with torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from trueloop.export.device import no_tf32
from trueloop.export.exporter import Array, Runner

if TYPE_CHECKING:
    import torch

__all__ = ["TorchRunner"]


@final
class TorchRunner(Runner):
    """Copies arrays to the device, calls, and copies the outputs back."""

    def __init__(self, called: Callable[..., Sequence[Any]], device: torch.device) -> None:
        self.called, self.device = called, device

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        with torch.no_grad(), no_tf32(self.device):
            outputs = self.called(*(torch.from_numpy(array).to(self.device) for array in inputs))
            return [tensor.cpu().numpy() for tensor in outputs]
