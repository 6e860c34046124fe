"""The dispatcher's table of one operator, and the dispatch keys of a call."""

from __future__ import annotations

import torch

from trueloop.torch_private.dispatch_table import call_keys, dispatch_table, has_kernel, is_dispatched, traced_keys


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


def test_the_kernels_that_run_note_their_keys_once_and_the_table_is_restored() -> None:
    before, x = dispatch_table("aten::add_.Tensor"), torch.zeros(2, requires_grad=True).clone()
    keys = ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert traced_keys("aten::add_.Tensor", keys, lambda: x.add_(2, alpha=3)) == keys
    assert x.tolist() == [6, 6]
    assert dispatch_table("aten::add_.Tensor") == before
    with torch.inference_mode():
        y = torch.zeros(2)
        assert traced_keys("aten::add_.Tensor", keys, lambda: y.add_(2)) == ["CPU"]
    # The Python binding of factories excludes autograd, which no key set of the inputs shows.
    assert traced_keys("aten::zeros_like", ["AutogradCPU", "CPU"], lambda: torch.zeros_like(x)) == ["CPU"]
