"""Tracks the module that is running, by torch's global module hooks. Not used with compiled models."""

from collections.abc import Callable
from typing import Any, final

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleStack"]


@final
class ModuleStack:
    """The running modules, outermost first, by their names in the model."""

    def __init__(self, enter: Callable[[str], Any] | None = None, leave: Callable[[Any], None] | None = None) -> None:
        self.names: dict[int, str] = {}
        self.kinds: dict[str, str] = {}
        self._stack: list[tuple[int, Any]] = []
        self._on_enter, self._on_leave = enter, leave
        self._handles: list[Any] = []

    @property
    def inside(self) -> str | None:
        """The innermost module; None outside of all modules."""
        return self.names.get(self._stack[-1][0]) if self._stack else None

    def install(self) -> None:
        before = register_module_forward_pre_hook(self._before)
        self._handles = [before, register_module_forward_hook(self._after, always_call=True)]

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
        self._stack.append((id(module), self._on_enter(name) if self._on_enter else None))

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._stack:
            top = self._stack[-1][0]
            self._leave()
            if top == id(module):
                break

    def _leave(self) -> None:
        _, token = self._stack.pop()
        if self._on_leave is not None:
            self._on_leave(token)
