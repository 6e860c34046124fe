"""A run written down operation by operation, so that two runs can be laid side by side: `python -m
trueloop.claims.trace OUT ...`.

    python -m trueloop.claims.trace OUT.json STEPS OPERATIONS 1:1:1 train.py --lr 0.1
    python -m trueloop.claims.trace OUT.json STEPS OPERATIONS 2:2:2 -m trueloop train digits

Of each operation of torch's: its name, a digest of what came out, a digest of what went in and came from elsewhere, and
the user's line. Draws of Python's and numpy's generators are written down beside them, and so are the batches of
loaders and the weights after each step. A process starts with random states that nobody has set. Here they are set to
numbers that another run has not: as good as none, but one of them can be given to both.
"""

from __future__ import annotations

import json
import os
import random
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, final

import numpy
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import IterableDataset, SequentialSampler

from trueloop.claims.digest import digest_of_all
from trueloop.data.source import tensors_in
from trueloop.doctor.launch import Program, find_module, find_script, run
from trueloop.event import Place
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import frame_here, is_direct, place_in
from trueloop.torch_private.dataloader import LoaderIterator, batches_yielded, index_sampler, iterated_dataset
from trueloop.torch_private.dispatch import TorchDispatchMode, operator_schema

__all__ = [
    "OPERATIONS",
    "TRACED_STEPS",
    "Batch",
    "Entry",
    "Start",
    "Step",
    "Trace",
    "place_of",
    "read_trace",
    "short_name",
    "tracing",
]

OPERATIONS: Final = 20_000
"""Operations that are written down; later ones only show in the weights after each step."""
TRACED_STEPS: Final = 20
"""Steps whose operations are written down."""
WEIGHTS: Final = 1 << 12
"""Numbers of each weight that go into the digest after a step."""

DRAWS: Final = (
    "random", "randint", "randrange", "uniform", "gauss", "normalvariate", "choice", "choices", "sample", "shuffle", "betavariate",
    "getrandbits",
)  # fmt: skip
"""Functions of Python's `random`."""
NUMPY_DRAWS: Final = (
    "rand", "randn", "randint", "random", "random_sample", "uniform", "normal", "standard_normal", "choice", "shuffle", "permutation",
    "beta", "binomial",
)  # fmt: skip
"""Functions of `numpy.random` that draw from its global generator."""


@dataclass(frozen=True, slots=True)
class Start:
    """The states that a process finds its generators in."""

    torch: int
    python: int
    numpy: int

    def set(self) -> None:
        torch.manual_seed(self.torch)
        random.seed(self.python)
        numpy.random.seed(self.numpy)


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation, or a draw."""

    number: int
    """In the order of all that was written down."""
    name: str
    digest: int
    arrived: int = 0
    """Of what went in and no operation had made; of an operation that draws: of the seed of its generator."""
    draws: bool = False
    """It draws random numbers."""
    raw: bool = False
    """It works on memory that nobody has filled: its digest means nothing."""
    device: str = "cpu"
    place: int = -1
    """Of `Trace.places`; -1: the user's code is not on the way to it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a loader handed out."""

    number: int
    loader: int
    """Counted in the order of first use."""
    passed: int
    """Passes over this loader before this one."""
    index: int
    digest: int
    order: str
    """stored: as the samples lie; drawn: a sampler says it; stream: the dataset itself."""
    place: int = -1
    trained: bool = False
    """A step was taken before the next one was asked for."""


@dataclass(frozen=True, slots=True)
class Step:
    """The weights of an optimizer after a step."""

    number: int
    digest: int


@dataclass
class Trace:
    operations: list[Entry] = field(default_factory=list)
    draws: list[Entry] = field(default_factory=list)
    """Of Python's and numpy's generators, by the user's own lines."""
    batches: list[Batch] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    places: list[tuple[str, int, str]] = field(default_factory=list)
    """Path, line, function."""
    ended: str = "finished"
    """finished | cut | exit | exception | interrupted"""


def read_trace(path: Path) -> Trace:
    data = json.loads(path.read_text(encoding="utf-8"))
    return Trace(
        operations=[Entry(*each) for each in data["operations"]],
        draws=[Entry(*each) for each in data["draws"]],
        batches=[Batch(*each) for each in data["batches"]],
        steps=[Step(*each) for each in data["steps"]],
        places=[(path, line, function) for path, line, function in data["places"]],
        ended=data["ended"],
    )


def write_trace(trace: Trace, path: Path) -> None:
    whole = {
        name: [list(asdict(each).values()) for each in getattr(trace, name)]
        for name in ("operations", "draws", "batches", "steps")
    }
    path.write_text(json.dumps({**whole, "places": trace.places, "ended": trace.ended}), encoding="utf-8")


def place_of(trace: Trace, number: int) -> Place | None:
    """Of an entry's or a batch's number of a place."""
    return Place(*trace.places[number]) if number >= 0 else None


def short_name(name: str) -> str:
    """aten::add.Tensor -> add"""
    return name.partition("::")[2].partition(".")[0] or name


# -- writing down --


@final
class Writer:
    """Everything that is written down, in one order."""

    def __init__(self, start: Start, most_steps: int | None, most_operations: int) -> None:
        self.trace = Trace()
        self.start = start
        self.open = most_operations > 0
        """Are operations still written down?"""
        self._most_steps, self._most = most_steps, most_operations
        self._number = 0
        self._places: dict[Any, int] = {}
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Not in a worker that was forked off."""
        return os.getpid() == self._process

    def number(self) -> int:
        self._number += 1
        return self._number

    def place(self, depth: int) -> int:
        frame = frame_here(depth + 1)
        if frame is None:
            return -1
        place = place_in(frame)
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = len(self.trace.places)
            self.trace.places.append((place.path, place.line, place.function))
        return found

    def operation(self, entry: Entry) -> None:
        self.trace.operations.append(entry)
        self.open = len(self.trace.operations) < self._most

    def draw(self, name: str, digest: int) -> None:
        """Only by the user's own lines: what a library draws for itself is its own matter."""
        if self.here and len(self.trace.draws) < OPERATIONS and is_direct(2):
            self.trace.draws.append(Entry(self.number(), name, digest, draws=True, place=self.place(2)))

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        if not self.here:
            return
        weights = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        trace = self.trace
        trace.steps.append(Step(self.number(), digest_of_all(weights, WEIGHTS)))
        if trace.batches and not trace.batches[-1].trained:
            trace.batches[-1] = replace(trace.batches[-1], trained=True)
        self.open = self.open and len(trace.steps) < TRACED_STEPS
        if self._most_steps is not None and len(trace.steps) >= self._most_steps:
            raise StopTheRun(f"{self._most_steps} steps are enough")


@final
class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Told of every operation, those of a backward too."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.writer = writer
        self._known: set[int] = set()
        """Memory that an operation has made or has been given: by its address."""
        self._raw: set[int] = set()
        """Memory that nobody has filled yet."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if not self.writer.open or not self.writer.here or (func.is_view and "lift" not in func.name()):
            return func(*args, **given)  # a view is the same memory: nothing new
        inputs = list(tensors_in((args, given)))
        seed = _seed(given) if torch.Tag.nondeterministic_seeded in func.tags else None
        arrived = self._arrived(inputs, (args, given)) if seed is None else seed
        output = func(*args, **given)
        made = list(tensors_in(output)) if output is not None else inputs if operator_schema(func).is_mutable else []
        if made:
            self._write(func, inputs, made, arrived, seed is not None)
        return output

    def _arrived(self, inputs: list[Tensor], given: Any) -> int:
        """Of what no operation has made: tensors from a file, from numpy or from a worker; plain numbers."""
        foreign = [tensor for tensor in inputs if _memory(tensor) not in self._known]
        self._known.update(map(_memory, foreign))
        return zlib.crc32(repr(list(_numbers(given))).encode(), digest_of_all(foreign))

    def _write(self, func: Any, inputs: list[Tensor], made: list[Tensor], arrived: int, draws: bool) -> None:
        name = str(func.name())
        raw = self._is_raw(name, operator_schema(func).is_mutable, inputs, made)
        entry = Entry(
            self.writer.number(),
            name,
            digest_of_all(made),
            arrived,
            draws,
            raw,
            made[0].device.type,
            self.writer.place(3),
        )
        self.writer.operation(entry)

    def _is_raw(self, name: str, writes: bool, inputs: list[Tensor], made: list[Tensor]) -> bool:
        """torch.empty gives what lay in memory: whatever is made of it means nothing, until it is written over as a
        whole."""
        memories = {_memory(tensor) for tensor in made}
        self._known |= memories
        if "empty" in name or name == "aten::resize_":
            self._raw |= memories
            return True
        fills = name.removeprefix("aten::").split(".")[0] in FILLS and _is_whole(made[0])
        if fills or not any(_memory(tensor) in self._raw for tensor in inputs):
            self._raw -= memories
            return False
        self._raw |= memories
        return True


FILLS: Final = frozenset(
    (
        "uniform_",
        "normal_",
        "fill_",
        "zero_",
        "copy_",
        "bernoulli_",
        "random_",
        "exponential_",
        "geometric_",
        "cauchy_",
        "log_normal_",
    )
)
"""Operations that write every number of what they are given, whatever was there."""


def _memory(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # meta, fake and sparse tensors have none
        return 0


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, (bool, int, float, complex)):
        yield value
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)


def _is_whole(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.nbytes >= tensor.untyped_storage().nbytes()


def _seed(kwargs: dict[str, Any]) -> int:
    """Of the generator that an operation draws from, shortened."""
    generator = kwargs.get("generator")
    return zlib.crc32(
        str(generator.initial_seed() if isinstance(generator, torch.Generator) else torch.initial_seed()).encode()
    )


# -- what is not an operation --


@contextmanager
def _listening(writer: Writer) -> Iterator[None]:
    """To the draws of Python's and numpy's generators, and to loaders. Everything is put back."""
    patches: list[tuple[Any, str, Any]] = []

    def replace_by(owner: Any, name: str, wrapper: Any) -> None:
        patches.append((owner, name, getattr(owner, name)))
        setattr(owner, name, wrapper)

    for name in DRAWS:
        replace_by(random, name, _drawing(writer, f"random.{name}", getattr(random, name), random.getstate))
    for name in NUMPY_DRAWS:
        replace_by(
            numpy.random,
            name,
            _drawing(writer, f"numpy.random.{name}", getattr(numpy.random, name), numpy.random.get_state),
        )
    replace_by(numpy.random, "default_rng", _making(writer, "numpy.random.default_rng", numpy.random.default_rng))
    replace_by(LoaderIterator, "__next__", _Handing(writer).wrapped(LoaderIterator.__next__))
    try:
        yield
    finally:
        for owner, name, original in reversed(patches):
            setattr(owner, name, original)


def _drawing(writer: Writer, name: str, original: Callable[..., Any], state: Callable[[], Any]) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        writer.draw(name, zlib.crc32(repr(state()).encode()))
        return original(*args, **kwargs)

    return draw


def _making(writer: Writer, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        unseeded = not [given for given in (*args, *kwargs.values()) if given is not None]
        made = original([writer.start.numpy, writer.number()]) if unseeded else original(*args, **kwargs)
        writer.draw(name, zlib.crc32(repr(made.bit_generator.state).encode()))
        return made

    return make


@final
class _Handing:
    """Batches, as loaders hand them out."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._loaders: dict[tuple[int, str, int], int] = {}
        """By line, and by kind and size of the dataset: a loader that is built anew in each epoch is one loader."""
        self._passes: Counter[int] = Counter()

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def hand(iterator: Any) -> Any:
            batch = original(iterator)
            if self.writer.here:
                self._hand(iterator, batch, self.writer.place(2))
            return batch

        return hand

    def _hand(self, iterator: Any, batch: Any, place: int) -> None:
        dataset = iterated_dataset(iterator)
        key = (place, type(dataset).__name__, len(dataset) if isinstance(dataset, Sized) else -1)
        loader, index = self._loaders.setdefault(key, len(self._loaders)), batches_yielded(iterator) - 1
        self._passes[loader] += index == 0
        digest = digest_of_all(batch)
        self.writer.trace.batches.append(
            Batch(self.writer.number(), loader, self._passes[loader] - 1, index, digest, _order(iterator), place)
        )


def _order(iterator: Any) -> str:
    indices = index_sampler(iterator)
    sampler = getattr(indices, "sampler", indices)
    return (
        "stream"
        if isinstance(iterated_dataset(iterator), IterableDataset)
        else "stored"
        if isinstance(sampler, SequentialSampler)
        else "drawn"
    )


# -- a run --


@contextmanager
def tracing(start: Start, most_steps: int | None = None, most_operations: int = OPERATIONS) -> Iterator[Trace]:
    """What is run inside is written down. StopTheRun ends it after so many steps; it is not raised out of here."""
    writer = Writer(start, most_steps, most_operations)
    start.set()
    hook = register_optimizer_step_post_hook(writer.stepped)
    try:
        with ExitStack() as stack:
            stack.enter_context(_listening(writer))
            if most_operations:
                stack.enter_context(Operations(writer))
            yield writer.trace
    except StopTheRun:
        writer.trace.ended = "cut"
    finally:
        hook.remove()


def main(words: list[str]) -> int:
    """OUT STEPS OPERATIONS START and a script or -m MODULE, with its arguments."""
    out, steps, operations, start, *target = words
    program = _program(target)
    with tracing(Start(*map(int, start.split(":"))), int(steps) or None, int(operations)) as trace:
        outcome, error = run(program)
        trace.ended = outcome.reason
    if error is not None and not isinstance(error, SystemExit):
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    write_trace(trace, Path(out))
    return outcome.exit_code


def _program(target: list[str]) -> Program:
    if target[0] != "-m":
        return find_script(target[0], target[1:])
    program = find_module(target[1], target[2:])
    # Of a recipe of ours, the user's lines are those of the recipe.
    return (
        replace(program, path=str(Path(program.path).parent / "recipes" / "__init__.py"))
        if target[1] == "trueloop"
        else program
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
