"""Running a copy of a model leaves no trace in the script."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from trueloop.taps.replay_copy import ReplayCopy


class Warns(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        warnings.warn("a layer of the user's", UserWarning, stacklevel=1)
        return super().forward(x)


def test_warnings_are_not_shown_and_those_of_the_script_are_not_forgotten() -> None:
    """Python shows a warning of one line once; `catch_warnings` would make it forget which it has shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("of the script", UserWarning, stacklevel=1)
            ReplayCopy(Warns(2, 2)).run(((torch.ones(1, 2),), {}))
        assert [str(each.message) for each in shown] == ["of the script"]
    before = list(warnings.filters)
    ReplayCopy(Warns(2, 2)).run(((torch.ones(1, 2),), {}))
    assert list(warnings.filters) == before
