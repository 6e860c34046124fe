"""A view that does not hold the tensor: the numbers, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_width_that_does_not_divide(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        x = torch.randn(4, 16, 5, 5)  # made
        x = x.view(-1, 256)  # crash
        """)
    assert told.said.kind == "view-shape"
    assert "[-1, 256] holds a multiple of 256 elements, but `x` has 1600: float32 [4, 16, 5, 5]" in told.said.message
    assert "16*5*5 = 400" in told.details
    assert "x.flatten(1), which gives [4, 400]" in told.said.fix
    assert f"train.py:{told.at('# made')}" in told.details
    assert told.line == told.at("# crash")


def test_a_batch_size_written_into_the_view(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(3, 16, 5, 5)\nx = x.view(4, 400)")
    assert "This batch has 3 samples, not 4" in told.said.fix


def test_a_function_of_torch(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(6)\ntorch.reshape(x, (4, 2))")
    assert "[4, 2] holds 8 elements, but `x` has 6" in told.said.message


def test_memory_order(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(3, 16, 5, 5)\ny = x.permute(0, 2, 3, 1)\nz = y.view(3, -1)")
    assert "`y` (float32 [3, 5, 5, 16], strides [400, 5, 1, 25])" in told.said.message
    assert "y.reshape(…)" in told.said.fix
