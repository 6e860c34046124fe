"""How well the targets of rows can be predicted from the rows, by a probe that needs no training loop.

Nearest neighbors and ridge regression, cross-validated in two halves; the better of the two counts. Deterministic: it
draws no random number.
"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["Probed", "differs_by_call", "probe"]

MOST_ROWS: Final = 800
LEAST_ROWS: Final = 200
LEAST_OF_CLASS: Final = 20
NEIGHBORS: Final = 7
RIDGE: Final = 0.05


class Probed(NamedTuple):
    score: float  # share of targets predicted; of amounts: R2 of their ranks
    chance: float  # the same without looking at the rows
    rows: int


def probe(rows: Tensor, targets: Tensor, classes: bool) -> Probed | None:
    """How well targets are predicted from rows; None: too few rows. Equally many rows of each class are used, so a
    frequent class is worth no more than a rare one; classes with few rows are left out."""
    chosen = _balanced(targets) if classes else torch.arange(len(rows))
    chosen = chosen[:: max(1, -(-len(chosen) // MOST_ROWS))]
    if len(chosen) < LEAST_ROWS:
        return None
    flat = rows[chosen].reshape(len(chosen), -1).double()
    flat = torch.nan_to_num((flat - flat.mean(0)) / flat.std(0).clamp_min(1e-9), 0.0).clamp(-10, 10)
    if classes:
        _, wanted = torch.unique(targets[chosen], return_inverse=True)
        answers = torch.nn.functional.one_hot(wanted).double()
    else:
        wanted = _ranks(targets[chosen])
        answers = wanted.unsqueeze(1)
    halves = torch.arange(len(flat)) % 2 == 0
    scores = []
    for predict in (_neighbors, _ridge):
        predicted = torch.zeros_like(answers)
        for side in (halves, ~halves):
            predicted[~side] = predict(flat[side], answers[side], flat[~side])
        scores.append(_score(predicted, answers, wanted, classes))
    chance = 1 / answers.shape[1] if classes else 0.0
    return Probed(max(scores), chance, len(chosen))


def differs_by_call(calls: list[tuple[Tensor, Tensor]], classes: bool) -> bool:
    """Rows predict the targets within single calls: tasks that change from call to call, as in meta-learning."""
    gains, total = [], 0
    for rows, targets in calls:
        if len(rows) < 8 or len(torch.unique(targets)) < 2:
            continue
        flat = rows.reshape(len(rows), -1).double()
        flat = torch.nan_to_num((flat - flat.mean(0)) / flat.std(0).clamp_min(1e-9), 0.0)
        distances = torch.cdist(flat, flat).fill_diagonal_(float("inf"))
        nearest = targets.double()[distances.argmin(1)]
        own = targets.double()
        others = (own.unsqueeze(0) == own.unsqueeze(1)) if classes else (own.unsqueeze(0) - own.unsqueeze(1)).abs()
        expected = (others.double().sum(1) - float(classes)).div(len(own) - 1)
        found = (nearest == own).double() if classes else (nearest - own).abs()
        scale = 1.0 if classes else expected.mean().item()
        gains.append((found - expected).sum().item() * (1 if classes else -1) / scale)
        total += len(rows)
    return total >= LEAST_ROWS // 2 and sum(gains) / total > 0.15


def _balanced(targets: Tensor) -> Tensor:
    """Places of equally many rows of each class, in their order."""
    values, counts = torch.unique(targets, return_counts=True)
    kept = values[counts >= LEAST_OF_CLASS]
    if len(kept) < 2:
        return torch.arange(0)
    least = int(counts[counts >= LEAST_OF_CLASS].min())
    places: Tensor = torch.cat([(targets == value).nonzero()[:least, 0] for value in kept]).sort().values
    return places


def _ranks(targets: Tensor) -> Tensor:
    """-1 to 1: an outlier is no more than the largest."""
    _, inverse = torch.unique(targets.double(), return_inverse=True)
    ranks = inverse.double()
    scaled: Tensor = (ranks - ranks.mean()) / ranks.std().clamp_min(1e-12)
    return scaled


def _score(predicted: Tensor, answers: Tensor, wanted: Tensor, classes: bool) -> float:
    if classes:
        return (predicted.argmax(1) == wanted).double().mean().item()
    return 1 - ((predicted - answers) ** 2).mean().item() / max(1e-12, answers.var(correction=0).item())


def _neighbors(known: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
    nearest = torch.cdist(asked, known).topk(min(NEIGHBORS, len(known)), largest=False).indices
    return answers[nearest].mean(1)


def _ridge(known: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
    """Linear regression on the rows and a constant, regularized: solvable for any number of columns."""
    one = torch.ones(len(known), 1, dtype=known.dtype)
    left = torch.cat([known, one], 1)
    square = left.T @ left + RIDGE * len(known) * torch.eye(left.shape[1], dtype=known.dtype)
    weights: Tensor = torch.linalg.solve(square, left.T @ answers)
    return torch.cat([asked, torch.ones(len(asked), 1, dtype=asked.dtype)], 1) @ weights
