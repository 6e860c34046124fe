"""How much rounding moves a model's outputs: the same model with each weight and input changed by one rounding.

Where large numbers cancel, a correct runtime differs by much more than the outputs are large. Such differences are the
model's own, not the export's.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from trueloop.export.program import Program

__all__ = ["RoundedModel"]


@final
class RoundedModel:
    """A copy of the program, slightly off; made when it is first asked."""

    def __init__(self, program: Program) -> None:
        self.draws = torch.Generator().manual_seed(0)
        self.program = program

    @cached_property
    def _copy(self) -> Program:
        made = copy.deepcopy(self.program)
        with torch.no_grad():
            for tensor in (*made.parameters(), *made.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(self._rounded(tensor))
        return made

    def answer(self, raw: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return self._copy.answer([self._rounded(each) if each.is_floating_point() else each for each in raw])

    def _rounded(self, tensor: Tensor) -> Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=self.draws) * 2 - 1
        return tensor * (1 + torch.finfo(tensor.dtype).eps * signs.to(tensor.dtype))
