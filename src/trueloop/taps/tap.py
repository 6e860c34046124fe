"""What a tap is, and how a function of torch's is replaced and put back."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import torch
from torch.utils.hooks import RemovableHandle

from trueloop.taps.bus import Bus
from trueloop.taps.place import UNSEEN
from trueloop.torch_private.compiler import compiler_callback, hide_from_compiler
from trueloop.torch_private.torchscript import copy_builtin, forget_builtin

__all__ = ["Patch", "Tap", "is_foreign", "is_logged", "is_unwatched", "undone_after"]

_is_compiling = torch.compiler.is_compiling


class Tap(ABC):
    """One part of torch, hooked or patched."""

    topics: ClassVar[tuple[str, ...]]  # The topics it publishes; a tap without subscribers is not installed

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.patches: list[Patch] = []

    @abstractmethod
    def install(self) -> None: ...

    def remove(self) -> None:
        while self.patches:
            self.patches.pop().undo()

    def sleep(self) -> None:
        """The bus sleeps for some steps. Taps whose patches cost time override this."""

    def wake(self) -> None:
        """The bus is awake again."""

    def window_changed(self) -> None:
        """One of TRANSFER_WINDOWS begins or has ended. Taps that patch only then override this."""


class Patch:
    """One attribute of torch, replaced by a wrapper, and restored."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Callable[..., Any]]) -> None:
        self.owner, self.name = owner, name
        self._own = name in vars(owner)
        self._original = getattr(owner, name)
        self.wrapper = _disguised(wrap(self._original), self._original, owner, name)
        copy_builtin(self._original, self.wrapper)
        setattr(owner, name, self.wrapper)

    def undo(self) -> None:
        if getattr(self.owner, self.name) is not self.wrapper:
            return  # somebody has wrapped the wrapper: it stays in the chain and does nothing
        forget_builtin(self.wrapper)
        if self._own:
            setattr(self.owner, self.name, self._original)
        else:
            delattr(self.owner, self.name)


@contextmanager
def undone_after(handles: Iterable[RemovableHandle], patches: Iterable[Patch]) -> Iterator[None]:
    """Removes hooks and patches at the end of the block, whatever happens in it."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        for patch in patches:
            stack.callback(patch.undo)
        yield


def _disguised(wrapper: Callable[..., Any], original: Any, owner: Any, name: str) -> Callable[..., Any]:
    """Make a wrapper look like the original to pickle, TorchScript, inspect and warnings."""
    functools.update_wrapper(wrapper, original)
    if isinstance(wrapper, FunctionType):
        wrapper.__code__ = wrapper.__code__.replace(co_filename=UNSEEN)
        hide_from_compiler(wrapper.__code__)
    if isinstance(owner, ModuleType) and not isinstance(original, FunctionType):
        wrapper.__module__, wrapper.__qualname__ = owner.__name__, name  # a builtin function does not know its module
    # TorchScript must compile the original.
    wrapper.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]
    return wrapper


def is_unwatched(bus: Bus) -> bool:
    """Should a wrapper only call the original? Asked first, so that the compiler sees a constant."""
    if _is_compiling() or compiler_callback() is not None:
        return True
    return bus.busy or not bus.awake or get_ident() != bus.thread  # `ignores` written out: some twenty times a step


def is_foreign(bus: Bus) -> bool:
    """The same for a wrapper that publishes even while the taps sleep."""
    return _is_compiling() or compiler_callback() is not None or bus.is_foreign()


def is_logged(bus: Bus) -> bool:
    """Does this call belong to the curve of the run? Also while the taps sleep."""
    return bus.step_log is not None and not is_foreign(bus)


hide_from_compiler(is_foreign.__code__)
hide_from_compiler(is_logged.__code__)
hide_from_compiler(is_unwatched.__code__)
