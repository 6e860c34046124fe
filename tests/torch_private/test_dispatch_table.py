"""The dispatcher's table of one operator, and the dispatch keys of a call."""

from __future__ import annotations

import torch

from trueloop.torch_private.dispatch_table import call_keys, dispatch_table, has_kernel, is_dispatched


def test_the_table_names_the_kernel_of_each_key() -> None:
    lines = dispatch_table("aten::add.Tensor").splitlines()
    assert any(line.startswith("CPU: registered at ") and line.endswith("[kernel]") for line in lines)
    assert any(line.startswith("AutocastCPU: fallthrough registered at ") for line in lines)


def test_overloads_of_torchscript_are_not_dispatched() -> None:
    assert is_dispatched("aten::add.Tensor")
    assert not is_dispatched("aten::add.str")


def test_keys_follow_the_inputs_and_the_modes_of_the_thread() -> None:
    plain = call_keys([torch.zeros(2)])
    assert plain[0] == "AutogradCPU"
    assert plain[-1] == "CPU"
    with torch.autocast("cpu"):
        assert call_keys([torch.zeros(2)])[0] == "AutocastCPU"
    with torch.inference_mode():
        assert "AutogradCPU" not in call_keys([torch.zeros(2)])


def test_a_kernel_of_exactly_this_key() -> None:
    assert has_kernel("aten::linear", "AutocastCPU")
    assert not has_kernel("aten::add.Tensor", "AutocastCPU")
    assert has_kernel("aten::add.Tensor", "FuncTorchBatched")
