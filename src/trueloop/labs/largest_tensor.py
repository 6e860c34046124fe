"""The most numbers that one tensor had, of all that operations made."""

from typing import Any

from torch import Tensor

from trueloop.torch_private.dispatch import TorchDispatchMode

__all__ = ["LargestTensor"]


class LargestTensor(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return made
