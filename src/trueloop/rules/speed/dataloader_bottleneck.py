"""SPD101 dataloader-bottleneck: the training loop waits for its DataLoader.

What it sees
------------
How long the loop waited for each batch of a training loader, compared with the full step, over many steps after the
first ones. On a CUDA device also whether the device was idle when the batch arrived: a wait while it still computes
costs nothing.

Why it hurts
------------
A device that waits for data is idle, however fast it is. The run takes as long as its loader, and a faster device or a
compiled or smaller model does not help.

Evidence
--------
The time of a step and the wait in it, its share, the workers, the CPU cores, pinned memory, and the cost of a sample.

Use instead
-----------
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)

When it is fine
---------------
In CPU training, loading uses the same cores as the model: only a loader without workers that mostly sleeps (disk,
network) for at least half of each step is reported. On a GPU not reported: shares below 30%, waits of a few
milliseconds, and a device still busy when the batch arrives. Not checked: devices other than CUDA.
"""

from math import ceil
from typing import Final

from trueloop.event import BatchesAwaited, LoaderSeen
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["DataloaderBottleneck"]

STEPS: Final = 20  # Steps needed to measure a share: fewer are mostly noise
SHARE: Final = 0.3  # Share of a step on a GPU: below it, a perfect loader saves less than a third of the time
WAIT_MS: Final = 5.0  # Milliseconds per step on a GPU: less is the cost of passing a batch, and noise
IDLE: Final = 0.8  # Share of the batches at whose arrival the device was idle: nearly all
SHARE_ON_CPU: Final = 0.5  # Share of a step on the CPU, where loader and model share the cores
WAIT_MS_ON_CPU: Final = 20.0  # Milliseconds per step on the CPU: below it, starting workers does not pay
ASLEEP: Final = 0.1  # A thread that computes for less than this share of a wait does not wait for the CPU


class DataloaderBottleneck(Rule, code="SPD101", severity=Severity.WARNING):
    not_applicable = "no loader was used"

    def __init__(self) -> None:
        self._loaders: dict[int, LoaderSeen] = {}
        self._checked = False

    def why_not_checked(self) -> str:
        return "" if self._checked else "no loader fed enough steps to time them"

    def on_loader_seen(self, event: LoaderSeen) -> None:
        self._loaders[event.loader] = event

    def on_batches_awaited(self, event: BatchesAwaited) -> Findings:
        loader = self._loaders.get(event.loader)
        if loader is None or event.steps < STEPS:
            return
        self._checked = True
        long = event.waited_ms >= max(WAIT_MS, SHARE * event.step_ms)
        starves = long and event.idle is not None and event.idle >= IDLE
        if not (_sleeps(event, loader) if event.device == "cpu" else starves):
            return
        share = event.waited_ms / event.step_ms
        idle = "The loader thread sleeps" if event.device == "cpu" else f"The {event.device} device is idle"
        yield self.finding(
            event,
            f"Each step takes {event.step_ms:.1f} ms and waits {event.waited_ms:.1f} ms ({share:.0%}) for a DataLoader "
            f"with {plural(loader.workers, 'worker')}. {idle} meanwhile.",
            fix=_advice(event, loader),
            evidence=facts(
                loader,
                "step_ms waited_ms share workers cores pinned",
                step_ms=round(event.step_ms, 2),
                waited_ms=round(event.waited_ms, 2),
                share=round(share, 2),
                ms_per_sample=round(_loading_ms(event, loader) / loader.batch_size, 3) if loader.batch_size else None,
                steps=event.steps,
                device_idle_at_arrival=event.idle,
            ),
            place=loader.place or event.place,
        )


def _sleeps(event: BatchesAwaited, loader: LoaderSeen) -> bool:
    """On the CPU: the main thread sleeps in the dataset for most of a step."""
    return (
        loader.workers == 0
        and event.waited_ms >= max(WAIT_MS_ON_CPU, SHARE_ON_CPU * event.step_ms)
        and event.computed_ms <= ASLEEP * event.waited_ms
    )


def _loading_ms(event: BatchesAwaited, loader: LoaderSeen) -> float:
    """Time to load one batch: each busy worker loads one batch in the time of as many steps as there are workers."""
    return event.waited_ms if loader.workers == 0 else loader.workers * event.step_ms


def _advice(event: BatchesAwaited, loader: LoaderSeen) -> str:
    computing = max(event.step_ms - event.waited_ms, 0.05 * event.step_ms)
    needed = min(ceil(_loading_ms(event, loader) / computing), loader.cores)
    if needed <= loader.workers:
        return "Make samples cheaper: decode and resize them once and cache the result, or process batches on the GPU."
    divided = ", and give each worker its own part of the dataset (`get_worker_info`)" if loader.stream else ""
    return f"Load in worker processes: `num_workers={max(needed, 1)}, persistent_workers=True`{divided}."
