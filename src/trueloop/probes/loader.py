"""Passes over loaders, and the mode changes between them."""

from __future__ import annotations

from torch.utils.data import DataLoader

from trueloop.event import EpochStarted, ModeSet
from trueloop.probes.probe import Probe
from trueloop.probes.roster import Roster
from trueloop.taps.moment import LoaderStart, ModeChange
from trueloop.taps.wire import Wire

__all__ = ["LoaderProbe", "ModeProbe"]


class LoaderProbe(Probe):
    emits = (EpochStarted,)
    safe_on_shards = True

    def __init__(self, wire: Wire, roster: Roster) -> None:
        super().__init__(wire, roster)
        self._passes: dict[int, int] = {}

    def loader_started(self, start: LoaderStart) -> None:
        number = self.wire.ordinal("loader", start.loader)
        self._passes[number] = self._passes.get(number, 0) + 1
        self.wire.emit(
            EpochStarted(
                step=self.wire.step,
                place=start.place,
                loader=number,
                batches=_length(start.loader),
                passes=self._passes[number],
            )
        )


class ModeProbe(Probe):
    emits = (ModeSet,)
    safe_on_shards = True

    def mode_set(self, change: ModeChange) -> None:
        number = self.wire.ordinal("model", change.module)
        self.wire.emit(ModeSet(self.wire.step, change.place, number, type(change.module).__name__, change.training))


def _length(loader: DataLoader[object]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # a stream has no length
        return None
