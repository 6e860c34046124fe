"""Rows that a model of normal data was fitted to, and that lie among the rows its evaluation calls anomalies."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["Contamination", "contamination"]

NEAREST: Final = 5  # evaluated rows around a row
LEAST_TRAINED: Final = 150
LEAST_EVALUATED: Final = 30  # of each of the two classes
COMPACT: Final = 0.5  # of the anomalies have only anomalies around them: with fewer, nearness says nothing


class Contamination(NamedTuple):
    trained: int
    anomalies: int  # evaluated
    share: float  # of the trained rows: all evaluated rows around them are anomalies
    expected: float  # the same of the evaluated normal rows
    compact: float  # the same of the evaluated anomalies


def contamination(trained: Tensor, evaluated: Tensor, anomalous: Tensor) -> Contamination | None:
    """`anomalous`: of each evaluated row. The evaluated normal rows are the control: what training rows of normal data
    look like, they look like too. None: too few rows, or anomalies that do not lie together."""
    counts = int(anomalous.sum()), int((~anomalous).sum())
    if len(trained) < LEAST_TRAINED or min(counts) < LEAST_EVALUATED or trained.shape[1] != evaluated.shape[1]:
        return None
    if not bool(trained.isfinite().all() and evaluated.isfinite().all()):
        return None
    mean, spread = evaluated.mean(0), evaluated.std(0).clamp_min(1e-6)
    trained, evaluated = (trained - mean) / spread, (evaluated - mean) / spread
    share = _surrounded(torch.cdist(trained, evaluated), anomalous).mean().item()
    among = torch.cdist(evaluated, evaluated).fill_diagonal_(torch.inf)
    surrounded = _surrounded(among, anomalous)
    compact, expected = surrounded[anomalous].mean().item(), surrounded[~anomalous].mean().item()
    if compact < COMPACT:
        return None
    return Contamination(len(trained), counts[0], share, expected, compact)


def _surrounded(distances: Tensor, anomalous: Tensor) -> Tensor:
    """Are all of the nearest rows anomalies?"""
    nearest = distances.topk(NEAREST, dim=1, largest=False).indices
    return anomalous[nearest].all(1).double()
