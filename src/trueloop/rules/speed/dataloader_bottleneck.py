"""SPD101 dataloader-bottleneck: the loop stands still for its data.

What it sees
------------
How long the loop waited for each batch of a training loader, against the whole step, over a row of steps past the first
ones. On a CUDA device also whether the device had run out of work when the batch arrived: a wait during which it still
computes costs nothing.

Why it hurts
------------
A device that waits for data does nothing, however fast it is. The run takes as long as its loader, and a faster device,
a compiled model or a smaller one would not make it shorter.

Evidence
--------
The time of a step and of the wait in it, the share, the loader's workers, the cores there are, pinned memory, and what
a sample costs.

Use instead
-----------
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)

When it is fine
---------------
Where all training is on the CPU, reading a sample is work like any other, on the same cores: only a loader without
workers that mostly sleeps (a disk, a network) while the loop waits for at least half of each step is reported. On a
device: shares below three tenths, waits of a few milliseconds, and devices that were still busy when the batch came.
Devices other than CUDA cannot be asked, and are not judged.
"""

from __future__ import annotations

from math import ceil
from typing import Final, final

from trueloop.event import BatchesAwaited, LoaderSeen
from trueloop.finding import Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule

__all__ = ["DataloaderBottleneck"]

STEPS: Final = 20
"""Steps that a share is taken over: fewer say more about the machine's mood than about the loader."""
SHARE: Final = 0.3
"""Of a step on a device: below it a perfect loader would make the run less than half as fast again."""
WAIT_MS: Final = 5.0
"""Per step on a device: less is the price of handing a batch over, and the scheduler's noise."""
IDLE: Final = 0.8
"""Share of the batches at whose arrival the device must have been idle: nearly all, and a few that came just in
time."""
SHARE_ON_CPU: Final = 0.5
"""Of a step on the CPU, where the loader's work and the model's share the cores."""
WAIT_MS_ON_CPU: Final = 20.0
"""Per step on the CPU: starting workers is not worth less."""
ASLEEP: Final = 0.1
"""A thread that computes for less than this share of a wait is waiting for something else than the processor, however
busy that is."""


@final
class DataloaderBottleneck(Rule):
    code = "SPD101"
    name = "dataloader-bottleneck"
    severity = Severity.WARNING
    not_applicable = "no loader was used"

    def __init__(self) -> None:
        self._loaders: dict[int, LoaderSeen] = {}
        self._judged = False

    def why_not_checked(self) -> str:
        return "" if self._judged else "no loader fed enough steps to time them"

    def on_loader_seen(self, event: LoaderSeen) -> None:
        self._loaders[event.loader] = event

    def on_batches_awaited(self, event: BatchesAwaited) -> Findings:
        loader = self._loaders.get(event.loader)
        if loader is None or event.steps < STEPS:
            return
        self._judged = True
        if not (_sleeps(event, loader) if event.device == "cpu" else _starves(event)):
            return
        share = event.waited_ms / event.step_ms
        meanwhile = (
            "it sleeps there rather than computes"
            if event.device == "cpu"
            else f"the {event.device} device has no work left then"
        )
        yield self.finding(
            event,
            f"Each step takes {event.step_ms:.1f} ms, and for {event.waited_ms:.1f} ms of it ({share:.0%}) the loop stands still for a "
            f"batch of a loader with {counted(loader.workers, 'worker')}; {meanwhile}.",
            fix=_advice(event, loader),
            evidence={
                "step_ms": round(event.step_ms, 2),
                "waited_ms": round(event.waited_ms, 2),
                "share": round(share, 2),
                "workers": loader.workers,
                "cores": loader.cores,
                "pinned": loader.pinned,
                "ms_per_sample": _cost(event, loader),
                "steps": event.steps,
                "device_idle_at_arrival": event.idle,
            },
            place=loader.place or event.place,
        )


def _sleeps(event: BatchesAwaited, loader: LoaderSeen) -> bool:
    """On the CPU: the loop's own thread sleeps in the dataset for most of a step."""
    return (
        loader.workers == 0
        and event.waited_ms >= max(WAIT_MS_ON_CPU, SHARE_ON_CPU * event.step_ms)
        and event.computed_ms <= ASLEEP * event.waited_ms
    )


def _starves(event: BatchesAwaited) -> bool:
    return event.waited_ms >= max(WAIT_MS, SHARE * event.step_ms) and event.idle is not None and event.idle >= IDLE


def _loading_ms(event: BatchesAwaited, loader: LoaderSeen) -> float:
    """What one batch costs to make: workers that are behind make one each in the time of as many steps."""
    return event.waited_ms if loader.workers == 0 else loader.workers * event.step_ms


def _cost(event: BatchesAwaited, loader: LoaderSeen) -> float | None:
    return None if not loader.batch_size else round(_loading_ms(event, loader) / loader.batch_size, 3)


def _advice(event: BatchesAwaited, loader: LoaderSeen) -> str:
    computing = max(event.step_ms - event.waited_ms, 0.05 * event.step_ms)
    needed = min(ceil(_loading_ms(event, loader) / computing), loader.cores)
    if needed <= loader.workers:
        return "Make samples cheaper: decode and resize them once and keep the result, or do the work of a batch on the device."
    divided = ", and let the dataset give each worker its own part (get_worker_info)" if loader.stream else ""
    return f"Load in other processes while the model computes: num_workers={max(needed, 1)}, persistent_workers=True{divided}."
