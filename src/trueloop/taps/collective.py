"""Patches torch.distributed: joining a group, collectives, and DistributedDataParallel, whose collectives run in
backward.

Every call is logged before it starts, even while the bus sleeps: the logs of all ranks are compared by count, so none
may be missing. A run of one process has no log and no cost.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from trueloop.event import Place
from trueloop.taps.bus import Bus
from trueloop.taps.calls import BuiltWrapper, CollectiveCall, Joined
from trueloop.taps.collective_log import STACK, CollectiveLog, Group
from trueloop.taps.place import is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.compiler import compiler_callback, forget_collective, register_collective
from trueloop.torch_private.modules import SYNC_BUFFERS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CollectiveTap"]

FUNCTIONS: Final = (
    *("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "gather", "scatter", "barrier", "monitored_barrier"),
    *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single"),
    *("all_to_all", "all_to_all_single", "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
)  # Collectives of torch.distributed; skipped if this torch lacks them
SAME_SIZE: Final = ("all_reduce", "broadcast", "reduce")  # These need the same number of elements on every rank

FORWARDS: Final = 4  # First calls of a wrapper, which may wait for the other ranks: one of them rebuilds the buckets

LET_GO: Final = 0.05
"""Seconds that a process group is left alone before it is destroyed. Gloo's threads need the interpreter to free the
last collectives, and the destructor of the group waits for those threads without releasing the interpreter."""

FORWARD: Final = "forward of DistributedDataParallel"
BACKWARD: Final = "backward of DistributedDataParallel"
BUFFERS: Final = "buffers of DistributedDataParallel"
WRAPPING: Final = "DistributedDataParallel()"

_Given = tuple[tuple[Any, ...], dict[str, Any]]  # Positional and keyword arguments

_is_compiling = torch.compiler.is_compiling


class CollectiveTap(Tap):
    topics = ("group_joined", "collective_called", "collective_ended", "wrapper_built", "wrapper_called")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._watches_backward = False
        self._inside = False  # A collective is running: its inner calls are part of it
        self._groups: dict[str, Group] = {}
        self._prepared: dict[str, dist.ProcessGroup] = {}  # Groups over which the next backward exchanges gradients
        self._forwards: WeakKeyDictionary[DistributedDataParallel, int] = WeakKeyDictionary()

    def install(self) -> None:
        if not dist.is_available():
            return
        c10d = dist.distributed_c10d
        self._patch_both("init_process_group", self._wrap_join)
        self._patch_both("destroy_process_group", self._wrap_leave)
        for name in FUNCTIONS:
            if hasattr(c10d, name):
                original = getattr(c10d, name)
                register_collective(original, self._patch_both(name, self._wrap_collective).wrapper)
        wraps = {"__init__": self._wrap_wrapping, "forward": self._wrap_forward, SYNC_BUFFERS: self._wrap_buffers}
        self.patches += [Patch(DistributedDataParallel, name, wrap) for name, wrap in wraps.items()]
        if dist.is_initialized():
            self._join()

    def _patch_both(self, name: str, wrap: Callable[[Any], Callable[..., Any]]) -> Patch:
        """Users and torch itself find a function of torch.distributed under two names."""
        first = Patch(dist.distributed_c10d, name, wrap)
        self.patches.append(first)
        if hasattr(dist, name):
            self.patches.append(Patch(dist, name, lambda _: first.wrapper))
        return first

    def remove(self) -> None:
        for patch in self.patches:
            forget_collective(patch.wrapper)
        super().remove()

    # -- joining --

    def _wrap_join(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not self.bus.is_foreign():
                self._join()
            return result

        return init_process_group

    def _wrap_leave(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
            if self.bus.collective_log is not None:
                sleep(LET_GO)
            return original(*args, **kwargs)

        return destroy_process_group

    def _join(self) -> None:
        if self.bus.collective_log is not None or dist.get_world_size() < 2:
            return
        try:
            self.bus.collective_log = CollectiveLog(dist.get_rank(), self.bus.ranks_folder)
        except OSError:
            self.bus.fail("the collectives of this rank could not be logged")
            return
        self.bus.publish("group_joined", Joined(dist.get_rank(), dist.get_world_size()))
        self.bus.on_joined()

    # -- collectives --

    def _wrap_collective(self, original: Callable[..., Any]) -> Callable[..., Any]:
        position = list(inspect.signature(original).parameters).index("group")
        name = original.__name__

        def collective(*args: Any, **kwargs: Any) -> Any:
            if self._passes():
                return original(*args, **kwargs)
            group = kwargs.get("group", args[position] if len(args) > position else None)
            members = self._members(group)
            if members is None:
                return original(*args, **kwargs)
            first = kwargs.get("tensor", args[0] if args else None) if name in SAME_SIZE else None
            with self._written(name, members, first, (args, kwargs)):
                return original(*args, **kwargs)

        return collective

    def _passes(self) -> bool:
        """Is there nothing to log: one process, part of another collective, or not the run's own call?"""
        traced = _is_compiling() or compiler_callback() is not None
        return traced or self.bus.collective_log is None or self._inside or self.bus.is_foreign()

    def _members(self, group: Any) -> Group | None:
        """The name and the ranks of a group; None if this rank is not a member."""
        group = dist.group.WORLD if group is None else group
        if not isinstance(group, dist.ProcessGroup):
            return None
        name = group.group_name
        if name not in self._groups:
            self._groups[name] = (name, tuple(dist.get_process_group_ranks(group)))
        return self._groups[name]

    @contextmanager
    def _written(
        self, name: str, group: Group, tensor: Any = None, given: _Given | None = None, *, whole: bool = True
    ) -> Iterator[None]:
        """Log the call and how it ended, and publish what it was given. Inner calls are part of it if `whole`."""
        places = _users_lines()
        record = self._enter(name, group, places, tensor)
        call = None
        if given is not None and not is_unwatched(self.bus):
            call = CollectiveCall(name, *given, group[1], places[0] if places else None)
            self.bus.publish("collective_called", call)
        self._inside = whole
        failed = True
        try:
            yield
            failed = False
        finally:
            self._inside = False
            if call is not None:
                self.bus.publish("collective_ended", call)
            if record is not None and self.bus.collective_log is not None:
                self.bus.collective_log.leave(record, failed=failed)

    def _enter(self, name: str, group: Group, places: tuple[Place, ...], tensor: Any) -> tuple[Any, ...] | None:
        log = self.bus.collective_log
        assert log is not None
        size, dtype = (tensor.numel(), str(tensor.dtype)) if isinstance(tensor, Tensor) else (None, "")
        try:
            return log.enter(name, group, places, size=size, dtype=dtype, direct=name in FUNCTIONS)
        except OSError:  # a full disk must not end the training
            self.bus.fail("the collectives of this rank could no longer be logged")
            self.bus.collective_log = None
            return None

    # -- DistributedDataParallel, which calls collectives in C++ --

    def _wrap_wrapping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(wrapper: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
            members = None if self._passes() else self._members(kwargs.get("process_group"))
            if members is None:
                original(wrapper, *args, **kwargs)
                return
            self._watch_backward()
            with self._written(WRAPPING, members):
                original(wrapper, *args, **kwargs)
            if not is_unwatched(self.bus):
                lines = _users_lines()
                self.bus.publish("wrapper_built", BuiltWrapper(wrapper, members[1], lines[0] if lines else None))

        return __init__

    def _wrap_forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(wrapper: DistributedDataParallel, *args: Any, **kwargs: Any) -> Any:
            if self._passes() or not torch.is_grad_enabled():
                return original(wrapper, *args, **kwargs)
            if self.bus.awake:
                self.bus.publish("wrapper_called", wrapper)
            if wrapper.require_backward_grad_sync:
                group = wrapper.process_group
                self._prepared[group.group_name] = group
                members = self._members(group) if self._forwards.get(wrapper, 0) < FORWARDS else None
                if members is not None:
                    self._forwards[wrapper] = self._forwards.get(wrapper, 0) + 1
                    with self._written(FORWARD, members, whole=False):
                        return original(wrapper, *args, **kwargs)
            return original(wrapper, *args, **kwargs)

        return forward

    def _wrap_buffers(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def sync_buffers(wrapper: DistributedDataParallel) -> Any:
            members = None if self._passes() else self._members(wrapper.process_group)
            if members is None:
                return original(wrapper)
            with self._written(BUFFERS, members):
                return original(wrapper)

        return sync_buffers

    def _watch_backward(self) -> None:
        """Patch backward when the first wrapper is built."""
        if not self._watches_backward:
            self._watches_backward = True
            self.patches.append(Patch(torch.autograd, "backward", self._wrap_backward))

    def _wrap_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._prepared or self._passes():
                return original(*args, **kwargs)
            members = self._members(list(self._prepared.values())[-1])
            self._prepared.clear()
            if members is None:
                return original(*args, **kwargs)
            with self._written(BACKWARD, members):
                return original(*args, **kwargs)

        return backward


def _users_lines() -> tuple[Place, ...]:
    """The user's lines on the stack, innermost first."""
    found: list[Place] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < STACK:
        if is_users(frame.f_code.co_filename):
            found.append(place_in(frame))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)
