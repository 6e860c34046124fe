"""How well the targets of rows can be predicted from the rows, by a probe that needs no training loop.

Nearest neighbors and ridge regression, cross-validated in two halves; the better of the two counts. Deterministic: it
draws no random number.
"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["Probed", "differs_by_call", "neighbors", "numbers_of_rows", "probe", "ridge", "standardized", "transfer"]

MOST_ROWS: Final = 800
LEAST_ROWS: Final = 200
FEW_ROWS: Final = 140  # of a probe that is asked about its own rows
LEAST_OF_CLASS: Final = 20
NEIGHBORS: Final = 7
RIDGE: Final = 0.05
BUCKETS: Final = 512  # of a bag of tokens


class Probed(NamedTuple):
    score: float  # share of targets predicted; of amounts: R2 of their ranks
    chance: float  # the same without looking at the rows
    rows: int


def probe(rows: Tensor, targets: Tensor, classes: bool) -> Probed | None:
    """How well targets are predicted from rows; None: too few rows. Equally many rows of each class are used, so a
    frequent class is worth no more than a rare one; classes with few rows are left out."""
    chosen = _balanced(targets) if classes else torch.arange(len(rows))
    chosen = _spread(chosen)
    if len(chosen) < FEW_ROWS:
        return None
    flat = numbers_of_rows(rows[chosen])
    flat = standardized(flat, flat)
    if classes:
        _, wanted = torch.unique(targets[chosen], return_inverse=True)
        answers = torch.nn.functional.one_hot(wanted).double()
    else:
        wanted = _ranks(targets[chosen])
        answers = wanted.unsqueeze(1)
    halves = torch.arange(len(flat)) % 2 == 0
    scores = []
    for predict in (neighbors, ridge):
        predicted = torch.zeros_like(answers)
        for side in (halves, ~halves):
            predicted[~side] = predict(flat[side], answers[side], flat[~side])
        scores.append(_score(predicted, answers, wanted, classes))
    chance = 1 / answers.shape[1] if classes else 0.0
    return Probed(max(scores), chance, len(chosen))


def transfer(rows: Tensor, targets: Tensor, other_rows: Tensor, other_targets: Tensor, classes: bool) -> Probed | None:
    """How well a probe that is fitted to rows predicts the targets of other rows; of amounts: the correlation of ranks.

    None: too few rows on a side."""
    if classes:
        both = [
            v for v in torch.unique(targets).tolist() if min(int((t == v).sum()) for t in (targets, other_targets)) >= 8
        ]
        inside = [torch.isin(t, torch.tensor(both, dtype=t.dtype)) for t in (targets, other_targets)]
        rows, targets, other_rows, other_targets = (
            rows[inside[0]], targets[inside[0]], other_rows[inside[1]], other_targets[inside[1]]
        )  # fmt: skip
        sides = [_balanced(t, 8) for t in (targets, other_targets)]
    else:
        sides = [torch.arange(len(t)) for t in (targets, other_targets)]
    fitted, asked = (_spread(side) for side in sides)
    if len(fitted) < LEAST_ROWS or len(asked) < LEAST_ROWS // 2:
        return None
    known = numbers_of_rows(rows[fitted])
    other = standardized(numbers_of_rows(other_rows[asked]), known)
    known = standardized(known, known)
    if classes:
        _, wanted = torch.unique(torch.cat([targets[fitted], other_targets[asked]]), return_inverse=True)
        answers = torch.nn.functional.one_hot(wanted[: len(fitted)]).double()
        wanted = wanted[len(fitted) :]
    else:
        answers, wanted = _ranks(targets[fitted]).unsqueeze(1), _ranks(other_targets[asked])
    scores = []
    for predict in (neighbors, ridge):
        predicted = predict(known, answers, other)
        if classes:
            scores.append((predicted.argmax(1) == wanted).double().mean().item())
        else:
            one = predicted[:, 0] - predicted.mean()
            scores.append((one @ wanted / (one.norm() * wanted.norm()).clamp_min(1e-12)).item())
    return Probed(max(scores), 1 / answers.shape[1] if classes else 0.0, len(asked))


def _spread(places: Tensor) -> Tensor:
    """At most as many as a probe is given, evenly spaced."""
    if len(places) <= MOST_ROWS:
        return places
    return places[torch.linspace(0, len(places) - 1, MOST_ROWS, dtype=torch.float64).long()]


def numbers_of_rows(rows: Tensor) -> Tensor:
    """Numbers of each row; of tokens how often each occurs."""
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.is_floating_point:
        return flat.double()
    bags = torch.zeros(len(flat), BUCKETS, dtype=torch.double)
    return bags.scatter_add_(1, flat.long() % BUCKETS, torch.ones(flat.shape, dtype=torch.double)).log1p()


def standardized(rows: Tensor, by: Tensor) -> Tensor:
    """In place, where `rows` are numbers of its own: this runs at the end of a script, beside all its memory."""
    deviation, mean = by.std(0), by.mean(0)
    scaled = rows.sub_(mean).div_(deviation.clamp_min(1e-9))
    return scaled.masked_fill_(~(deviation > 1e-9), 0.0).nan_to_num_(0.0).clamp_(-10, 10)


def differs_by_call(calls: list[tuple[Tensor, Tensor]], classes: bool) -> bool:
    """Rows predict the targets within single calls: tasks that change from call to call, as in meta-learning."""
    gains, total = [], 0
    for rows, targets in calls:
        if len(rows) < 8 or len(torch.unique(targets)) < 2:
            continue
        flat = numbers_of_rows(rows)
        flat = standardized(flat, flat)
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


def _balanced(targets: Tensor, enough: int = LEAST_OF_CLASS) -> Tensor:
    """Places of equally many rows of each class, in their order."""
    values, counts = torch.unique(targets, return_counts=True)
    kept = values[counts >= enough]
    if len(kept) < 2:
        return torch.arange(0)
    least = int(counts[counts >= enough].min())
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


def neighbors(known: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
    """Squared distances, each less the square of the row that asks: `cdist` would copy both tables."""
    squares = torch.linalg.vector_norm(known, dim=1).square_()
    nearest = torch.addmm(squares, asked, known.T, alpha=-2).topk(min(NEIGHBORS, len(known)), largest=False).indices
    weights = answers.new_zeros(len(asked), len(known)).scatter_(1, nearest, 1 / nearest.shape[1])
    return weights @ answers


def ridge(known: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
    """Linear regression on the rows and a constant, regularized: solvable for any number of columns.

    With more columns than rows by the products of rows, which give the same and take less memory."""
    if known.shape[1] >= len(known):
        square = known @ known.T + 1
        square.diagonal().add_(RIDGE * len(known))
        answered: Tensor = (asked @ known.T + 1) @ torch.linalg.solve(square, answers)
        return answered
    one = torch.ones(len(known), 1, dtype=known.dtype)
    left = torch.cat([known, one], 1)
    square = left.T @ left
    square.diagonal().add_(RIDGE * len(known))
    weights: Tensor = torch.linalg.solve(square, left.T @ answers)
    return torch.cat([asked, torch.ones(len(asked), 1, dtype=asked.dtype)], 1) @ weights
