"""Scores of a model's outputs against labels, as a script may print them: pure functions of two tensors."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor, nn

__all__ = ["scores"]

MOST_CLASSES: Final = 2048
LEAST: Final = 8  # rows


def scores(outputs: Tensor, labels: Tensor) -> dict[str, float]:
    """By name. `outputs`: [rows] or [rows, classes] on the CPU; `labels`: [rows]."""
    if len(outputs) != len(labels) or len(labels) < LEAST or not bool(outputs.isfinite().all()):
        return {}
    outputs, labels = outputs.double(), labels.double()
    if not bool(labels.isfinite().all()):
        return {}
    return dict(_of_classes(outputs, labels) if outputs.ndim == 2 else _of_numbers(outputs, labels))


def _of_classes(outputs: Tensor, labels: Tensor) -> Iterator[tuple[str, float]]:
    numbers = labels.long()
    if not bool((numbers == labels).all()) or not 0 <= int(numbers.min()) <= int(numbers.max()) < outputs.shape[1]:
        return
    hits = (outputs.argmax(1) == numbers).double().mean().item()
    yield "accuracy", hits
    yield "error rate", 1 - hits
    yield "cross entropy", nn.functional.cross_entropy(outputs, numbers).item()


def _of_numbers(outputs: Tensor, labels: Tensor) -> Iterator[tuple[str, float]]:
    if bool(((labels == 0) | (labels == 1)).all()):
        for threshold in (0.0, 0.5):
            yield f"accuracy at {threshold}", ((outputs > threshold) == labels.bool()).double().mean().item()
        yield from _ranked(outputs, labels.bool())
    if bool((outputs == outputs.round()).all()):  # decisions of the model itself
        yield "accuracy", (outputs == labels).double().mean().item()
    error = outputs - labels
    squared = error.square().mean().item()
    yield "mse", squared
    yield "rmse", squared**0.5
    yield "mae", error.abs().mean().item()
    spread, own = labels.std(correction=0).item(), outputs.std(correction=0).item()
    if spread > 0 and own > 0:
        together = ((outputs - outputs.mean()) * (labels - labels.mean())).mean().item()
        yield "correlation", together / (spread * own)
        yield "R2", 1 - squared / spread**2


def _ranked(outputs: Tensor, positive: Tensor) -> Iterator[tuple[str, float]]:
    """AUC, with ties counted half."""
    ones = int(positive.sum())
    if 0 < ones < len(positive):
        _, where, counts = torch.unique(outputs, return_inverse=True, return_counts=True)
        ranks = (counts.cumsum(0) - (counts - 1) / 2)[where]
        above = ranks[positive].sum().item() - ones * (ones + 1) / 2
        yield "AUC", above / (ones * (len(positive) - ones))
