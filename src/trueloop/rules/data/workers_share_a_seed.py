"""DAT104 workers-share-a-seed: the random draws of a dataset are the same in every worker, in every epoch, or for every
sample.

What it sees
------------
A few samples of the dataset are drawn in copies of the process, each set up as PyTorch sets up a worker: other seeds
for worker 0 and worker 1, others again for the next epoch. The draws are random (the same key gives another sample when
it is drawn twice), and yet two workers draw the same, or one worker draws the same in two epochs. Three causes are
known by trying it without them: a generator stored on the dataset, which every worker gets a copy of; a
`worker_init_fn` that seeds with a constant, or with the number of the worker alone; and a seed that is set anew before
each sample, with a constant. It speaks only of loaders that train.

Why it hurts
------------
Augmentation is there to show the model something new each time. With four workers that draw the same numbers, four
images in a batch get the same crop and flip; with workers that start alike in each epoch, every epoch sees the same few
variants. The model overfits, and the loss curves look plausible.

Evidence
--------
The dataset, the number of workers, between what the draws do not differ, and the generator or the seeding that makes
them alike.

Use instead
-----------
    noise = torch.randn(3, generator=None)       # the global generators: PyTorch seeds them in each worker and epoch

    def worker_init_fn(worker_id):               # or seed your own generator from PyTorch's seed
        info = torch.utils.data.get_worker_info()
        info.dataset.rng = numpy.random.default_rng(info.seed)

When it is fine
---------------
Data that is deterministic by design: nothing random, or a seed that follows from the index, or a loader that only
measures. A stored generator in a loader without workers goes on from sample to sample, and so does one in the only
worker of a persistent loader. Datasets on CUDA, and streams without keys (IterableDataset), cannot be rehearsed.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import DatasetRedrawn, EpochStarted, Stepped
from trueloop.finding import Finding, Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule

__all__ = ["WorkersShareASeed"]

NEVER: Final = float("inf")

_BECAUSE: Final = {
    "generator": "each gets a copy of the generator in {}, in the state that it was stored in",
    "worker_init_fn": "{} seeds them with a number that does not change",
    "seed": "{} is called before each of them",
    "dataset": "it seeds by the number of the worker, which does not change",
}
_FIX: Final = {
    "generator": "Draw from the global generators, which PyTorch seeds in each worker and epoch, or seed the stored one from "
    "torch.utils.data.get_worker_info().seed in worker_init_fn.",
    "worker_init_fn": "Seed from torch.initial_seed(), which differs between workers and epochs, or leave worker_init_fn out: PyTorch "
    "seeds random, numpy and torch in each worker.",
    "seed": "Seed once, before training, and not inside the dataset; for samples that must stay as they are, seed with the index.",
    "dataset": "Seed from torch.utils.data.get_worker_info().seed, which differs between workers and epochs.",
}


@final
class WorkersShareASeed(Rule):
    code = "DAT104"
    name = "workers-share-a-seed"
    severity = Severity.ERROR
    not_applicable = "no dataset of the script's own was read"

    def __init__(self) -> None:
        self._suspects: dict[int, DatasetRedrawn] = {}
        self._refused = ""
        self._loader = -1
        """The one that was started last."""
        self._trained: dict[int, int] = {}
        """Per loader: in how many passes over it a step was taken, up to now."""
        self._counted = False

    def why_not_checked(self) -> str:
        return self._refused

    def on_dataset_redrawn(self, event: DatasetRedrawn) -> None:
        if event.refused:
            self._refused = f"{event.dataset} could not be rehearsed: {event.refused}"
        if event.identical_across:
            self._suspects[event.loader] = event

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._loader, self._counted = event.loader, False

    def on_stepped(self, event: Stepped) -> Findings:
        if self._counted or self._loader not in self._suspects:
            return
        self._counted = True
        passes = self._trained[self._loader] = self._trained.get(self._loader, 0) + 1
        suspect = self._suspects[self._loader]
        if passes >= _passes_needed(suspect):
            del self._suspects[self._loader]
            yield self._spoken(suspect)

    def _spoken(self, event: DatasetRedrawn) -> Finding:
        return self.finding(
            event,
            f"{_told(event)}: {_BECAUSE[event.cause].format(event.cause_name)}.",
            fix=_FIX[event.cause],
            evidence={
                "dataset": event.dataset,
                "workers": event.workers,
                "persistent_workers": event.persistent,
                "samples_drawn": event.samples,
                "alike_between": event.identical_across,
                "by": event.cause_name,
            },
            place=event.cause_place,
        )


def _passes_needed(event: DatasetRedrawn) -> float:
    """Passes of training after which the draws have really been repeated: one worker repeats only itself, when it is
    started anew."""
    if event.identical_across == "samples" or (event.identical_across == "workers" and event.workers > 1):
        return 1
    return NEVER if event.persistent else 2


def _told(event: DatasetRedrawn) -> str:
    match event.identical_across:
        case "samples":
            return f"{event.dataset} draws the same random numbers for every sample"
        case "workers" if event.workers > 1:
            return f"The {event.workers} workers of {event.dataset} draw the same random numbers as one another"
        case _:
            return f"{counted(event.workers, 'worker')} of {event.dataset} will draw the same random numbers in every epoch"
