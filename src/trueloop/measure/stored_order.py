"""Rows and targets in the order in which they are stored: do they belong together, from the first row to the last?

Out-of-fold predictions of a small probe (nearest neighbors, ridge regression) are compared with the targets of the same
row, of the rows before and after it, and, row by row, with the codes of classes. Draws no random number.
"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from trueloop.measure.alignments import text_orders
from trueloop.measure.probe import neighbors, numbers_of_rows, ridge, standardized

__all__ = ["SHIFTS", "Constant", "Order", "Part", "Renamed", "Reordered", "StoredTable", "examine", "reordered"]

SHIFTS: Final = 8
CHUNK: Final = 32  # rows in a row on one side of the cross-validation: neighbors in time are on the same side
LEAST_ROWS: Final = 200
LEAST_REORDERED: Final = 150  # of a sample: rows whose target in a different order is in the sample too
MOST_CODES: Final = 20
MOST_COLUMNS: Final = 8  # of the targets
WIDEST: Final = 256  # numbers in a row
COPY: Final = 0.999  # correlation of ranks: the target of another row is one of the inputs
LEAST_PART: Final = 80
LEAST_OF_CODE: Final = 10
SURELY: Final = 0.5  # of the rows with a code: they look like those of one different code
SPREAD: Final = 5  # rows with a value that is a code, on average


class StoredTable(NamedTuple):
    rows: Tensor
    targets: Tensor  # one row for each
    places: Tensor  # their numbers in the stored order; rows of a run have numbers in a row


class Part(NamedTuple):
    """A stretch of rows."""

    first: int
    last: int
    rows: int  # of the sample


class Renamed(NamedTuple):
    part: Part
    codes: tuple[tuple[float, float], ...]  # a code there, and the one that its rows have elsewhere
    agree: float  # share of the rows there whose code is predicted, after renaming
    before: float  # the same without
    elsewhere: float  # the same of the other rows


class Constant(NamedTuple):
    """A stretch that has one code only, though its rows look like those of several."""

    part: Part
    code: float
    recall: float  # share of its rows that are taken for this code
    elsewhere: float  # the same of the other rows with this code
    apart: float  # how far the codes that the rows are taken for differ from those of the others; 1 at most


class Order(NamedTuple):
    rows: int
    classes: int  # 0: amounts
    scores: tuple[float, ...]
    """Correlation of predictions with the targets of the row at each distance, from -8 to 8."""
    shift: int  # with the best score
    copied: bool  # at that distance the target is a copy of an input: a forecast
    related: float  # largest correlation of a column of the inputs with the same column of the next row
    halves: tuple[int, int] = (0, 0)  # the distance at which the score stands out, in each half of the rows
    kinks: tuple[float, ...] = ()  # by how much the score of each distance stands out
    part: Part | None = None  # rows that are shifted, if not all of them are
    part_shift: int = 0
    part_scores: tuple[float, float, float] = (0.0, 0.0, 0.0)  # there at their shift, there without, elsewhere without
    renamed: Renamed | None = None
    constant: Constant | None = None


class Reordered(NamedTuple):
    """Targets in a known different order than their rows."""

    order: str
    rows: int  # whose target in that order is known
    score: float  # correlation of predictions with those targets
    own: float  # the same with the targets of the rows
    example: tuple[int, int]  # a row, and the row whose target belongs to it


class _Answers(NamedTuple):
    """Targets as columns of mean 0 and deviation 1, with those of the rows at each distance beside."""

    own: Tensor  # [n, m]
    shifted: Tensor  # [n, shifts, m]
    known: Tensor  # [n, shifts]: there is such a row
    classes: int


def examine(table: StoredTable) -> Order | None:
    """None: too few rows, or targets that do not vary."""
    known = _numbers(table)
    if known is None:
        return None
    flat, targets, places, answers = known
    predicted = _predicted(flat, answers)
    products = (predicted * answers.shifted).mean(2)
    scores = products.sum(0) / answers.known.sum(0)
    best = int(scores.argmax())
    middle = len(flat) // 2
    halves = [int(_kinks(half.sum(0)).argmax()) - SHIFTS for half in (products[:middle], products[middle:])]
    found = Order(
        len(flat), answers.classes, tuple(scores.tolist()), best - SHIFTS, _copied(flat, answers, best),
        _related(flat, places), (halves[0], halves[1]), tuple(_kinks(scores).tolist()),
    )  # fmt: skip
    if best != SHIFTS:
        return found
    if answers.classes and targets.shape[1] == 1:
        codes = _Codes(flat, targets[:, 0])
        found = found._replace(renamed=codes.renamed(places), constant=codes.constant(places))
    if found.renamed is None and found.constant is None:
        found = _shifted_part(found, predicted[:, SHIFTS], answers, places)
    return found


def reordered(table: StoredTable, length: int) -> Reordered | None:
    """The targets in the text order of row numbers, or the rows: the order that predicts best; None: too few rows."""
    known = _numbers(table)
    if known is None:
        return None
    flat, _, places, answers = known
    at = torch.full((length,), -1)
    at[places] = torch.arange(len(places))
    best: Reordered | None = None
    for name, order in text_orders(length).items():
        there = at[torch.from_numpy(order)[places]]
        rows = (there >= 0).nonzero()[:, 0]
        if len(rows) < LEAST_REORDERED:
            continue
        scores = [_score(flat[rows], answers.own[targets]) for targets in (there[rows], rows)]
        if best is None or scores[0] > best.score:
            first = rows[(there[rows] != rows).nonzero()[0]]
            best = Reordered(name, len(rows), scores[0], scores[1], (int(places[first]), int(places[there[first]])))
    return best


def _score(flat: Tensor, wanted: Tensor) -> float:
    """Correlation of targets with their predictions from the rows, out of fold, by the better probe."""
    side = torch.arange(len(flat)) // CHUNK % 2 == 0
    scores: list[float] = []
    for predict in (neighbors, ridge):
        found = torch.zeros_like(wanted)
        for half in (side, ~side):
            found[~half] = predict(flat[half], wanted[half], flat[~half])
        one, other = (t - t.mean(0) for t in (found, wanted))
        scores.append(((one * other).sum(0) / (one.norm(dim=0) * other.norm(dim=0)).clamp_min(1e-12)).mean().item())
    return max(scores)


def _numbers(table: StoredTable) -> tuple[Tensor, Tensor, Tensor, _Answers] | None:
    """Finite rows as standardized numbers, with their targets, their places and the targets around them."""
    finite = table.rows.reshape(len(table.rows), -1).double().isfinite().all(1)
    rows, targets, places = (t[finite] for t in table)
    targets = targets.reshape(len(targets), -1).double()[:, :MOST_COLUMNS]
    if len(rows) < LEAST_ROWS or not bool(targets.isfinite().all()):
        return None
    targets = targets[:, (targets != targets[:1]).any(0)]
    answers = _answers(targets, places) if targets.shape[1] else None
    if answers is None:
        return None
    flat = numbers_of_rows(rows)
    flat = flat[:, (flat != flat[:1]).any(0)]
    if not flat.shape[1]:
        return None
    flat = flat[:, :: -(-flat.shape[1] // WIDEST)]
    return standardized(flat, flat), targets, places, answers


def _kinks(scores: Tensor) -> Tensor:
    """Each score less the mean of its neighbors; none at the ends."""
    kinks = torch.zeros_like(scores)
    kinks[1:-1] = scores[1:-1] - (scores[:-2] + scores[2:]) / 2
    return kinks


def _related(flat: Tensor, places: Tensor) -> float:
    here = (places[1:] - places[:-1] == 1).nonzero()[:, 0]
    return (flat[here] * flat[here + 1]).mean(0).abs().max().item() if len(here) else 0.0


def _answers(targets: Tensor, places: Tensor) -> _Answers | None:
    columns, classes = [], 0
    for column in targets.T:
        values, inverse, counts = torch.unique(column, return_inverse=True, return_counts=True)
        if len(values) <= MOST_CODES and len(column) >= SPREAD * len(values):
            enough = counts >= LEAST_OF_CODE
            if int(enough.sum()) < 2:
                continue
            classes = max(classes, int(enough.sum()))
            columns += list(torch.nn.functional.one_hot(inverse, len(values)).double()[:, enough].T)
        else:
            columns.append(column.argsort().argsort().double())
    if not columns:
        return None
    own = torch.stack(columns, 1)
    own = (own - own.mean(0)) / own.std(0).clamp_min(1e-12)
    size = len(own)
    shifted, known = own.new_zeros(size, 2 * SHIFTS + 1, own.shape[1]), own.new_zeros(size, 2 * SHIFTS + 1)
    for index, shift in enumerate(range(-SHIFTS, SHIFTS + 1)):
        here = torch.arange(max(0, -shift), min(size, size - shift))
        here = here[places[here + shift] - places[here] == shift]
        shifted[here, index], known[here, index] = own[here + shift], 1.0
    return _Answers(own, shifted, known, classes)


def _predicted(flat: Tensor, answers: _Answers) -> Tensor:
    """[n, shifts, m]: by the better of the two probes, columns of deviation 1."""
    wanted = answers.shifted.flatten(1)
    side = torch.arange(len(flat)) // CHUNK % 2 == 0
    best: tuple[float, Tensor] | None = None
    for predict in (neighbors, ridge):
        found = torch.zeros_like(wanted)
        for half in (side, ~side):
            found[~half] = predict(flat[half], wanted[half], flat[~half])
        found = ((found - found.mean(0)) / found.std(0).clamp_min(1e-12)).reshape(answers.shifted.shape)
        score = (found * answers.shifted).sum((0, 2)).max().item()
        if best is None or score > best[0]:
            best = score, found
    assert best is not None
    return best[1]


def _copied(flat: Tensor, answers: _Answers, index: int) -> bool:
    """The target of the other row is a column of the inputs."""
    inside = answers.known[:, index] > 0
    target, columns = answers.shifted[inside, index], flat[inside]
    order = columns.argsort(0).argsort(0).double()
    for values in (columns, order):
        scaled = (values - values.mean(0)) / values.std(0).clamp_min(1e-12)
        if bool(((target.T @ scaled).abs() / len(scaled) >= COPY).any()):
            return True
    if answers.classes:  # a threshold in a column gives the class
        for marked in (target > target.mean(0)).T:
            count = int(marked.sum())
            wins = (order[marked].sum(0) - count * (count - 1) / 2) / max(1, count * (len(order) - count))
            if bool(((wins - 0.5).abs() >= COPY / 2).any()):
                return True
    return False


# -- parts of the rows --


def _stretch(gains: Tensor) -> tuple[int, int]:
    """The stretch with the largest sum: its first row, and the one after its last."""
    sums = torch.cat([gains.new_zeros(1), gains.cumsum(0)])
    lowest = sums.cummin(0)
    end = int((sums - lowest.values).argmax())
    return int(lowest.indices[end]), end


def _part(places: Tensor, first: int, end: int) -> Part:
    return Part(int(places[first]), int(places[end - 1]), end - first)


def _shifted_part(found: Order, predicted: Tensor, answers: _Answers, places: Tensor) -> Order:
    """Rows in a row whose targets fit only at a distance, while the others fit at none."""
    agree = (predicted.unsqueeze(1) * answers.shifted).mean(2)  # [n, shifts]
    best = (0.0, 0, 0, 0)
    for index in range(agree.shape[1]):
        if index != SHIFTS:
            gains = (agree[:, index] - agree[:, SHIFTS]) * answers.known[:, index]
            first, end = _stretch(gains)
            best = max(best, (gains[first:end].sum().item(), index, first, end))
    _, index, first, end = best
    if end - first < LEAST_PART or len(agree) - (end - first) < LEAST_PART:
        return found
    inside = torch.zeros(len(agree), dtype=torch.bool)
    inside[first:end] = True
    scores = (agree[inside, index].mean(), agree[inside, SHIFTS].mean(), agree[~inside, SHIFTS].mean())
    shift = index - SHIFTS
    a, b, c = (score.item() for score in scores)
    return found._replace(part=_part(places, first, end), part_shift=shift, part_scores=(a, b, c))


class _Codes:
    """Predictions of classes, out of fold, from the rows that are trusted."""

    def __init__(self, flat: Tensor, targets: Tensor) -> None:
        self.flat = flat
        self.values, self.codes = torch.unique(targets, return_inverse=True)
        self.answers = torch.nn.functional.one_hot(self.codes, len(self.values)).double()
        self.side = torch.arange(len(flat)) // CHUNK % 2 == 0

    def guess(self, trusted: Tensor) -> Tensor:
        """By the better of the two probes."""
        best: tuple[float, Tensor] | None = None
        for predict in (neighbors, ridge):
            found = torch.zeros_like(self.answers)
            for half in (self.side, ~self.side):
                found[~half] = predict(self.flat[half & trusted], self.answers[half & trusted], self.flat[~half])
            guessed = found.argmax(1)
            score = (guessed == self.codes)[trusted].double().mean().item()
            if best is None or score > best[0]:
                best = score, guessed
        assert best is not None
        return best[1]

    def _without(self, first: int, end: int) -> Tensor | None:
        """All other rows; None: too few on a side."""
        if end - first < LEAST_PART or len(self.codes) - (end - first) < LEAST_PART:
            return None
        trusted = torch.ones(len(self.codes), dtype=torch.bool)
        trusted[first:end] = False
        return trusted

    def renamed(self, places: Tensor) -> Renamed | None:
        """Rows in a row whose codes are, one to one, those of others elsewhere."""
        trusted: Tensor | None = torch.ones(len(self.codes), dtype=torch.bool)
        first = end = 0
        for attempt in range(3):
            assert trusted is not None
            hits = (self.guess(trusted) == self.codes).double()
            first, end = _stretch(hits.mean() - hits if not attempt else hits[trusted].mean() / 2 - hits)
            trusted = self._without(first, end)
            if trusted is None:
                return None
        assert trusted is not None
        guessed = self.guess(trusted)
        names = self._names(guessed, ~trusted)
        moved = {code: other for code, other in names.items() if code != other}
        if len(moved) < 2 or len(set(names.values())) < len(names):
            return None
        elsewhere = torch.bincount(self.codes[trusted], minlength=len(self.values))
        if sum(int(elsewhere[code]) < LEAST_OF_CODE for code in moved) > 1:
            return None  # rows sorted by class: no row elsewhere shows what these codes look like
        mapped = self.codes.clone()
        for code, other in names.items():
            mapped[self.codes == code] = other
        hits = (guessed == self.codes).double()
        agree = (guessed == mapped)[~trusted].double().mean().item()
        pairs = tuple((self.values[a].item(), self.values[b].item()) for a, b in moved.items())
        scores = agree, hits[~trusted].mean().item(), hits[trusted].mean().item()
        return Renamed(_part(places, first, end), pairs, *scores)

    def _names(self, guessed: Tensor, inside: Tensor) -> dict[int, int]:
        """The code that most rows of each code are taken for; none, if for some code there is no such."""
        names: dict[int, int] = {}
        for code in torch.unique(self.codes[inside]).tolist():
            chosen = inside & (self.codes == code)
            counts = torch.bincount(guessed[chosen], minlength=len(self.values))
            if int(chosen.sum()) >= LEAST_OF_CODE:
                if int(counts.max()) < SURELY * int(chosen.sum()):
                    return {}
                names[code] = int(counts.argmax())
        return names

    def constant(self, places: Tensor) -> Constant | None:
        """The longest stretch of one code, if its rows look like those of several codes."""
        changes = (self.codes[1:] != self.codes[:-1]).nonzero()[:, 0] + 1
        bounds = torch.cat([changes.new_zeros(1), changes, changes.new_full((1,), len(self.codes))])
        longest = int((bounds[1:] - bounds[:-1]).argmax())
        first, end = int(bounds[longest]), int(bounds[longest + 1])
        trusted = self._without(first, end)
        if trusted is None:
            return None
        same = trusted & (self.codes == self.codes[first])
        if min(int(same.sum()), int((trusted & ~same).sum())) < LEAST_PART // 2:
            return None
        guessed = self.guess(trusted)
        hits = (guessed == self.codes).double()
        shares = [
            torch.bincount(guessed[side], minlength=len(self.values)) / side.sum() for side in (trusted, ~trusted)
        ]
        apart = (shares[0] - shares[1]).abs().sum().item() / 2
        value = self.values[self.codes[first]].item()
        return Constant(_part(places, first, end), value, hits[~trusted].mean().item(), hits[same].mean().item(), apart)
