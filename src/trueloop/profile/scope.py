"""Which module is it? Hooks of torch's own around every call of a module, for the few steps that ask; a compiled model
is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["Scope"]


@final
class Scope:
    """The modules under way, outermost first, by their names in the model."""

    def __init__(self, entered: Callable[[str], Any] | None = None, left: Callable[[Any], None] | None = None) -> None:
        self.names: dict[int, str] = {}
        self.kinds: dict[str, str] = {}
        self._stack: list[tuple[int, Any]] = []
        self._entered, self._left = entered, left
        self._handles: list[Any] = []

    @property
    def inside(self) -> str | None:
        """The innermost module; None outside of all."""
        return self.names.get(self._stack[-1][0]) if self._stack else None

    def install(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        while self._stack:
            self._leave()

    def _before(self, module: nn.Module, args: Any) -> None:
        if not self._stack and id(module) not in self.names:
            for name, part in module.named_modules():
                self.names[id(part)] = name
                self.kinds.setdefault(name, type(part).__name__)
        name = self.names.get(id(module), "")
        self._stack.append((id(module), self._entered(name) if self._entered else None))

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._stack:
            top = self._stack[-1][0]
            self._leave()
            if top == id(module):
                break

    def _leave(self) -> None:
        _, token = self._stack.pop()
        if self._left is not None:
            self._left(token)
