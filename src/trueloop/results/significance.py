"""Can two settings be told apart, given their values over several seeds? Student's t, paired by seed where possible."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance
from typing import Final

__all__ = ["MOST_SEEDS", "Difference", "adjusted", "difference_of", "seeds_needed", "two_sided_p"]

POWER: Final = 0.8  # Probability that the advised number of seeds shows a real difference
ROUNDING: Final = 1e-9  # A smaller share of the spread is no difference
FEW: Final = 4  # Seeds, below which the spread of pairs is not trusted alone
MOST_SEEDS: Final = 64  # More are not advised
FRACTIONS: Final = 300  # Terms of the continued fraction, at most
SMALLEST: Final = 1e-300


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the means of two settings, in favor of the first."""

    mean: float
    spread: float  # Standard deviation of one difference, for planning; from few seeds the larger of two estimates
    p: float | None  # Two-sided; None: one value each shows no noise
    paired: bool  # By seed; False: Welch's test
    n: int  # Values of the setting that has fewer


def difference_of(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """Values by seed."""
    common = sorted(first.keys() & second.keys())
    if len(common) >= 2:
        pairs = [first[seed] - second[seed] for seed in common]
        mean, spread, n = fmean(pairs), stdev(pairs), len(pairs)
        p = _p(mean, spread / math.sqrt(n), n - 1, n)
        if n < FEW:  # pairs that agree by chance would promise too much
            unpaired = sum(variance([values[seed] for seed in common]) for values in (first, second))
            spread = max(spread, math.sqrt(unpaired))
        return Difference(mean, spread, p, paired=True, n=n)
    one, other = list(first.values()), list(second.values())
    mean, n = fmean(one) - fmean(other), min(len(one), len(other))
    if n < 2:
        return Difference(mean, 0.0, None, paired=False, n=n)
    shares = [variance(values) / len(values) for values in (one, other)]
    error = math.sqrt(sum(shares))
    below = sum(share**2 / (len(values) - 1) for share, values in zip(shares, (one, other), strict=True))
    freedom = sum(shares) ** 2 / below if below else float(n - 1)
    return Difference(mean, error * math.sqrt(n), _p(mean, error, freedom, n), paired=False, n=n)


def _p(mean: float, error: float, freedom: float, n: int) -> float:
    if error > 0:
        return two_sided_p(mean / error, freedom)
    # Values that are all equal (a coarse metric, few seeds) would look certain: the sign test says how certain.
    return 1.0 if mean == 0 else min(1.0, 2 * 0.5**n)


def adjusted(values: Sequence[float]) -> list[float]:
    """p-values after Holm's correction: one of several comparisons is small by chance more often than one alone."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    result, largest = [1.0] * len(values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        result[index] = largest
    return result


def seeds_needed(difference: Difference, level: float) -> int | None:
    """Seeds of each setting that would show a difference of this size in 4 of 5 sweeps; None: too many."""
    if abs(difference.mean) <= ROUNDING * difference.spread:
        return None
    certain = math.ceil(math.log2(2 / level)) if difference.spread == 0 else 2  # by the sign test
    for n in range(max(certain, difference.n + 1), MOST_SEEDS + 1):
        needed = _quantile(1 - level / 2, n - 1) + _quantile(POWER, n - 1)
        if abs(difference.mean) * math.sqrt(n) >= needed * difference.spread:
            return n
    return None


# -- Student's t --


def two_sided_p(t: float, freedom: float) -> float:
    """The probability of a larger |t| by chance."""
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _quantile(share: float, freedom: float) -> float:
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - two_sided_p(middle, freedom) / 2 < share else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Its continued fraction, by Lentz's method."""
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > SMALLEST else SMALLEST)
    c, value = 1.0, d
    for m in range(1, FRACTIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > SMALLEST else SMALLEST)
            c = 1 + term / c
            c = c if abs(c) > SMALLEST else SMALLEST
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value
