"""How well the targets of rows can be predicted from the rows, by a probe that needs no training loop.

Nearest neighbors and ridge regression, cross-validated in two halves; the better of the two counts. Deterministic: it
draws no random number.
"""

from typing import Final

import torch
from torch import Tensor

__all__ = ["probe"]

MOST_ROWS: Final = 800
NEIGHBORS: Final = 7
RIDGE: Final = 0.05


def probe(rows: Tensor, targets: Tensor, classes: bool) -> tuple[float, float]:
    """Share of targets predicted, and by the majority alone; of amounts R2, and 0."""
    step = max(1, -(-len(rows) // MOST_ROWS))
    flat = rows[::step].reshape(len(rows[::step]), -1).double()
    wanted = targets[::step].double()
    flat = torch.nan_to_num((flat - flat.mean(0)) / flat.std(0).clamp_min(1e-9), 0.0).clamp(-10, 10)
    if classes:
        _, wanted = torch.unique(wanted, return_inverse=True)
        answers = torch.nn.functional.one_hot(wanted).double()
    else:
        answers = ((wanted - wanted.mean()) / wanted.std().clamp_min(1e-12)).unsqueeze(1)
    halves = torch.arange(len(flat)) % 2 == 0
    scores = []
    for predict in (_neighbors, _ridge):
        predicted = torch.zeros_like(answers)
        for side in (halves, ~halves):
            predicted[~side] = predict(flat[side], answers[side], flat[~side])
        scores.append(_score(predicted, answers, wanted, classes))
    chance = answers.mean(0).max().item() if classes else 0.0
    return max(scores), chance


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
