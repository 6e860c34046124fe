"""Labels that are no classes."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_labels_that_start_at_one(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        criterion = nn.CrossEntropyLoss()
        for x, y in [(torch.randn(4, 10), torch.tensor([1, 2, 10, 3]))]:  # loop
            loss = criterion(x, y)  # crash
        """)
    assert told.said.kind == "label"
    assert (
        "`y` contains label 10, but the predictions are float32 [4, 10], so 10 classes: labels must be 0 to 9"
        in told.said.message
    )
    assert "go from 1 to 10; 1 label of 4 is out of range (row 2)" in told.details
    assert f"`y` is set at train.py:{told.at('# loop')}" in told.details
    assert "y - 1" in told.said.fix
    assert told.line == told.at("# crash")


def test_too_few_outputs(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.tensor([0, 7, 3])\nF.nll_loss(torch.randn(3, 5).log_softmax(1), y)")
    assert "Give the last layer at least 8 classes" in told.said.fix


def test_void_pixels(crash: Callable[[str], Crash]) -> None:
    told = crash("mask = torch.full((2, 4, 4), 255)\nmask[0] = 1\nF.cross_entropy(torch.randn(2, 3, 4, 4), mask)")
    assert "16 labels of 32 are out of range" in told.details
    assert "ignore_index=255" in told.said.fix


def test_padding_that_is_not_ignored_is_told_from_padding_that_is(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.tensor([0, -100, -1, 2])\nF.cross_entropy(torch.randn(4, 3), y)")
    assert "`y` contains label -1" in told.said.message
    assert "1 label of 4" in told.details
    assert "ignore_index=-1" in told.said.fix


def test_one_hot(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.tensor([1, 5])\nF.one_hot(y, 3)")
    assert "`y` contains label 5, but num_classes=3" in told.said.message
