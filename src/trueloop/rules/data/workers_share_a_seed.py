"""DAT104 workers-share-a-seed: random draws of a dataset repeat in every worker, every epoch, or for every sample.

What it sees
------------
A few samples of the dataset are drawn in copies of the process, each set up like a DataLoader worker: different seeds
for worker 0 and worker 1, and again for the next epoch. The draws are random (the same index gives a different sample
when drawn twice), but two workers draw the same numbers, or one worker draws the same numbers in two epochs. Three
causes are identified by testing without them: a generator stored on the dataset, which is copied to every worker; a
`worker_init_fn` that seeds with a constant or with the worker id alone; and a constant seed that is set before each
sample. Only loaders that are trained on are reported.

Why it hurts
------------
Augmentation should show the model something new each time. If four workers draw the same numbers, four images of a
batch get the same crop and flip. If workers start with the same state in each epoch, every epoch repeats the same
variants. The model overfits, and the loss curves look plausible.

Evidence
--------
The dataset, the number of workers, what the draws repeat between, and the generator or seed that causes it.

Use instead
-----------
    noise = torch.randn(3, generator=None)       # the global generators: PyTorch seeds them in each worker and epoch

    def worker_init_fn(worker_id):               # or seed your own generator from PyTorch's seed
        info = torch.utils.data.get_worker_info()
        info.dataset.rng = numpy.random.default_rng(info.seed)

When it is fine
---------------
Not reported: deterministic data (nothing random, or a seed derived from the index), and loaders used for evaluation
only. A stored generator in a loader without workers continues from sample to sample, and so does one in the only worker
of a persistent loader. Datasets on CUDA and streams without indices (IterableDataset) cannot be tested.
"""

from typing import Final

from trueloop.event import DatasetRedrawn, EpochStarted, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, plural

__all__ = ["WorkersShareASeed"]

NEVER: Final = float("inf")

_CAUSE: Final = {
    "generator": "each gets a copy of the generator in {} in the same state",
    "worker_init_fn": "{} seeds them with a constant",
    "seed": "{} is called before each sample",
    "dataset": "it seeds with the worker id alone",
}
_FIX: Final = {
    "generator": "Use the global generators, which PyTorch seeds in each worker and epoch, "
    "or seed the stored one in `worker_init_fn` with `torch.utils.data.get_worker_info().seed`.",
    "worker_init_fn": "Seed with `torch.initial_seed()`, which differs between workers and epochs, "
    "or remove `worker_init_fn`: PyTorch seeds random, numpy and torch in each worker.",
    "seed": "Seed once, before training, not inside the dataset. For fixed samples, derive the seed from the index.",
    "dataset": "Seed with `torch.utils.data.get_worker_info().seed`, which differs between workers and epochs.",
}


class WorkersShareASeed(Rule, code="DAT104", severity=Severity.ERROR):
    not_applicable = "no user-defined dataset was read"

    def __init__(self) -> None:
        self._suspects: dict[int, DatasetRedrawn] = {}
        self._refused = ""
        self._loader = -1  # The loader that was started last
        self._counted = False

    def why_not_checked(self) -> str:
        return self._refused

    def on_dataset_redrawn(self, event: DatasetRedrawn) -> None:
        if event.refused:
            self._refused = f"{event.dataset} could not be tested: {event.refused}"
        if event.identical_across:
            self._suspects[event.loader] = event

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._loader, self._counted = event.loader, False

    def on_stepped(self, event: Stepped) -> Findings:
        if self._counted or self._loader not in self._suspects:
            return
        self._counted = True
        suspect = self._suspects[self._loader]
        if self.count(self._loader) >= _passes_needed(suspect):
            del self._suspects[self._loader]
            yield self._report(suspect)

    def _report(self, event: DatasetRedrawn) -> Finding:
        return self.finding(
            event,
            f"{_repetition(event)}: {_CAUSE[event.cause].format(event.cause_name)}.",
            fix=_FIX[event.cause],
            evidence=facts(
                event,
                "dataset workers persistent_workers=persistent samples_drawn=samples",
                "repeats_between=identical_across cause=cause_name",
            ),
            place=event.cause_place,
        )


def _passes_needed(event: DatasetRedrawn) -> float:
    """Training epochs after which the draws have repeated: a single worker repeats only when it is restarted."""
    if event.identical_across == "samples" or (event.identical_across == "workers" and event.workers > 1):
        return 1
    return NEVER if event.persistent else 2


def _repetition(event: DatasetRedrawn) -> str:
    match event.identical_across:
        case "samples":
            return f"{event.dataset} draws the same random numbers for every sample"
        case "workers" if event.workers > 1:
            return f"The {event.workers} workers of {event.dataset} draw identical random numbers"
        case _:
            return (
                f"{plural(event.workers, 'worker')} of {event.dataset} will draw the same random numbers in every epoch"
            )
