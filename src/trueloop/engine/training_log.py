"""Rows of training metrics: loss, learning rate, gradient norm, speed."""

import math
import sys
import time
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.engine.cadence import Cadence
from trueloop.engine.nonfinite_guard import LossSummary
from trueloop.engine.own_groups import rates_by_name
from trueloop.engine.parts import Parts
from trueloop.engine.running_means import RunningMeans
from trueloop.engine.state import State
from trueloop.hook import Row

__all__ = ["SHOWN", "TrainingLog"]

SHOWN: Final = 0.5  # seconds between two signs of life, for the displays
SHOWN_BY_DEVICE: Final = 1.0  # the same where the host waits for the device to read the loss


@final
class TrainingLog:
    """Collects rows and hands them to the hooks. Rows of replayed steps wait until the device has its next steps."""

    def __init__(self, parts: Parts, state: State, cadence: Cadence) -> None:
        self.parts, self.state, self.cadence = parts, state, cadence
        self.means = RunningMeans(parts.device)  # Values of the user's own, by name
        self.clock = time.perf_counter()  # when the last row was written, plus time that is not training (evaluation)
        self._shown = -math.inf
        self._rows: list[tuple[int, float, dict[str, float]]] = []
        self._heading: tuple[int, float, dict[str, float], int] = (0, 0.0, {}, 0)  # step, epoch, rates, samples

    def epoch(self) -> float:
        """Its position, not its steps: another batch size may have changed their number."""
        steps = self.parts.batches.steps_per_epoch
        return (self.state.epoch * steps + self.state.batch) / steps

    def show_progress(self) -> None:
        """By time, not by steps; the first at once. Without a loss where steps are replayed: nobody waits there."""
        now, waits = time.perf_counter(), self.parts.device.type != "cpu" and not self.cadence.replays
        if now - self._shown < (SHOWN_BY_DEVICE if waits else SHOWN):
            return
        self._shown = now
        losses, steps = (0.0, 0) if self.cadence.replays else self.parts.guard.losses()
        values = {"loss": losses / steps} if steps else {}
        self.parts.hooks.progressed(Row("train", self.state.step, self.epoch(), values))

    def log(self, norm: Tensor, samples: int) -> None:
        """One row. The host waits for the device, except where steps are replayed: there the row follows later."""
        guard = self.parts.guard
        self._heading = (self.state.step, self.epoch(), rates_by_name(self.parts.optimizer), samples)
        if self.cadence.must_wait():
            (losses, steps), parts = guard.losses(), guard.loss_parts()
            guard.reset_losses()
            self.write(LossSummary(losses, steps, norm.item(), parts))
        else:
            guard.start_read(norm)

    def write(self, summary: LossSummary) -> None:
        step, epoch, rates, samples = self._heading
        now, batches = time.perf_counter(), self.parts.batches
        seconds, self.clock = now - self.clock, now
        waited, batches.waited = batches.waited, 0.0
        values: dict[str, Any] = {
            "loss": summary.losses / summary.steps if summary.steps else math.nan,
            **rates,
            "gradient_norm": summary.norm,
            "samples_per_second": samples / seconds if seconds else 0.0,
            "data_wait": waited / seconds if seconds else 0.0,
        }
        if self.parts.named_optimizers is not None and math.isnan(summary.norm):
            del values["gradient_norm"]  # the step has called its optimizers itself
        values |= self.means.take(self.parts.peers)
        named = zip(self.parts.terms.names, summary.parts, strict=False)  # a row without a step has no parts
        values |= {name: total / summary.steps if summary.steps else math.nan for name, total in named}
        if self.state.skipped:
            values["skipped"] = float(self.state.skipped)
        self.parts.saver.check()
        self._rows.append((step, epoch, values))
        if not self.cadence.replays:
            self.flush()

    def flush(self) -> None:
        """Hand all rows to the hooks."""
        rows, self._rows = self._rows, []
        for step, epoch, values in rows:
            row = Row("train", step, epoch, values | {"memory_mb": _peak_memory_mb(self.parts.device)})
            self.parts.hooks.logged(row)


def _peak_memory_mb(device: torch.device) -> float:
    """Of the device, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
