"""The guarded optimizer step: a non-finite loss or gradient never reaches the weights, and the host does not wait to
find out.

Fused optimizers take `found_inf`, a number on the device that turns their step into a no-op. For other optimizers the
host reads the loss and the norm. The forward has already changed the running statistics by then, so they are restored:
a skipped batch leaves no trace.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import moved
from trueloop.engine.buffers import BufferSnapshot
from trueloop.engine.fused_adam import FusedStep

__all__ = ["DeferredRead", "Guard", "LossSummary", "Position", "clear_gradients"]

FLAGS: Final = 1024  # Steps whose outcome may stay on the device before the host must read it

Position = tuple[int, int]  # (epoch, batch)


def clear_gradients(parameters: Sequence[Tensor]) -> None:
    """The part of `zero_grad` that is needed here; the rest of it takes twenty times as long."""
    for parameter in parameters:
        parameter.grad = None


@final
class DeferredRead:
    """A copy to the host that starts at construction. Later work on the device does not change it."""

    def __init__(self, numbers: Tensor) -> None:
        """No other code may write to `numbers` afterwards."""
        self._copy = numbers.to("cpu", non_blocking=True)
        self._arrived: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def values(self) -> list[float]:
        """Waits for the copy."""
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[float] = self._copy.tolist()
        return numbers


@dataclass(frozen=True, slots=True)
class _Pending:
    """Steps whose outcome is on its way to the host."""

    read: DeferredRead  # Whether each step was skipped; the sum of the losses; the last gradient norm
    positions: list[Position]
    steps: int
    buffers: list[Tensor]


@dataclass(frozen=True, slots=True)
class LossSummary:
    """The steps since the last row of metrics."""

    losses: float  # The sum over the steps that updated the weights
    steps: int
    norm: float  # The last gradient norm
    parts: tuple[float, ...] = ()  # The sums of the loss's named parts over the same steps


@final
class Guard:
    """Steps an optimizer unless the loss or the gradient norm is non-finite, and remembers the batches it skipped."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        model: nn.Module | None = None,
        *,
        ask_each_step: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.fused_step = FusedStep(optimizer)
        # The device itself skips the step; the host learns of it from `take_skipped`.
        self.on_device = device.type != "cpu" and bool(optimizer.defaults.get("fused")) and not ask_each_step
        self.avoided: set[Position] = set()  # batches that must not update the weights: the run rolled back for them
        self.buffers = BufferSnapshot(model or nn.Identity())
        self.parts: Tensor | None = None  # of this step's loss, named by `LossTerms`; averaged with the loss
        self._losses: Any = 0.0
        self._part_sums: Tensor | None = None
        self._steps = 0
        self._flags = torch.zeros(FLAGS, device=device)
        self._unread: list[Position] = []
        self._skipped: list[Position] = []
        self._spoiled = False  # Has a non-finite step been read whose running statistics are not restored yet?
        self._pending: _Pending | None = None
        self._summary: LossSummary | None = None

    def step(self, loss: Tensor, norm: Tensor, position: Position, fused_step: FusedStep | None = None) -> bool:
        """Did it update the weights? A fused optimizer on a device says True, and `take_skipped` corrects it later.
        `fused_step`: of one of several optimizers, for a step that keeps the buffers itself (`keep_buffers`)."""
        alone, fused_step = fused_step is None, fused_step or self.fused_step
        if position in self.avoided:
            self.buffers.restore()
            return False
        if self.on_device:
            if not self.room:
                self._read_flags(mid_step=True)
            nonfinite = ~torch.isfinite(loss + norm)
            found_inf = self._flags[len(self._unread)].copy_(nonfinite)
            self._unread.append(position)
            self._losses += loss.masked_fill(nonfinite, 0.0)
            self._add_parts(nonfinite)
            self._steps += 1
            fused_step.step(found_inf)
            return True
        value = loss.item()
        if math.isfinite(value) and math.isfinite(norm.item()):
            fused_step.step()
            self._losses += value
            self._add_parts()
            self._steps += 1
            if alone:
                self.buffers.take()
            return True
        self._skipped.append(position)
        if alone:
            self.buffers.restore()
        return False

    def keep_buffers(self, *, taken: bool) -> None:
        """After a step of several updates. Not after each: a later backward refuses statistics that have moved."""
        if not taken:
            self.buffers.restore()
        elif not self.on_device:
            self.buffers.take()

    def _add_parts(self, nonfinite: Tensor | None = None) -> None:
        if self.parts is not None:
            parts = self.parts if nonfinite is None else self.parts.masked_fill(nonfinite, 0.0)
            self._part_sums = parts if self._part_sums is None else self._part_sums + parts

    def add_replayed(self, losses: Tensor, skipped: Tensor, positions: Sequence[Position]) -> None:
        """Steps that a CUDA graph took: each with its loss (0 if it was skipped) and whether it was skipped."""
        self._flags[len(self._unread) : len(self._unread) + len(positions)].copy_(skipped)
        self._unread += positions
        self._losses += losses.sum()
        self._steps += len(positions)

    @property
    def room(self) -> int:
        """How many more steps fit before `take_skipped` must be called."""
        return FLAGS - len(self._unread)

    def state(self) -> dict[str, Any]:
        """What the host has not read or reported yet: a checkpoint must not lose it."""
        return {
            "asked": list(self._unread),
            "flags": self._flags[: len(self._unread)],
            "statistics": self.buffers.copies if self._unread else [],
            "losses": self._losses,
            "learned": self._steps,
            "parts": self._part_sums,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Call it after the model's own buffers were restored."""
        self._unread = [(epoch, batch) for epoch, batch in state["asked"]]
        self._flags[: len(self._unread)].copy_(state["flags"])
        self._skipped, self._pending, self._summary = [], None, None
        self._losses, self._steps = moved(state["losses"], self._flags.device), state["learned"]
        self._part_sums = moved(state.get("parts"), self._flags.device)
        self.buffers.take()
        for copy, saved in zip(self.buffers.copies, state["statistics"], strict=False):
            copy.copy_(saved)

    def take_skipped(self) -> list[Position]:
        """The batches skipped since the last call. Waits for the device."""
        self._finish_read()
        self._read_flags()
        skipped, self._skipped = self._skipped, []
        return list(dict.fromkeys(skipped))  # a step with several updates may be skipped in each

    def _read_flags(self, *, mid_step: bool = False) -> None:
        """`mid_step`: graphs of the step are alive, and their backward refuses statistics that have moved."""
        if self._unread:
            flags = self._flags[: len(self._unread)].tolist()
            nonfinite = [position for position, flag in zip(self._unread, flags, strict=True) if flag]
            self._steps -= len(nonfinite)
            self._unread.clear()
            self._spoiled = self._spoiled or bool(nonfinite)
            self._skipped += nonfinite
            if mid_step:
                return
            if self._spoiled:
                self.buffers.restore()
            else:
                self.buffers.take()
            self._spoiled = False

    def _add_skipped(self, nonfinite: list[Position]) -> None:
        """The step that spoiled the running statistics is unknown: they go back to the last state known to be good."""
        self._skipped += nonfinite
        if nonfinite:
            self.buffers.restore()

    # -- reading later --

    @property
    def reading(self) -> bool:
        """Has `start_read` been called without a matching `finish_read`?"""
        return self._pending is not None

    def start_read(self, norm: Tensor) -> None:
        """Start copying the outcome of all unread steps to the host, for `finish_read`, and reset the loss counters."""
        losses = torch.as_tensor(self._losses, device=self._flags.device)
        parts = (self._flags[: len(self._unread)], losses, norm)
        numbers = torch.cat([part.reshape(-1).to(self._flags.dtype) for part in parts])
        self._pending = _Pending(DeferredRead(numbers), self._unread, self._steps, self.buffers.current())
        self._unread = []
        self.reset_losses()

    def finish_read(self) -> list[Position]:
        """The batches skipped among the steps of `start_read`. Waits for those steps only."""
        self._finish_read()
        skipped, self._skipped = self._skipped, []
        return skipped

    def take_summary(self) -> LossSummary | None:
        """The summary of the last finished read; None if it was taken already."""
        summary, self._summary = self._summary, None
        return summary

    def _finish_read(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        *flags, losses, norm = pending.read.values()
        nonfinite = [position for position, flag in zip(pending.positions, flags, strict=True) if flag]
        self._summary = LossSummary(losses, pending.steps - len(nonfinite), norm)
        if not nonfinite:
            self.buffers.copies = pending.buffers
        self._add_skipped(nonfinite)

    # -- losses --

    def losses(self) -> tuple[float, int]:
        """Sum and number of the losses since `reset_losses`, without skipped steps."""
        return float(self._losses), self._steps

    def loss_parts(self) -> tuple[float, ...]:
        """The sums of the loss's parts over the same steps."""
        return () if self._part_sums is None else tuple(self._part_sums.tolist())

    def reset_losses(self) -> None:
        self._losses, self._steps, self._part_sums = 0.0, 0, None
