"""Which value of an evaluation is the run's metric, where nobody has said so, and in which direction it improves."""

from collections.abc import Iterable
from typing import Final

__all__ = ["chosen_metric", "is_higher_better"]

LOWER: Final = ("loss", "error", "mae", "mse", "rmse", "perplexity", "ppl", "wer", "cer", "fid", "bpb", "bpc")
"""In the name of a metric of which less is better."""


def chosen_metric(names: Iterable[str]) -> str:
    """Of one evaluation: its first measure; else its loss. Values of training data are not chosen. Empty: none."""
    held_out = [name for name in names if name not in ("seconds", "train_loss")]
    measures = [name for name in held_out if "loss" not in name]
    return next(iter([*measures, *held_out]), "")


def is_higher_better(metric: str) -> bool:
    return not any(word in metric.lower() for word in LOWER)
