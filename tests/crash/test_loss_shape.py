"""Predictions and targets that do not belong together."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_rows_of_predictions_against_labels(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(10, 10)
            def forward(self, x):
                return self.fc(x.view(-1, 10))
        model, criterion = Net(), nn.CrossEntropyLoss()
        for images, labels in [(torch.randn(4, 25), torch.zeros(4).long())]:  # loop
            logits = model(images)  # made
            loss = criterion(logits, labels)  # crash
        """)
    assert told.said.kind == "loss-shape"
    assert "`logits`, float32 [10, 10], and `labels`, int64 [4]" in told.said.message
    assert "view(-1, n)" in told.said.fix
    assert f"`logits` is set at train.py:{told.at('# made')}" in told.details
    assert f"`labels` is set at train.py:{told.at('# loop')}" in told.details
    assert told.line == told.at("# crash")


def test_labels_with_an_extra_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4, 1).long()\nloss = F.cross_entropy(torch.randn(4, 10), y)")
    assert "the target must be [4]" in told.said.message
    assert "y.squeeze(1)" in told.said.fix


def test_segmentation_masks_with_an_extra_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4, 1, 8, 8).long()\nloss = F.cross_entropy(torch.randn(4, 3, 8, 8), y)")
    assert "the target must be [4, 8, 8]" in told.said.message
    assert "y.squeeze(1)" in told.said.fix


def test_a_language_model_with_its_classes_last(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4, 7).long()\nout = torch.randn(4, 7, 10)\nloss = nn.CrossEntropyLoss()(out, y)")
    assert "out.transpose(1, 2)" in told.said.fix
    assert "y.flatten()" in told.said.fix


def test_one_output_against_flat_targets(crash: Callable[[str], Crash]) -> None:
    told = crash("y = torch.zeros(4)\nout = torch.randn(4, 1)\nloss = nn.BCEWithLogitsLoss()(out, y)")
    assert "`out`, float32 [4, 1], and `y`, float32 [4]" in told.said.message
    assert "y.unsqueeze(-1)" in told.said.fix


def test_a_regression_of_another_width(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        import warnings
        warnings.simplefilter("ignore")
        y = torch.zeros(4, 3)
        out = torch.randn(4, 5)
        loss = F.mse_loss(out, y)
        """)
    assert "mse_loss got `out`, float32 [4, 5], and `y`, float32 [4, 3]" in told.said.message


def test_a_distance_to_class_numbers(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        import warnings
        warnings.simplefilter("ignore")
        logits, y = torch.randn(8, 3), torch.arange(8) % 3
        loss = F.mse_loss(logits, y)  # crash
        """)
    assert "class numbers 0 to 2" in told.said.message
    assert "nn.functional.cross_entropy(logits, y)" in told.said.fix


def test_a_distance_to_amounts(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        import warnings
        warnings.simplefilter("ignore")
        out, y = torch.randn(8, 3), torch.rand(8)
        loss = F.mse_loss(out, y)  # crash
        """)
    assert "cross_entropy" not in told.said.fix
