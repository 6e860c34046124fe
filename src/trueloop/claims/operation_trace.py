"""A run recorded operation by operation, so that two runs can be compared.

    python -m trueloop.claims.operation_trace OUT.json STEPS OPERATIONS 1:1:1 train.py --lr 0.1
    python -m trueloop.claims.operation_trace OUT.json STEPS OPERATIONS 2:2:2 -m trueloop train digits

Of each torch operation: its name, a digest of its output, a digest of the inputs that no operation computed, and the
user's line. Draws of Python's and numpy's generators, batches of loaders and the weights after each step are recorded
too. A process starts with random states that nobody set. Here they are set to the numbers TORCH:PYTHON:NUMPY, which
differ between two runs unless a test gives both the same one.
"""

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

from trueloop.claims.tensor_digest import digest_of_all
from trueloop.data.source import tensors_in
from trueloop.doctor.launch import Program, find_module, find_script, run
from trueloop.event import Place
from trueloop.measure.tensors import storage_address
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import frame_here, is_direct, place_in
from trueloop.torch_private.dataloader import LoaderIterator, batches_yielded, index_sampler, iterated_dataset
from trueloop.torch_private.dispatch import TorchDispatchMode, operator_schema

__all__ = ["OPERATIONS", "Batch", "Entry", "Start", "Trace", "find_program", "place_of", "read_trace", "short_name"]
__all__ += ["tracing"]

Function = Callable[..., Any]
OPERATIONS: Final = 20_000  # operations recorded; later ones only show in the weights after each step
TRACED_STEPS: Final = 20  # steps whose operations are recorded
WEIGHTS: Final = 1 << 12  # elements of each weight in the digest after a step
# Functions of Python's `random`
DRAWS: Final = (
    *("random", "randint", "randrange", "uniform", "gauss", "normalvariate", "choice", "choices", "sample", "shuffle"),
    *("betavariate", "getrandbits"),
)
# Functions of `numpy.random` that draw from its global generator
NUMPY_DRAWS: Final = (
    *("rand", "randn", "randint", "random", "random_sample", "uniform", "normal", "standard_normal", "choice"),
    *("shuffle", "permutation", "beta", "binomial"),
)
# Operations that overwrite every element of their input
FILLS: Final = frozenset(
    ("uniform_", "normal_", "fill_", "zero_", "copy_", "bernoulli_", "random_", "exponential_", "geometric_")
) | {"cauchy_", "log_normal_"}


@dataclass(frozen=True, slots=True)
class Start:
    """Seeds of a process's generators at its start."""

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

    number: int  # in the order of everything recorded
    name: str
    digest: int
    arrived: int = 0  # digest of the inputs that no operation computed; of a random operation: of its generator's seed
    draws: bool = False  # it draws random numbers
    raw: bool = False  # it works on uninitialized memory: its digest means nothing
    device: str = "cpu"
    place: int = -1  # index into `Trace.places`; -1: not called from the user's code


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that a loader yielded."""

    number: int
    loader: int  # numbered in the order of first use
    passed: int  # passes over this loader before this one
    index: int
    digest: int
    order: str  # stored: sequential; drawn: by a sampler; stream: by the dataset itself
    place: int = -1
    trained: bool = False  # a step was taken before the next batch


@dataclass(frozen=True, slots=True)
class Step:
    """The weights of an optimizer after a step."""

    number: int
    digest: int


@dataclass
class Trace:
    operations: list[Entry] = field(default_factory=list)
    draws: list[Entry] = field(default_factory=list)  # of Python's and numpy's generators, by the user's own lines
    batches: list[Batch] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    places: list[tuple[str, int, str]] = field(default_factory=list)  # path, line, function
    ended: str = "finished"  # finished | cut | exit | exception | interrupted


ENTRIES: Final = {"operations": Entry, "draws": Entry, "batches": Batch, "steps": Step}


def read_trace(path: Path) -> Trace:
    data = json.loads(path.read_text(encoding="utf-8"))
    entries: dict[str, Any] = {name: [kind(*each) for each in data[name]] for name, kind in ENTRIES.items()}
    return Trace(**entries, places=[(path, line, name) for path, line, name in data["places"]], ended=data["ended"])


def write_trace(trace: Trace, path: Path) -> None:
    entries = {name: [list(asdict(each).values()) for each in getattr(trace, name)] for name in ENTRIES}
    path.write_text(json.dumps({**entries, "places": trace.places, "ended": trace.ended}), encoding="utf-8")


def place_of(trace: Trace, index: int) -> Place | None:
    return Place(*trace.places[index]) if index >= 0 else None


def short_name(name: str) -> str:
    """aten::add.Tensor -> add"""
    return name.partition("::")[2].partition(".")[0] or name


# -- recording --


@final
class Recorder:
    """Records everything in one order."""

    def __init__(self, start: Start, most_steps: int | None, most_operations: int) -> None:
        self.trace = Trace()
        self.start = start
        self.open = most_operations > 0  # operations are still recorded
        self._most_steps, self._most = most_steps, most_operations
        self._number = 0
        self._places: dict[Any, int] = {}
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """False in a forked worker."""
        return os.getpid() == self._process

    def number(self) -> int:
        self._number += 1
        return self._number

    def place(self, depth: int) -> int:
        frame = frame_here(depth + 1)
        if frame is None:
            return -1
        place = place_in(frame)
        index = self._places.get(place)
        if index is None:
            index = self._places[place] = len(self.trace.places)
            self.trace.places.append((place.path, place.line, place.function))
        return index

    def operation(self, entry: Entry) -> None:
        self.trace.operations.append(entry)
        self.open = len(self.trace.operations) < self._most

    def draw(self, name: str, digest: int) -> None:
        """Only from the user's own lines: draws inside a library do not count."""
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
    """Sees every operation, also those of a backward."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder
        self._known: set[int] = set()  # addresses of memory that an operation has written or read
        self._raw: set[int] = set()  # addresses of uninitialized memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if not self.recorder.open or not self.recorder.here or (func.is_view and "lift" not in func.name()):
            return func(*args, **named)  # a view is the same memory
        inputs = list(tensors_in((args, named)))
        seed = _seed(named) if torch.Tag.nondeterministic_seeded in func.tags else None
        arrived = self._arrived(inputs, (args, named)) if seed is None else seed
        output = func(*args, **named)
        written = inputs if operator_schema(func).is_mutable else []
        outputs = written if output is None else list(tensors_in(output))
        if outputs:
            self._record(func, inputs, outputs, arrived, seed is not None)
        return output

    def _arrived(self, inputs: list[Tensor], values: Any) -> int:
        """Of inputs that no operation computed: tensors from a file, numpy or a worker; plain numbers."""
        foreign = [tensor for tensor in inputs if storage_address(tensor) not in self._known]
        self._known.update(map(storage_address, foreign))
        return zlib.crc32(repr(list(_numbers(values))).encode(), digest_of_all(foreign))

    def _record(self, func: Any, inputs: list[Tensor], outputs: list[Tensor], arrived: int, draws: bool) -> None:
        name, number, digest = str(func.name()), self.recorder.number(), digest_of_all(outputs)
        raw = self._is_raw(name, inputs, outputs)
        place = self.recorder.place(3)
        self.recorder.operation(Entry(number, name, digest, arrived, draws, raw, outputs[0].device.type, place))

    def _is_raw(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
        """torch.empty returns uninitialized memory: results computed from it mean nothing until it is overwritten."""
        memories = {storage_address(tensor) for tensor in outputs}
        self._known |= memories
        if "empty" in name or name == "aten::resize_":
            self._raw |= memories
            return True
        first = outputs[0]
        complete = first.layout is torch.strided and first.nbytes >= first.untyped_storage().nbytes()
        fills = complete and name.removeprefix("aten::").split(".")[0] in FILLS
        if fills or not any(storage_address(tensor) in self._raw for tensor in inputs):
            self._raw -= memories
            return False
        self._raw |= memories
        return True


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, (bool, int, float, complex)):
        yield value
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)


def _seed(kwargs: dict[str, Any]) -> int:
    """A digest of the seed of an operation's generator."""
    generator = kwargs.get("generator")
    seed = generator.initial_seed() if isinstance(generator, torch.Generator) else torch.initial_seed()
    return zlib.crc32(str(seed).encode())


# -- draws and batches --


@contextmanager
def _patched(recorder: Recorder) -> Iterator[None]:
    """Python's and numpy's random functions and loaders, patched inside."""
    patches: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, wrapper: Any) -> None:
        patches.append((owner, name, getattr(owner, name)))
        setattr(owner, name, wrapper)

    for name in DRAWS:
        patch(random, name, _record_draw(recorder, f"random.{name}", getattr(random, name), random.getstate))
    for name in NUMPY_DRAWS:
        original = getattr(numpy.random, name)
        patch(numpy.random, name, _record_draw(recorder, f"numpy.random.{name}", original, numpy.random.get_state))
    patch(numpy.random, "default_rng", _record_generator(recorder, numpy.random.default_rng))
    patch(LoaderIterator, "__next__", _LoaderPatch(recorder).wrap(LoaderIterator.__next__))
    try:
        yield
    finally:
        for owner, name, original in reversed(patches):
            setattr(owner, name, original)


def _record_draw(recorder: Recorder, name: str, original: Function, state: Callable[[], Any]) -> Function:
    def draw(*args: Any, **kwargs: Any) -> Any:
        recorder.draw(name, zlib.crc32(repr(state()).encode()))
        return original(*args, **kwargs)

    return draw


def _record_generator(recorder: Recorder, original: Function) -> Function:
    def default_rng(*args: Any, **kwargs: Any) -> Any:
        unseeded = not [value for value in (*args, *kwargs.values()) if value is not None]
        generator = original([recorder.start.numpy, recorder.number()]) if unseeded else original(*args, **kwargs)
        recorder.draw("numpy.random.default_rng", zlib.crc32(repr(generator.bit_generator.state).encode()))
        return generator

    return default_rng


@final
class _LoaderPatch:
    """Records the batches that loaders yield."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        # By line, dataset class and dataset size: a loader that is rebuilt in each epoch is one loader.
        self._loaders: dict[tuple[int, str, int], int] = {}
        self._passes: Counter[int] = Counter()

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            if self.recorder.here:
                self._record(iterator, batch, self.recorder.place(2))
            return batch

        return __next__

    def _record(self, iterator: Any, batch: Any, place: int) -> None:
        dataset = iterated_dataset(iterator)
        key = (place, type(dataset).__name__, len(dataset) if isinstance(dataset, Sized) else -1)
        loader, index = self._loaders.setdefault(key, len(self._loaders)), batches_yielded(iterator) - 1
        self._passes[loader] += index == 0
        digest, number = digest_of_all(batch), self.recorder.number()
        recorded = Batch(number, loader, self._passes[loader] - 1, index, digest, _order(iterator), place)
        self.recorder.trace.batches.append(recorded)


def _order(iterator: Any) -> str:
    if isinstance(iterated_dataset(iterator), IterableDataset):
        return "stream"
    indices = index_sampler(iterator)
    sampler = getattr(indices, "sampler", indices)
    return "stored" if isinstance(sampler, SequentialSampler) else "drawn"


# -- a run --


@contextmanager
def tracing(start: Start, most_steps: int | None = None, most_operations: int = OPERATIONS) -> Iterator[Trace]:
    """Records what runs inside. StopTheRun ends it after `most_steps`, and is not raised out of here."""
    recorder = Recorder(start, most_steps, most_operations)
    start.set()
    hook = register_optimizer_step_post_hook(recorder.stepped)
    try:
        with ExitStack() as stack:
            stack.enter_context(_patched(recorder))
            if most_operations:
                stack.enter_context(Operations(recorder))
            yield recorder.trace
    except StopTheRun:
        recorder.trace.ended = "cut"
    finally:
        hook.remove()


def find_program(command: list[str]) -> Program:
    """SCRIPT or -m MODULE, and its arguments."""
    return find_module(command[1], command[2:]) if command[0] == "-m" else find_script(command[0], command[1:])


def main(words: list[str]) -> int:
    """OUT STEPS OPERATIONS START and SCRIPT or -m MODULE, with its arguments."""
    out, steps, operations, start, *command = words
    program = find_program(command)
    if command[:2] == ["-m", "trueloop"]:  # the user's lines are those of the bundled recipe
        program = replace(program, path=str(Path(program.path).parent / "recipes" / "__init__.py"))
    with tracing(Start(*map(int, start.split(":"))), int(steps) or None, int(operations)) as trace:
        outcome, error = run(program)
        trace.ended = outcome.reason
    if error is not None and not isinstance(error, SystemExit):
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    write_trace(trace, Path(out))
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
