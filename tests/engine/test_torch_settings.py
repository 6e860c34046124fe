"""Process-wide settings of torch are restored after a run."""

from __future__ import annotations

import torch

from tests.engine.small import SMALL
from trueloop.engine.precision import Precision
from trueloop.engine.torch_settings import torch_settings


def test_a_run_in_which_torch_turns_onednn_off_leaves_it_on() -> None:
    """torch does that when a bf16 product fails on a CPU without bf16; later fp32 runs would differ in their last
    bits."""
    before = torch.backends.mkldnn.enabled
    with torch_settings(Precision("bf16", torch.device("cpu")), SMALL):
        torch.backends.mkldnn.enabled = not before  # type: ignore[assignment]
    assert torch.backends.mkldnn.enabled == before
