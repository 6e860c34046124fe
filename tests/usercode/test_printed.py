"""Metrics in what a script prints."""

from __future__ import annotations

import pytest

from trueloop.usercode.printed import printed_metrics


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
