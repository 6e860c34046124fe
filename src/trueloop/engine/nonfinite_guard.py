"""The update, guarded: a loss or a gradient that is no number never reaches the weights, and the host does not wait to
find out.

Fused optimizers take `found_inf`, a number on the device that turns their step into nothing; the others are asked on
the host. Running statistics, which the forward has changed by then, are put back: a batch that was held back leaves no
trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import moved
from trueloop.engine.deferred_read import DeferredRead
from trueloop.engine.fused_adam import FusedStep
from trueloop.parallel.gradient import clip, norm_of
from trueloop.torch_private.foreach import foreach_copy_
from trueloop.torch_private.tensors import tensor_version

__all__ = ["BufferSnapshot", "Guard", "LossSummary", "Position", "clear_gradients", "clip", "norm_of"]

FLAGS: Final = 1024
"""Steps whose outcome may stay on the device before somebody asks."""

Position = tuple[int, int]
"""(epoch, batch)."""


def clear_gradients(parameters: Sequence[Tensor]) -> None:
    """No gradients. What `zero_grad` does, without what it does besides, which takes twenty times as long."""
    for parameter in parameters:
        parameter.grad = None


@final
class BufferSnapshot:
    """The buffers of a model, as they were after the last good step. Those that nobody changes (masks, tables) cost
    nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = list(model.buffers())
        self.copies = [buffer.clone() for buffer in self._buffers]
        self._versions = [tensor_version(buffer) for buffer in self._buffers]
        # torch's norms write their running statistics without counting it as a change.
        untold = {
            id(b)
            for m in model.modules()
            if isinstance(getattr(m, "running_mean", None), Tensor)
            for b in m.buffers(recurse=False)
        }
        self._untold = [id(buffer) in untold for buffer in self._buffers]

    def _changed(self) -> list[int]:
        told = zip(self._buffers, self._versions, self._untold, strict=True)
        return [
            number
            for number, (buffer, version, untold) in enumerate(told)
            if untold or tensor_version(buffer) != version
        ]

    def _copy(self, sources: list[Tensor], into: list[Tensor]) -> None:
        changed = self._changed() if self._buffers else ()
        if changed:
            with torch.no_grad():
                foreach_copy_([into[number] for number in changed], [sources[number] for number in changed])
            for number in changed:
                self._versions[number] = tensor_version(self._buffers[number])

    def all_change(self) -> None:
        """A step that is played from a recording counts nothing as a change."""
        self._untold = [True] * len(self._buffers)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Afterwards they are as they were before."""
        before = [buffer.clone() for buffer in self._buffers]
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(self._buffers, before, strict=True):
                    buffer.copy_(value)

    def keep(self) -> None:
        self._copy(self._buffers, self.copies)

    def put_back(self) -> None:
        self._copy(self.copies, self._buffers)

    def propose(self) -> list[Tensor]:
        """As they are now: to be kept (`accept`) if it turns out that all was well."""
        return [buffer.clone() for buffer in self._buffers]

    def accept(self, proposed: list[Tensor]) -> None:
        self.copies = proposed


@dataclass(frozen=True, slots=True)
class _Asked:
    """Steps whose outcome the device has been asked for."""

    question: DeferredRead
    """For each step whether it was held back; the sum of the losses; the length of the last gradient."""
    at: list[Position]
    learned: int
    statistics: list[Tensor]


@dataclass(frozen=True, slots=True)
class LossSummary:
    """What a line of metrics says of the steps since the one before it."""

    losses: float
    """The sum of those that were learned from."""
    learned: int
    norm: float
    """Of the last gradient."""


@final
class Guard:
    """Steps an optimizer unless the loss or the gradient's norm is no number, and remembers which batches it held
    back."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        model: nn.Module | None = None,
        *,
        ask_each_step: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.direct = FusedStep(optimizer)
        self.on_device = device.type != "cpu" and bool(optimizer.defaults.get("fused")) and not ask_each_step
        """Held back by the device itself: what happened is known when `held` is next called."""
        self.avoided: set[Position] = set()
        """Batches that no weight shall learn from, whatever they bring: a run went back because of them."""
        self.statistics = BufferSnapshot(model or nn.Identity())
        self._losses: Any = 0.0
        self._learned = 0
        self._flags = torch.zeros(FLAGS, device=device)
        self._asked: list[Position] = []
        self._held: list[Position] = []
        self._question: _Asked | None = None
        self._line: LossSummary | None = None

    def step(self, loss: Tensor, norm: Tensor, at: Position) -> bool:
        """Was it taken? With a fused optimizer on a device nobody knows yet: True, and `held` tells later."""
        if at in self.avoided:
            self.statistics.put_back()
            return False
        if self.on_device:
            bad = ~torch.isfinite(loss + norm)
            found = self._flags[len(self._asked)].copy_(bad)
            self._asked.append(at)
            self._count(loss.masked_fill(bad, 0.0))
            self.direct.step(found)
            return True
        value = loss.item()
        if math.isfinite(value) and math.isfinite(norm.item()):
            self.direct.step()
            self._count(value)
            self.statistics.keep()
            return True
        self._held.append(at)
        self.statistics.put_back()
        return False

    def played(self, losses: Tensor, held: Tensor, at: Sequence[Position]) -> None:
        """Steps that the device has taken by itself, each with its loss (0 where it was held back) and whether it was
        held back."""
        self._flags[len(self._asked) : len(self._asked) + len(at)].copy_(held)
        self._asked += at
        self._losses += losses.sum()
        self._learned += len(at)

    @property
    def room(self) -> int:
        """How many more steps can be remembered."""
        return FLAGS - len(self._asked)

    def state(self) -> dict[str, Any]:
        """What is not known yet, and what has not been told yet: a checkpoint between two questions must not forget
        it."""
        return {
            "asked": list(self._asked),
            "flags": self._flags[: len(self._asked)],
            "statistics": self.statistics.copies if self._asked else [],
            "losses": self._losses,
            "learned": self._learned,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """After the model's own buffers have been restored."""
        self._asked = [(epoch, batch) for epoch, batch in state["asked"]]
        self._flags[: len(self._asked)].copy_(state["flags"])
        self._held, self._question, self._line = [], None, None
        self._losses, self._learned = moved(state["losses"], self._flags.device), state["learned"]
        self.statistics.keep()
        for copy, kept in zip(self.statistics.copies, state["statistics"], strict=False):
            copy.copy_(kept)

    @property
    def full(self) -> bool:
        """No more steps can be remembered: `held` must be called."""
        return self.room == 0

    def held(self) -> list[Position]:
        """The batches held back since this was last asked. On a device, this waits for it."""
        self._hear()
        if self._asked:
            flags = self._flags[: len(self._asked)].tolist()
            bad = [at for at, flag in zip(self._asked, flags, strict=True) if flag]
            self._learned -= len(bad)
            self._asked.clear()
            if not bad:
                self.statistics.keep()
            self._found(bad)
        held, self._held = self._held, []
        return held

    def _found(self, bad: list[Position]) -> None:
        """Which step spoiled the running statistics is known only now: they go back to when all was known to be
        well."""
        self._held += bad
        if bad:
            self.statistics.put_back()

    # -- asking now and hearing later --

    @property
    def waiting(self) -> bool:
        """Is there a question that has not been answered?"""
        return self._question is not None

    def ask(self, norm: Tensor) -> None:
        """For the outcome of all steps since the last question; `answered` has it, and the device goes on meanwhile.
        Then count anew."""
        losses = torch.as_tensor(self._losses, device=self._flags.device)
        numbers = torch.cat(
            [each.reshape(-1).to(self._flags.dtype) for each in (self._flags[: len(self._asked)], losses, norm)]
        )
        self._question = _Asked(DeferredRead(numbers), self._asked, self._learned, self.statistics.propose())
        self._asked = []
        self.told()

    def answered(self) -> list[Position]:
        """The batches held back among the steps that were asked for. Waits for those steps, not for what came after
        them."""
        self._hear()
        held, self._held = self._held, []
        return held

    def line(self) -> LossSummary | None:
        """What the question that was answered last says to a line of metrics; once."""
        line, self._line = self._line, None
        return line

    def _hear(self) -> None:
        asked, self._question = self._question, None
        if asked is None:
            return
        *flags, losses, norm = asked.question.answer()
        bad = [at for at, flag in zip(asked.at, flags, strict=True) if flag]
        self._line = LossSummary(losses, asked.learned - len(bad), norm)
        if not bad:
            self.statistics.accept(asked.statistics)
        self._found(bad)

    # -- losses --

    def _count(self, loss: Any) -> None:
        self._losses += loss
        self._learned += 1

    def losses(self) -> tuple[float, int]:
        """Sum and number of the losses that were learned from since `told`: those held back are no part of it."""
        return float(self._losses), self._learned

    def told(self) -> None:
        """The losses have been read: count anew."""
        self._losses, self._learned = 0.0, 0
