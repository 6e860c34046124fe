"""A run as a whole: its folder, its lock, its files and its listeners. `trueloop.session(...)` gives one to a loop of
one's own: the package can be called, because Python gives it the name of that function."""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from trueloop.session.own_loop import session

        return session(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
