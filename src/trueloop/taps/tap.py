"""What a tap is, and how a function of torch's is replaced and put back."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from trueloop.taps.wire import Wire

__all__ = ["Patch", "Tap", "passes_by"]

_is_compiling = torch.compiler.is_compiling


class Tap(ABC):
    """One part of torch, hooked or patched."""

    moments: ClassVar[tuple[str, ...]]
    """The moments it tells; a tap nobody listens to is not installed."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    @abstractmethod
    def install(self) -> None: ...

    @abstractmethod
    def remove(self) -> None: ...

    def sleep(self) -> None:
        """The wire sleeps for some steps. Taps whose mere presence costs time override this."""

    def wake(self) -> None:
        """The wire listens again."""


class Patch:
    """One attribute of torch's, replaced by a wrapper of itself, and put back."""

    def __init__(self, owner: Any, name: str, wrap: Callable[[Any], Callable[..., Any]]) -> None:
        self.owner, self.name = owner, name
        self._own = name in vars(owner)
        self._original = getattr(owner, name)
        self._wrapper = functools.wraps(self._original)(wrap(self._original))
        # TorchScript compiles what it finds: it must find the original.
        original = self._original
        self._wrapper.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]
        setattr(owner, name, self._wrapper)

    def undo(self) -> None:
        if getattr(self.owner, self.name) is not self._wrapper:
            return  # somebody has wrapped us since: our wrapper stays in the chain and passes everything by
        if self._own:
            setattr(self.owner, self.name, self._original)
        else:
            delattr(self.owner, self.name)


def passes_by(wire: Wire) -> bool:
    """Should a wrapper call the original and nothing else? Asked first of all, so that the compiler sees a constant."""
    return _is_compiling() or wire.ignores()
