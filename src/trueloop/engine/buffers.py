"""Snapshots of a model's buffers, so that a skipped batch leaves its running statistics unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trueloop.torch_private.foreach import foreach_copy_
from trueloop.torch_private.tensors import tensor_version

__all__ = ["BufferSnapshot"]


@final
class BufferSnapshot:
    """A model's buffers as they were after the last good step. Those that never change (masks, tables) cost nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = list(model.buffers())
        self.copies = [buffer.clone() for buffer in self._buffers]
        self._versions = [tensor_version(buffer) for buffer in self._buffers]
        # torch's norm layers write their running statistics without increasing the version counter.
        unversioned = {
            id(buffer)
            for module in model.modules()
            if isinstance(getattr(module, "running_mean", None), Tensor)
            for buffer in module.buffers(recurse=False)
        }
        self._unversioned = [id(buffer) in unversioned for buffer in self._buffers]

    def _changed(self) -> list[int]:
        entries = enumerate(zip(self._buffers, self._versions, self._unversioned, strict=True))
        return [i for i, (buffer, version, unversioned) in entries if unversioned or tensor_version(buffer) != version]

    def _copy(self, sources: list[Tensor], into: list[Tensor]) -> None:
        changed = self._changed()
        if changed:
            with torch.no_grad():
                foreach_copy_([into[i] for i in changed], [sources[i] for i in changed])
            for i in changed:
                self._versions[i] = tensor_version(self._buffers[i])

    def ignore_versions(self) -> None:
        """From now on every buffer counts as changed: CUDA graphs and compiled code do not increase versions."""
        self._unversioned = [True] * len(self._buffers)

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Restores the buffers at the end of the block."""
        before = self.current()
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(self._buffers, before, strict=True):
                    buffer.copy_(value)

    def take(self) -> None:
        self._copy(self._buffers, self.copies)

    def restore(self) -> None:
        self._copy(self.copies, self._buffers)

    def current(self) -> list[Tensor]:
        """Copies of the buffers now. Assign them to `copies` once the steps before them are known to be good."""
        return [buffer.clone() for buffer in self._buffers]
