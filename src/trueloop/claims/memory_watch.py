"""What stays alive from step to step: counted after each optimizer step, and named at the last one.

    python -m trueloop.claims.memory_watch OUT.json STEPS [--lines] SCRIPT [its own arguments]

Counting is cheap because `gc.freeze` hides everything that existed before the first count from the garbage collector.
That changes when garbage is collected, and nothing else.
"""

import gc
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, final
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from trueloop.claims.operation_trace import find_program
from trueloop.claims.referrers import holder_of, line_that_stores, user_frames
from trueloop.doctor.launch import run
from trueloop.event import Place
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import here, is_users
from trueloop.taps.tap import Patch
from trueloop.torch_private.compiler import frames_compiled
from trueloop.torch_private.dataloader import LoaderIterator

__all__ = ["FIRST_COUNT", "KeptObjects", "MemoryLog", "MemoryWatch"]

FIRST_COUNT: Final = 2  # the step of the first count: the optimizer creates its state in the first step
AGED: Final = 3  # an object that is still alive after this many steps is being kept
FRAMES: Final = 12  # traceback depth of an allocation: from inside numpy out to the user's line
GROUPS: Final = 4  # groups of kept tensors that are named, the largest first
NODES: Final = 200_000  # graph nodes counted in one step at most


@dataclass(frozen=True, slots=True)
class KeptObjects:
    """Similar objects that are kept alive, and what holds them."""

    what: str
    count: int
    elements: int  # in each tensor; 0: not tensors
    megabytes: float
    graph: bool  # each holds the graph that computed it
    holder: str
    bounded: bool
    made: Place | None  # the user's line that created them
    stored: Place | None  # the user's line that keeps them


@dataclass
class MemoryLog:
    """One value per step since the first count, and the objects kept at the last."""

    tensors: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)  # of the graphs behind the living tensors
    hooks: list[int] = field(default_factory=list)  # registered since the first count, and not removed
    megabytes: list[float] = field(default_factory=list)  # anonymous memory of the process
    device: list[int] = field(default_factory=list)  # bytes of tensors on the GPU
    passes: list[int] = field(default_factory=list)  # pass over the training data of each step; all 0: no loader
    kept: list[KeptObjects] = field(default_factory=list)
    chain: KeptObjects | None = None  # the living tensor with the longest graph
    hooked: KeptObjects | None = None
    # If requested: file, line and megabytes of Python and numpy memory that grew since the middle, most first
    lines: list[tuple[str, int, float]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.tensors)

    @property
    def aged(self) -> int:
        """Steps in which the kept objects were created: from the middle until a few before the last."""
        last = self.steps + FIRST_COUNT - 1
        return max(1, last - AGED - last // 2)


@final
class MemoryWatch:
    """Counts after each of `last` optimizer steps, then names what is kept and calls `enough`."""

    def __init__(self, last: int, *, lines: bool = False, enough: Callable[[], None] = lambda: None) -> None:
        self.last, self.lines, self.enough = last, lines, enough
        self.log = MemoryLog()
        self.passes = _Passes()
        self.taken = 0  # optimizer steps
        self._before: list[ref[Tensor]] = []  # tensors at the first count
        self._marked: set[int] = set()  # ids of the tensors in the middle
        self._young: list[ref[Tensor]] = []  # tensors created between the middle and a few steps before the end
        self._creation = _CreationLines()
        self._hooks = _Hooks()
        self._snapshot: tracemalloc.Snapshot | None = None

    @contextmanager
    def on(self) -> Iterator[MemoryLog]:
        handle = register_optimizer_step_post_hook(self._after_step)
        patches = [Patch(RemovableHandle, "__init__", self._hooks.wrap), *self.passes.patches()]
        try:
            yield self.log
        finally:
            handle.remove()
            for patch in patches:
                patch.undo()
            self._creation.end()
            gc.unfreeze()
            if tracemalloc.is_tracing() and self.lines:
                tracemalloc.stop()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.taken += 1
        if self.taken > self.last or self.taken < FIRST_COUNT:
            return
        gc.collect()
        if self.taken == FIRST_COUNT:
            self._before = [ref(tensor) for tensor in _tensors()]
            gc.freeze()
        alive = [*(tensor for each in self._before if (tensor := each()) is not None), *_tensors()]
        self._count(alive)
        middle = self.last // 2
        if self.taken == middle:
            self._begin_naming(alive)
        if self.taken == max(self.last - AGED, middle + 1):
            self._young = [ref(tensor) for tensor in alive if id(tensor) not in self._marked]
        if self.taken == self.last:
            self._name(alive)
            self.enough()

    def _count(self, alive: list[Tensor]) -> None:
        log = self.log
        log.tensors.append(len(alive))
        log.nodes.append(_graph_size([tensor.grad_fn for tensor in alive if _has_graph(tensor)]))
        log.hooks.append(len(self._hooks.living()))
        log.megabytes.append(_process_megabytes())
        log.passes.append(self.passes.current)
        if torch.cuda.is_available():
            log.device.append(torch.cuda.memory_allocated())

    def _begin_naming(self, alive: list[Tensor]) -> None:
        self._marked = {id(tensor) for tensor in alive}
        self._creation.begin()
        if self.lines:
            tracemalloc.start(FRAMES)
            self._snapshot = tracemalloc.take_snapshot()

    # -- at the last step --

    def _name(self, alive: list[Tensor]) -> None:
        self._creation.end()
        gc.unfreeze()  # referrers are searched among all objects
        frames = user_frames()
        groups: dict[Any, list[Tensor]] = {}
        for each in self._young:
            if (tensor := each()) is not None:
                key = (tuple(tensor.shape), tensor.dtype, _has_graph(tensor), self._creation.of(tensor))
                groups.setdefault(key, []).append(tensor)
        largest = sorted(groups.items(), key=lambda item: len(item[1]), reverse=True)[:GROUPS]
        own = [alive, groups, largest, *groups.values(), *(pair for pair in largest)]
        self.log.kept = [self._kept(key, group, frames, own) for key, group in largest]
        graphs = {id(tensor): _graph_size([tensor.grad_fn]) for tensor in alive if _has_graph(tensor)}
        with_graph = [tensor for tensor in alive if id(tensor) in graphs]
        own.append(with_graph)
        longest = max(with_graph, key=lambda tensor: graphs[id(tensor)], default=None)
        if longest is not None:
            count, made = graphs[id(longest)], self._creation.of(longest)
            self.log.chain = _held("nodes of one graph", count, longest, made, frames, own, graph=True)
        self.log.hooked = self._hooks.kept()
        if self._snapshot is not None:
            self.log.lines = _grown_lines(self._snapshot)

    def _kept(self, key: Any, group: list[Tensor], frames: list[Any], own: list[Any]) -> KeptObjects:
        shape, dtype, graph, made = key
        sizes = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in group}
        what = f"tensors of shape {list(shape)}, {str(dtype).removeprefix('torch.')}"
        size, elements = sum(sizes.values()) / 2**20, group[0].numel()
        return _held(what, len(group), group[0], made, frames, own, graph=graph, elements=elements, megabytes=size)


def _held(
    what: str,
    count: int,
    example: Tensor,
    made: Place | None,
    frames: list[Any],
    own: list[Any],
    *,
    graph: bool,
    elements: int = 0,
    megabytes: float = 0.0,
) -> KeptObjects:
    """`stored` is the line in the file that creates them, or in one that is running."""
    holder = holder_of(example, frames, own)
    paths = dict.fromkeys([*([made.path] if made else []), *(frame.f_code.co_filename for frame in frames)])
    places = (line_that_stores(holder.name, path) for path in paths if holder.name)
    stored = next((place for place in places if place is not None), None)
    return KeptObjects(what, count, elements, megabytes, graph, holder.words, holder.bounded, made, stored)


# -- counting --


def _tensors() -> list[Tensor]:
    """All that were created since gc.freeze. By type(): an object may fake its `__class__`."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]


def _has_graph(tensor: Tensor) -> bool:
    return tensor.requires_grad and not tensor.is_leaf


def _graph_size(roots: list[Any]) -> int:
    seen: set[Any] = set()
    waiting = [root for root in roots if root is not None]
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions if following is not None]
    return len(seen)


def _process_megabytes() -> float:
    """Without mapped files, whose pages come and go; 0 where the system does not report it."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("RssAnon")), 0.0)


def _grown_lines(before: tracemalloc.Snapshot) -> list[tuple[str, int, float]]:
    """By the nearest line of the user's on the stack of each allocation."""
    grown: Counter[tuple[str, int]] = Counter()
    for each in tracemalloc.take_snapshot().compare_to(before, "traceback"):
        frame = next((frame for frame in reversed(each.traceback) if is_users(frame.filename)), None)
        if frame is not None:
            grown[frame.filename, frame.lineno] += each.size_diff
    return [(path, line, size / 2**20) for (path, line), size in grown.most_common(GROUPS) if size > 0]


# -- origins --


@final
class _CreationLines(TorchFunctionMode):
    """The user's line of each tensor that a torch function returned; keeps nothing alive."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, tuple[ref[Tensor], Place | None]] = {}
        self._on = False

    def begin(self) -> None:
        """Not in a compiled training: a mode would cause recompilation or prevent it."""
        if not frames_compiled():
            self._on = True
            self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        if self._on:
            self._on = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if issubclass(type(tensor), Tensor) and self._find(tensor) is None:
                self._places[id(tensor)] = ref(tensor), here(2)
        return output

    def of(self, tensor: Tensor) -> Place | None:
        found = self._find(tensor)
        return None if found is None else found[1]

    def _find(self, tensor: Tensor) -> tuple[ref[Tensor], Place | None] | None:
        found = self._places.get(id(tensor))
        return found if found is not None and found[0]() is tensor else None


@final
class _Hooks:
    """Registered hooks, and the lines that registered them."""

    def __init__(self) -> None:
        self._all: list[tuple[Any, int, Place | None]] = []

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(handle: RemovableHandle, *args: Any, **kwargs: Any) -> None:
            original(handle, *args, **kwargs)
            self._all.append((handle.hooks_dict_ref, handle.id, here(2)))

        return __init__

    def living(self) -> list[tuple[Any, Place | None]]:
        self._all = [each for each in self._all if (hooks := each[0]()) is not None and each[1] in hooks]
        return [(hooks()[number], place) for hooks, number, place in self._all]

    def kept(self) -> KeptObjects | None:
        """Those of the line that registered the most."""
        living = self.living()
        if not living:
            return None
        place, count = Counter(place for _, place in living).most_common(1)[0]
        hook = next(hook for hook, made in living if made == place)
        name = getattr(hook, "__qualname__", type(hook).__name__)
        holder = "the module or tensor they were registered on"
        return KeptObjects(f"hooks `{name}`", count, 0, 0.0, False, holder, False, place, place)


@final
class _Passes:
    """The pass over a loader that the latest batch came from, as a number that changes with each pass."""

    def __init__(self) -> None:
        self.current = 0
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by iterator; a persistent one gets new ones
        self._started = 0

    def patches(self) -> list[Patch]:
        return [Patch(LoaderIterator, "_reset", self._wrap_reset), Patch(LoaderIterator, "__next__", self._wrap_next)]

    def _wrap_reset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _reset(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            self._numbers.pop(iterator, None)
            return original(iterator, *args, **kwargs)

        return _reset

    def _wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            if iterator not in self._numbers:
                self._started += 1
                self._numbers[iterator] = self._started
            self.current = self._numbers[iterator]
            return original(iterator)

        return __next__


# -- a script, in a child process --


def main(out: str, steps: str, *command: str) -> None:
    lines = command[0] == "--lines"
    program = find_program(list(command[1:] if lines else command))

    def enough() -> None:
        raise StopTheRun

    watch = MemoryWatch(int(steps), lines=lines, enough=enough)
    with watch.on() as log:
        outcome, error = run(program)
    result = {"taken": watch.taken, "exit_code": outcome.exit_code, **asdict(log)}
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    if error is not None:
        raise error


if __name__ == "__main__":
    main(*sys.argv[1:])
