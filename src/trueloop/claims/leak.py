"""What stays alive from one step to the next: counted after each optimizer step, and at the last one named.

    python -m trueloop.claims.leak OUT STEPS SCRIPT [its own arguments]     a script, in a child of its own; OUT becomes
    the JSON of it

Counting is cheap because what was there before the first look is set aside from the garbage collector (`gc.freeze`):
only what came since is gone through. That changes when garbage is collected, and nothing else.
"""

from __future__ import annotations

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

from trueloop.claims.holder import holder_of, put_there, users_frames
from trueloop.doctor.launch import find_module, find_script, run
from trueloop.event import Place
from trueloop.taps.bus import StopTheRun
from trueloop.taps.place import here, is_users
from trueloop.taps.tap import Patch
from trueloop.torch_private.compiler import has_compiled
from trueloop.torch_private.dataloader import LoaderIterator

__all__ = ["BEGIN", "Kept", "Seen", "Watch"]

BEGIN: Final = 2
"""Steps before the first look: the optimizer makes its state in the first."""
AGED: Final = 3
"""Steps after which what was made in a step and is still there is being kept."""
FRAMES: Final = 12
"""Of a call that are noted with memory: from an allocation inside numpy out to the user's line."""
TELL: Final = 4
"""Groups of kept tensors that are told of, the largest first."""
NODES: Final = 200_000
"""Of a graph that are counted in one step: a count is not worth more than the training."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Things alike that are kept, and by whom."""

    what: str
    count: int
    numbers: int
    """In each of them; 0 of what is no tensor."""
    megabytes: float
    graph: bool
    """Does each hold the graph that it was computed by?"""
    holder: str
    bounded: bool
    made: Place | None
    """The user's line that made them."""
    put: Place | None
    """The user's line that keeps them."""


@dataclass
class Seen:
    """One number per step since the first look, and what is kept at the last."""

    tensors: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    """Of the graphs behind the living tensors."""
    hooks: list[int] = field(default_factory=list)
    """That were registered since the first look, and are still."""
    megabytes: list[float] = field(default_factory=list)
    """Of the process: its own memory, without mapped files."""
    device: list[int] = field(default_factory=list)
    """Bytes of tensors on the GPU."""
    passes: list[int] = field(default_factory=list)
    """In which pass over the training data a step lies; 0 throughout: no loader is in use."""
    kept: list[Kept] = field(default_factory=list)
    chain: Kept | None = None
    """The living tensor with the longest graph behind it."""
    hooked: Kept | None = None
    lines: list[tuple[str, int, float]] = field(default_factory=list)
    """File, line and megabytes of Python's and numpy's memory that grew since the middle, the most first, if that was
    asked for."""

    @property
    def steps(self) -> int:
        return len(self.tensors)

    @property
    def aged(self) -> int:
        """Steps in which what is kept was made: from the middle until a few before the last."""
        last = self.steps + BEGIN - 1
        return max(1, last - AGED - last // 2)


@final
class Watch:
    """Looks after each optimizer step, `last` of them; then names what is kept and calls `enough`."""

    def __init__(self, last: int, *, lines: bool = False, enough: Callable[[], None] | None = None) -> None:
        self.last, self.lines, self.enough = last, lines, enough or (lambda: None)
        self.seen = Seen()
        self.passes = _Passes()
        self.taken = 0
        """Optimizer steps, counted from the first."""
        self._before: list[ref[Tensor]] = []
        """Those that were there at the first look."""
        self._marked: set[int] = set()
        """Numbers of the tensors that were there in the middle."""
        self._young: list[ref[Tensor]] = []
        """Those that came between the middle and a few steps before the end."""
        self._births = _Births()
        self._hooks = _Hooks()
        self._snapshot: tracemalloc.Snapshot | None = None

    @contextmanager
    def on(self) -> Iterator[Seen]:
        """While the training runs inside."""
        handle = register_optimizer_step_post_hook(self._after_step)
        patches = [Patch(RemovableHandle, "__init__", self._hooks.wrap), *self.passes.patches()]
        try:
            yield self.seen
        finally:
            handle.remove()
            for patch in patches:
                patch.undo()
            self._births.end()
            gc.unfreeze()
            if tracemalloc.is_tracing() and self.lines:
                tracemalloc.stop()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.taken += 1
        if self.taken > self.last or self.taken < BEGIN:
            return
        gc.collect()
        if self.taken == BEGIN:
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
        seen = self.seen
        seen.tensors.append(len(alive))
        seen.nodes.append(_graph_size([tensor.grad_fn for tensor in alive if _has_graph(tensor)]))
        seen.hooks.append(len(self._hooks.living()))
        seen.megabytes.append(_own_megabytes())
        seen.passes.append(self.passes.current)
        if torch.cuda.is_available():
            seen.device.append(torch.cuda.memory_allocated())

    def _begin_naming(self, alive: list[Tensor]) -> None:
        self._marked = {id(tensor) for tensor in alive}
        self._births.begin()
        if self.lines:
            tracemalloc.start(FRAMES)
            self._snapshot = tracemalloc.take_snapshot()

    # -- at the last step --

    def _name(self, alive: list[Tensor]) -> None:
        self._births.end()
        gc.unfreeze()  # referrers are looked for among all that there is
        frames = users_frames()
        groups: dict[Any, list[Tensor]] = {}
        for each in self._young:
            if (tensor := each()) is not None:
                groups.setdefault(
                    (tuple(tensor.shape), tensor.dtype, _has_graph(tensor), self._births.of(tensor)), []
                ).append(tensor)
        largest = sorted(groups.items(), key=lambda item: len(item[1]), reverse=True)[:TELL]
        ours = [alive, groups, largest, *groups.values(), *(pair for pair in largest)]
        self.seen.kept = [self._kept(key, group, frames, ours) for key, group in largest]
        graphs = {id(tensor): _graph_size([tensor.grad_fn]) for tensor in alive if _has_graph(tensor)}
        longest = max(
            (tensor for tensor in alive if id(tensor) in graphs), key=lambda tensor: graphs[id(tensor)], default=None
        )
        if longest is not None:
            holder = holder_of(longest, frames, ours)
            put = _put(holder.name, self._births.of(longest), frames)
            count, made = graphs[id(longest)], self._births.of(longest)
            self.seen.chain = Kept("nodes of one graph", count, 0, 0.0, True, holder.words, holder.bounded, made, put)
        self.seen.hooked = self._hooks.kept()
        if self._snapshot is not None:
            self.seen.lines = _grown_lines(self._snapshot)

    def _kept(self, key: Any, group: list[Tensor], frames: list[Any], ours: list[Any]) -> Kept:
        shape, kind, graph, made = key
        holder = holder_of(group[0], frames, ours)
        size = (
            sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in group}.values())
            / 2**20
        )
        what = f"tensors of shape {list(shape)}, {str(kind).removeprefix('torch.')}"
        return Kept(
            what,
            len(group),
            group[0].numel(),
            size,
            graph,
            holder.words,
            holder.bounded,
            made,
            _put(holder.name, made, frames),
        )


def _put(name: str, made: Place | None, frames: list[Any]) -> Place | None:
    """The line that puts them there: in the file that makes them, or one that is being run."""
    paths = dict.fromkeys([*([made.path] if made else []), *(frame.f_code.co_filename for frame in frames)])
    return next((place for path in paths if name and (place := put_there(name, path)) is not None), None)


# -- counting --


def _tensors() -> list[Tensor]:
    """All that came since the collector was last told to set things aside. By their type: an object may lie about its
    class."""
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


def _own_megabytes() -> float:
    """Of this process alone: pages of mapped files come and go as they are read. 0 where the system does not tell."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("RssAnon")), 0.0)


def _grown_lines(before: tracemalloc.Snapshot) -> list[tuple[str, int, float]]:
    """By the nearest line of the user's: what numpy allocates is asked for by somebody."""
    grown: Counter[tuple[str, int]] = Counter()
    for each in tracemalloc.take_snapshot().compare_to(before, "traceback"):
        frame = next((frame for frame in reversed(each.traceback) if is_users(frame.filename)), None)
        if frame is not None:
            grown[frame.filename, frame.lineno] += each.size_diff
    return [(path, line, size / 2**20) for (path, line), size in grown.most_common(TELL) if size > 0]


# -- where things come from --


@final
class _Births(TorchFunctionMode):
    """The user's line of each tensor that a function of torch hands out; nothing is kept alive by it."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, tuple[ref[Tensor], Place | None]] = {}
        self._on = False

    def begin(self) -> None:
        """Not in a training that is compiled: a mode would have it compiled anew, or not at all."""
        if not has_compiled():
            self._on = True
            self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        if self._on:
            self._on = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if issubclass(type(tensor), Tensor) and self._find(tensor) is None:
                self._places[id(tensor)] = ref(tensor), here(2)
        return made

    def of(self, tensor: Tensor) -> Place | None:
        found = self._find(tensor)
        return None if found is None else found[1]

    def _find(self, tensor: Tensor) -> tuple[ref[Tensor], Place | None] | None:
        found = self._places.get(id(tensor))
        return found if found is not None and found[0]() is tensor else None


@final
class _Hooks:
    """Hooks that were registered, on whatever, and from where."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, int, Place | None]] = []

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(handle: RemovableHandle, *args: Any, **kwargs: Any) -> None:
            original(handle, *args, **kwargs)
            self._made.append((handle.hooks_dict_ref, handle.id, here(2)))

        return __init__

    def living(self) -> list[tuple[Any, Place | None]]:
        self._made = [each for each in self._made if (where := each[0]()) is not None and each[1] in where]
        return [(each[0]()[each[1]], each[2]) for each in self._made]

    def kept(self) -> Kept | None:
        """Those of the line that has made the most."""
        living = self.living()
        if not living:
            return None
        (place, count) = Counter(place for _, place in living).most_common(1)[0]
        hook = next(hook for hook, made in living if made == place)
        name = getattr(hook, "__qualname__", type(hook).__name__)
        return Kept(f"hooks `{name}`", count, 0, 0.0, False, "what they were registered on", False, place, place)


@final
class _Passes:
    """The pass over a loader that the latest batch came from: a number that changes when it is begun anew."""

    def __init__(self) -> None:
        self.current = 0
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """Of a loader's iterator; one that stays for several passes gets a new one for each."""
        self._begun = 0

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
                self._begun += 1
                self._numbers[iterator] = self._begun
            self.current = self._numbers[iterator]
            return original(iterator)

        return __next__


# -- a script, in a child --


def main(out: str, steps: str, *words: str) -> None:
    lines, words = (True, words[1:]) if words[0] == "--lines" else (False, words)
    program = find_module(words[1], words[2:]) if words[0] == "-m" else find_script(words[0], words[1:])

    def enough() -> None:
        raise StopTheRun

    watch = Watch(int(steps), lines=lines, enough=enough)
    with watch.on() as seen:
        outcome, error = run(program)
    whole = {"taken": watch.taken, "exit_code": outcome.exit_code, **asdict(seen)}
    Path(out).write_text(json.dumps(whole), encoding="utf-8")
    if error is not None:
        raise error


if __name__ == "__main__":
    main(*sys.argv[1:])
