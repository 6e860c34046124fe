"""Tensors of types that do not mix: which is what, and what to write."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_doubles_from_numpy(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        import numpy as np
        model = nn.Sequential(nn.Linear(3, 4))
        x = torch.from_numpy(np.zeros((2, 3)))  # made
        model(x)  # crash
        """)
    assert told.said.kind == "dtype"
    assert "`model.0` (Linear) has float32 weights, but `x` is float64 [2, 3]" in told.said.message
    assert f"train.py:{told.at('# made')}" in told.details
    assert "numpy creates float64" in told.details
    assert "x.float()" in told.said.fix
    assert told.line == told.at("# crash")


def test_bytes_of_an_image(crash: Callable[[str], Crash]) -> None:
    told = crash("conv = nn.Conv2d(1, 2, 3)\nfor img in [torch.zeros(1, 1, 8, 8, dtype=torch.uint8)]:\n    conv(img)")
    assert "`conv` (Conv2d) has float32 weights, but `img` is uint8 [1, 1, 8, 8]" in told.said.message
    assert "img.float() / 255" in told.said.fix


def test_half_precision_by_hand(crash: Callable[[str], Crash]) -> None:
    told = crash("model = nn.Linear(3, 4)\nx = torch.zeros(2, 3).half()\nmodel(x)")
    assert "`x` is float16 [2, 3]" in told.said.message
    assert "torch.autocast" in told.said.fix


def test_normalisation_and_recurrent_layers(crash: Callable[[str], Crash]) -> None:
    for layer, shape in (("nn.BatchNorm1d(3)", "4, 3"), ("nn.LayerNorm(3)", "4, 3"), ("nn.LSTM(3, 2)", "4, 2, 3")):
        told = crash(f"layer = {layer}\nx = torch.zeros({shape}).double()\nlayer(x)")
        assert "has float32 weights, but `x` is float64" in told.said.message


def test_class_numbers_that_are_fractions(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4)  # made\nloss = nn.CrossEntropyLoss()(torch.randn(4, 3), y)")
    assert "cross_entropy needs class indices in int64, but `y` is float32 [4]" in told.said.message
    assert "y.long()" in told.said.fix
    assert f"train.py:{told.at('# made')}" in told.details


def test_one_hot_labels_that_are_whole_numbers(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4, 3).long()\nloss = F.cross_entropy(torch.randn(4, 3), y)")
    assert "class probabilities" in told.said.message
    assert "y.argmax(1)" in told.said.fix


def test_binary_targets_that_are_whole_numbers(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4, 1).long()\nloss = nn.BCEWithLogitsLoss()(torch.randn(4, 1), y)")
    assert "the predictions are float32 [4, 1], but `y` is int64 [4, 1]" in told.said.message
    assert "y.float()" in told.said.fix
    told = crash("y = torch.zeros(4, 1).long()\nloss = nn.BCELoss()(torch.rand(4, 1), y)")
    assert "but `y` is int64 [4, 1]" in told.said.message


def test_a_product_of_two_types(crash: Callable[[str], Crash]) -> None:
    told = crash("a = torch.randn(3, 4)\nb = torch.randn(4, 3).double()\nc = a @ b")
    assert "`a` is float32 [3, 4] and `b` is float64 [4, 3]" in told.said.message
    assert "b.float()" in told.said.fix


def test_indices_and_row_numbers_that_are_fractions(crash: Callable[[str], Crash]) -> None:
    told = crash("e = nn.Embedding(3, 2)\nt = torch.tensor([1.0])\ne(t)")
    assert "`e` (Embedding) looks up rows by index" in told.said.message
    assert "t.long()" in told.said.fix
    told = crash("x = torch.randn(3, 4)\ni = torch.tensor([1.0])\nx[i]")
    assert "`i` is float32 [1], but indices must be integers" in told.said.message
