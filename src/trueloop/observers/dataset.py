"""Would a dataset return the same samples again? They are drawn in a forked copy of the process.

Three questions, once per dataset. Does drawing a sample change the stored data? Are the random draws of two workers, or
of two passes, the same? Does the dataset seed with a constant before each sample?
"""

import ast
import hashlib
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import unwrap
from time import perf_counter, process_time
from types import FrameType
from typing import Any, Final, Literal

import numpy
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

from trueloop.event import DatasetRedrawn, Place
from trueloop.measure.randomness import seed_all
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart
from trueloop.taps.fork import CannotFork, run_in_fork
from trueloop.taps.place import full_name, is_users
from trueloop.taps.random_sources import Part, RandomStates, SeedRecorder, is_generator, parts_of, reseed
from trueloop.torch_private.dataloader import become_worker
from trueloop.usercode.ownership import assigned_place
from trueloop.usercode.source import source_of

__all__ = ["DatasetObserver"]

SECONDS: Final = 8.0  # time limit on a busy machine; alone it takes 0.05 to 2 s
SLOW: Final = 0.05  # seconds per sample above which the dataset is skipped: it is drawn up to forty times
DATASETS: Final = 4  # datasets of one run: training, validation, test, and one more
KEYS: Final = 3  # samples to draw
DRAWS: Final = 4  # of each, to see a write that happens with a probability
SEED: Final = 20_011  # base seed of a pass
NEXT_SEED: Final = 70_001  # base seed of the next pass
WHOLE: Final = 16 * 2**20  # bytes of an array to copy completely; of a larger one, the drawn rows
DEPTH: Final = 6  # wrappers around the user's dataset to unwrap

_PURE: Final = (TensorDataset, list, tuple, Tensor, numpy.ndarray)

Alike = Literal["", "workers", "epochs", "samples"]
Cause = Literal["", "generator", "worker_init_fn", "seed", "dataset"]


@dataclass
class _Answer:
    """The answer of the forked copy."""

    samples: int = 0
    rewritten: str = ""
    values: tuple[float, ...] = ()
    rewritten_share: float = 0.0
    rewritten_place: Place | None = None
    identical_across: Alike = ""
    cause: Cause = ""
    cause_name: str = ""
    cause_place: Place | None = None


class DatasetObserver(Observer):
    emits = (DatasetRedrawn,)

    def prepare(self) -> None:
        self._asked: set[tuple[int, bool]] = set()  # datasets, with or without workers

    def loader_started(self, start: LoaderStart) -> None:
        loader, dataset = start.loader, start.loader.dataset
        if _is_pure(dataset) or isinstance(dataset, IterableDataset) or not type(dataset).__weakrefoffset__:
            return
        question = (self.bus.ordinal("rehearsed", dataset), loader.num_workers > 0)
        if question in self._asked or len(self._asked) == DATASETS:
            return
        self._asked.add(question)
        answer, refused = _Answer(), ""
        try:
            answer = run_in_fork(lambda: _Redraw(loader).answer(), SECONDS, with_cuda=_forks(loader))
        except CannotFork as error:
            refused = str(error)
        self.emit(
            DatasetRedrawn,
            start.place,
            loader=self.bus.ordinal("loader", loader),
            dataset=type(dataset).__name__,
            workers=loader.num_workers,
            persistent=bool(loader.persistent_workers),
            refused=refused,
            **vars(answer),
        )


def _is_pure(dataset: object) -> bool:
    """PyTorch's own datasets of stored tensors return the same sample each time."""
    if type(dataset) is Subset:
        return _is_pure(dataset.dataset)
    if type(dataset) is ConcatDataset:
        return all(map(_is_pure, dataset.datasets))
    return type(dataset) in _PURE


def _forks(loader: DataLoader[Any]) -> bool:
    """Will the loader itself fork workers?"""
    method = getattr(loader.multiprocessing_context, "_name", None) or multiprocessing.get_start_method(allow_none=True)
    return loader.num_workers > 0 and (method or multiprocessing.get_all_start_methods()[0]) == "fork"


# -- in the copy --


@dataclass
class _Drawn:
    """The draws of a worker: each key once, then each again."""

    first: list[bytes]
    second: list[bytes]
    generators: list[int]  # indices of the stored generators that were used


class _Redraw:
    """Runs in a forked copy. Tests that change the dataset run in a further copy each."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.dataset: Any = loader.dataset
        self.keys = _keys(loader)
        self.generators = [part for part in parts_of(self.dataset, []) if is_generator(part.value)]

    def answer(self) -> _Answer:
        answer = _Answer(samples=len(self.keys))
        if self.keys and (took := run_in_fork(self._timed, SECONDS)) > SLOW:
            raise CannotFork(f"a sample takes {took:.2f} s, too long to draw it again and again")
        if self.loader.num_workers:
            self._compare_workers(answer)
        if not answer.identical_across and len(self.keys) > 1:
            self._find_constant_seed(answer)
        self._find_rewriting(answer)
        return answer

    def _timed(self) -> float:
        """Seconds per sample, after the first one. Waiting counts for a tenth: the machine may be busy."""
        self.dataset[self.keys[0]]
        began, computing = perf_counter(), process_time()
        self.dataset[self.keys[0]]
        return max(process_time() - computing, (perf_counter() - began) / 10)

    # -- workers and passes --

    def _worker(self, number: int, base: int, *, init: bool = True, other: bool = False, deaf: bool = False) -> _Drawn:
        """The draws of a worker; without its init function, with other stored generators, or with seeding disabled."""

        def work() -> _Drawn:
            seed_all(base + number)
            become_worker(number, self.loader.num_workers, base + number, self.dataset)
            for part in self.generators if other else ():
                reseed(part.value, NEXT_SEED)
            if deaf:
                SeedRecorder(deaf=True).install()
            if init and self.loader.worker_init_fn is not None:
                self.loader.worker_init_fn(number)
            before = RandomStates([part.value for part in self.generators])
            first, second = ([_digest(self.dataset[key]) for key in self.keys] for _ in range(2))
            moved = set(map(id, before.used()))
            return _Drawn(first, second, [n for n, part in enumerate(self.generators) if id(part.value) in moved])

        drawn: _Drawn = run_in_fork(work, SECONDS)
        return drawn

    def _compare_workers(self, answer: _Answer) -> None:
        here, there = self._worker(0, SEED), self._worker(1, SEED)
        if here.first == here.second:
            return  # nothing random
        if here == there:
            self._blame_for_workers(answer, here)
        elif here == self._worker(0, NEXT_SEED) and here != self._worker(0, SEED, deaf=True):
            self._blame_for_epochs(answer)

    def _blame_for_workers(self, answer: _Answer, drawn: _Drawn) -> None:
        init = self.loader.worker_init_fn is not None and self._worker(0, SEED, deaf=True) != drawn
        if init and self._worker(0, SEED, init=False) != self._worker(1, SEED, init=False):
            self._blame_init(answer, "workers")
        elif drawn.generators and self._worker(0, SEED, other=True) != drawn:
            part = self.generators[drawn.generators[0]]
            answer.identical_across, answer.cause = "workers", "generator"
            answer.cause_name, answer.cause_place = _shown(part), _place_of(part)

    def _blame_for_epochs(self, answer: _Answer) -> None:
        alone = self._worker(0, SEED, init=False)
        others = (self._worker(0, NEXT_SEED, init=False), self._worker(1, SEED, init=False))
        if self.loader.worker_init_fn is not None and (alone != others[0] or alone == others[1]):
            self._blame_init(answer, "epochs")
        else:
            answer.identical_across, answer.cause = "epochs", "dataset"
            answer.cause_place = _getitem_place(self.dataset)

    def _blame_init(self, answer: _Answer, alike: Alike) -> None:
        function = unwrap(self.loader.worker_init_fn)  # type: ignore[arg-type]
        answer.identical_across, answer.cause = alike, "worker_init_fn"
        answer.cause_name = getattr(function, "__name__", "worker_init_fn")
        answer.cause_place = run_in_fork(lambda: _seeding_line(function), SECONDS) or _place_of_function(function)

    # -- a constant seed --

    def _find_constant_seed(self, answer: _Answer) -> None:
        seeding: SeedRecorder = run_in_fork(self._record_seeds, SECONDS)
        if seeding.notes and run_in_fork(self._is_random_without_seeds, SECONDS):
            answer.identical_across, answer.cause, answer.cause_place = "samples", "seed", seeding.place
            answer.cause_name = "{}({})".format(*seeding.notes[0])

    def _record_seeds(self) -> SeedRecorder:
        """The seedings of a sample, if every sample makes the same and uses no global generator otherwise."""
        heard = SeedRecorder()
        heard.install()
        reported, samples = [], []
        for base in (SEED, NEXT_SEED):
            for key in self.keys[:2]:
                seed_all(base)
                heard.notes.clear()
                samples.append(_digest(self.dataset[key]))
                reported.append(list(heard.notes))
        steady = all(notes == reported[0] for notes in reported) and samples[:2] == samples[2:]
        heard.notes = reported[0] if steady else []
        return heard

    def _is_random_without_seeds(self) -> bool:
        deaf = SeedRecorder(deaf=True)
        seed_all(SEED)
        deaf.install()
        return _digest(self.dataset[self.keys[0]]) != _digest(self.dataset[self.keys[0]])

    # -- stored data that a draw changes --

    def _find_rewriting(self, answer: _Answer) -> None:
        seed_all(SEED)
        rows = _stored_keys(self.dataset, self.keys)
        for key in self.keys:
            self.dataset[key]  # the first draw may fill a cache
            parts = list(parts_of(self.dataset, rows))
            chance = RandomStates([part.value for part in parts if is_generator(part.value)])
            stored = [_Stored(part, rows) for part in parts if not is_generator(part.value)]
            first = _Sample(self.dataset[key])
            chance.restore()
            second = _Sample(self.dataset[key])
            changed = [item for item in stored if item.changed() and item.sizes & first.sizes]
            if first.digest == second.digest or not changed:
                continue
            for item in stored:
                item.restore()
            chance.restore()
            if _Sample(self.dataset[key]).digest == first.digest:
                part = changed[0].part
                answer.rewritten, answer.values = _shown(part), (first.largest, second.largest)
                answer.rewritten_share = first.differing(second)
                written = _line_that_changes(changed[0], self.dataset, key)
                answer.rewritten_place = written or _getitem_place(self.dataset) or _place_of(part)
                return
        for key in self.keys * DRAWS:
            if self._piles_up(answer, key, rows):
                return

    def _piles_up(self, answer: _Answer, key: Any, rows: list[Any]) -> bool:
        """Does a random write of one draw (an erased patch) remain in the sample of the next one, which writes too?"""
        parts = list(parts_of(self.dataset, rows))
        length = len(self.dataset)
        stored = [_Stored(part, rows) for part in parts if not is_generator(part.value)]
        written = _Sample(self.dataset[key])
        changed = [item for item in stored if item.holds(written, length) and item.changed()]
        if not changed:
            return False
        chance = RandomStates([part.value for part in parts if is_generator(part.value)])
        kept = [_Stored(part, rows) for part in parts if not is_generator(part.value)]

        def drawn_from(contents: list[_Stored]) -> _Sample:
            for item in contents:
                item.restore()
            chance.restore()
            return _Sample(self.dataset[key])

        after, alone = drawn_from(kept), drawn_from(stored)
        if after.digest == alone.digest or not changed[0].changed():
            return False
        if drawn_from(kept).digest != after.digest or drawn_from(stored).digest != alone.digest:
            return False  # something else decides too: a counter, a generator of its own
        part = changed[0].part
        answer.rewritten, answer.values = _shown(part), (alone.largest, after.largest)
        answer.rewritten_share = alone.differing(after)
        for item in stored:
            item.restore()
        chance.restore()
        line = _line_that_changes(changed[0], self.dataset, key)
        answer.rewritten_place = line or _getitem_place(self.dataset) or _place_of(part)
        return True


class _Stored:
    """The contents of an array or tensor now: all, or the rows at the keys."""

    def __init__(self, part: Part, keys: list[Any]) -> None:
        self.part = part
        value = part.value.detach() if isinstance(part.value, Tensor) else part.value
        whole = value.nbytes <= WHOLE
        rows = [key for key in keys if isinstance(key, int) and len(value.shape) and key < value.shape[0]]
        self._at: Any = ... if whole else rows
        self._value = value
        self._copy: Any = None
        self.remember()
        self.sizes = {int(numpy.prod(value.shape)), int(numpy.prod(value.shape[1:]))}
        """Number of elements of all, and of one row: a sample has one of these sizes."""

    def holds(self, sample: "_Sample", length: int) -> bool:
        """Is this the sample, or rows for all samples, and no small buffer of some?"""
        shape = tuple(self._value.shape)
        rows = len(shape) > 0 and shape[0] >= length and int(numpy.prod(shape[1:])) in sample.sizes
        return rows or int(numpy.prod(shape)) in sample.sizes

    def remember(self) -> None:
        self._copy = self._copied()

    def _copied(self) -> Any:
        value = self._value[self._at]
        return value.clone() if isinstance(value, Tensor) else numpy.array(value)

    def changed(self) -> bool:
        now, before = self._copied(), self._copy
        return _bytes(now) != _bytes(before)

    def restore(self) -> None:
        if self.changed():
            self._value[self._at] = self._copy


class _Sample:
    """Facts about a sample."""

    def __init__(self, sample: Any) -> None:
        self.digest = _digest(sample)
        arrays = [leaf for leaf in _leaves(sample) if isinstance(leaf, (Tensor, numpy.ndarray))]
        self.sizes = {int(numpy.prod(array.shape)) for array in arrays} - {1}
        numbers = [float(a.max()) for a in arrays if a.shape and _is_real(a) and int(numpy.prod(a.shape))]
        self.largest = numbers[0] if numbers else 0.0
        self._arrays: list[Any] = [a.detach().clone() if isinstance(a, Tensor) else a.copy() for a in arrays]

    def differing(self, other: "_Sample") -> float:
        """The share of elements that differ."""
        pairs = [(a, b) for a, b in zip(self._arrays, other._arrays, strict=False) if a.shape == b.shape]
        return sum(int((a != b).sum()) for a, b in pairs) / max(1, sum(int(numpy.prod(a.shape)) for a, _ in pairs))


def _is_real(array: Any) -> bool:
    return not array.is_complex() if isinstance(array, Tensor) else array.dtype.kind in "fiu"


def _keys(loader: DataLoader[Any]) -> list[Any]:
    """A few keys that the loader would use."""
    sampler = loader.sampler
    if all(type(p).__module__.startswith("torch.utils.data") for p in (sampler, loader.batch_sampler) if p is not None):
        length = len(loader.dataset)  # type: ignore[arg-type]
        return sorted({0, length // 2, length - 1} if length else ())[:KEYS]
    keys: list[Any] = []
    for drawn in loader.batch_sampler if loader.batch_sampler is not None else sampler:
        keys += drawn if isinstance(drawn, (list, tuple)) and loader.batch_sampler is not None else [drawn]
        if len(keys) >= KEYS:
            break
    return keys[:KEYS]


def _stored_keys(dataset: Any, keys: list[Any]) -> list[Any]:
    """With the keys into the dataset inside a subset."""
    while type(dataset) is Subset:
        keys = [*keys, *(dataset.indices[key] for key in keys)]
        dataset = dataset.dataset
    return keys


# -- samples as bytes --


def _leaves(sample: Any) -> Iterator[Any]:
    if isinstance(sample, dict):
        for item in sample.values():
            yield from _leaves(item)
    elif isinstance(sample, (list, tuple)):
        for item in sample:
            yield from _leaves(item)
    else:
        yield sample


def _bytes(leaf: Any) -> bytes:
    """The contents of a leaf; the type of what cannot be read."""
    if isinstance(leaf, Tensor):
        if leaf.layout != torch.strided or leaf.device.type != "cpu":
            return str(leaf.shape).encode()
        if not leaf.dim():
            return repr(leaf.item()).encode()
        return leaf.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(leaf, (numpy.ndarray, numpy.generic)) or type(leaf).__module__.startswith("PIL."):
        return bytes(leaf.tobytes())
    return repr(leaf).encode() if isinstance(leaf, (int, float, str, bytes, bool)) else type(leaf).__name__.encode()


def _digest(sample: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for leaf in _leaves(sample):
        digest.update(_bytes(leaf))
    return digest.digest()


# -- lines --


def _shown(part: Part) -> str:
    return part.attribute if part.owner is None else f"{type(part.owner).__name__}.{part.attribute}"


def _place_of(part: Part) -> Place | None:
    """The line that stores it."""
    if part.owner is not None:
        return assigned_place(part.owner, part.attribute)
    source = source_of(part.path)
    for node in (node for node in ast.walk(source.tree) if isinstance(node, ast.Assign)):
        if any(isinstance(target, ast.Name) and target.id == part.attribute for target in node.targets):
            return source.place(node)
    return None


def _getitem_place(dataset: Any) -> Place | None:
    """The user's `__getitem__`, inside wrappers too."""
    for _ in range(DEPTH):
        place = _place_of_function(type(dataset).__getitem__)
        if place is not None or not hasattr(dataset, "dataset"):
            return place
        dataset = dataset.dataset
    return None


def _place_of_function(function: Any) -> Place | None:
    code = getattr(function, "__code__", None) or getattr(getattr(function, "func", None), "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None
    return Place(code.co_filename, code.co_firstlineno, code.co_qualname)


def _seeding_line(init: Callable[[int], object]) -> Place | None:
    """The line that seeds when a worker starts."""
    heard = SeedRecorder()
    heard.install()
    init(0)
    return heard.place


def _line_that_changes(stored: _Stored, dataset: Any, key: Any) -> Place | None:
    """The user's line that changes the stored contents."""
    stored.remember()
    found: list[Place] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if found or not is_users(frame.f_code.co_filename):
            return None
        latest = frame.f_lineno

        def lines(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal latest
            if not found and stored.changed():
                found.append(Place(full_name(frame.f_code.co_filename), latest, frame.f_code.co_qualname))
            latest = frame.f_lineno
            return lines

        return lines

    sys.settrace(trace)
    try:
        dataset[key]
    finally:
        sys.settrace(None)
    return found[0] if found else None
