"""Function modes that are active."""

from __future__ import annotations

import torch

from trueloop.torch_private.modes import function_modes, has_only_default_device


def test_function_modes_are_listed_innermost_last() -> None:
    assert function_modes() == []
    with torch.device("cpu") as outer, torch.device("meta") as inner:
        assert len(function_modes()) == 2
        assert function_modes()[-1] is not function_modes()[0]
        assert not has_only_default_device()
        assert outer != inner
    assert function_modes() == []


def test_the_default_device_is_recognized() -> None:
    torch.set_default_device("cpu")
    try:
        assert has_only_default_device()
    finally:
        torch.set_default_device(None)
    assert not has_only_default_device()
