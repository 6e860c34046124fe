"""Metrics in what a script prints."""

from __future__ import annotations

import pytest

from trueloop.usercode.printed import printed_metrics, validation_metrics


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("epoch 3 loss 0.5", {"loss": 0.5}),
        ("Epoch 1/5 train loss: 0.25 val_acc=0.9", {"train loss": 0.25, "val_acc": 0.9}),
        ("{'eval_loss': 1.5, 'eval_f1': 0.25, 'epoch': 1.0}", {"eval_loss": 1.5, "eval_f1": 0.25}),
        ("accuracy 91.5%", {"accuracy": 91.5}),
        ("loss=nan", {"loss": float("nan")}),
        ("step 10 lr 1e-3 time 0.2 s", {}),
        ("reward -12.5 | episode 4", {"reward": -12.5}),
        ("\x1b[32mloss: 1e-05\x1b[0m", {"loss": 1e-05}),
        ("saved to model_v2.pt at 12:30", {}),
    ],
)
def test_names_before_numbers(line: str, found: dict[str, float]) -> None:
    assert str(printed_metrics([line])) == str(found)


def test_the_last_value_counts() -> None:
    assert printed_metrics(["loss 3", "acc 0.1\rloss 2", "loss 1"]) == {"loss": 1.0, "acc": 0.1}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("epoch 3 loss 0.2 val_acc 0.9", {"acc": 0.9}),
        (
            "Test set: Average loss: 0.05, Accuracy: 9750/10000 (98%)",
            {"test_average_loss": 0.05, "test_accuracy": 0.975},
        ),
        ("Epoch 1/5 train loss: 0.25 val_acc=0.9 val loss 0.4", {"acc": 0.9, "loss": 0.4}),
        ("{'eval_loss': 1.5, 'eval_f1': 0.25, 'epoch': 1.0}", {"loss": 1.5, "f1": 0.25}),
        ("accuracy 91.5%", {"accuracy": 91.5}),
        ("step 10 loss 0.5 acc 0.8", {}),
        ("best val acc 0.9", {}),
        ("Validation: loss 0.4 acc 0.8 time 3.2", {"loss": 0.4, "acc": 0.8}),
        ("train acc 0.9 test acc 0.8", {"test_acc": 0.8}),
        ("no number here", {}),
    ],
)
def test_values_of_an_evaluation(line: str, found: dict[str, float]) -> None:
    assert validation_metrics(line) == found
